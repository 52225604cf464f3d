/* The picture of a neighbourhood, in pixels of the frame it stands in, so that letters stay
   readable on a phone. Returns the codes of the classes in it. */

const SMALLEST = 8, LARGEST = 19;

function drawNeighbourhood(svg, model, node, labels, neighbours, goTo) {
  const width = Math.max(svg.parentElement.clientWidth, 280), narrow = width < 560;
  const height = narrow ? Math.min(width * 1.15, 460) : 470;
  const { shown, edges } = neighbourhood(model, node, labels, neighbours, narrow ? 16 : 30);
  const reach = [width / 2 - (narrow ? 34 : 64), height / 2 - 36];
  const at = (one) => [width / 2 + one.x * reach[0], height / 2 - one.y * reach[1]];
  svg.replaceChildren();
  const rows = shown.map((one) => at(one)[1]);
  const top = Math.min(...rows) - 40, bottom = Math.max(...rows) + 40;
  svg.setAttribute("viewBox", `0 ${top} ${width} ${bottom - top}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", bottom - top);
  svg.setAttribute("aria-label", described(model, node, labels, shown));
  const draw = (tag, attributes, parent = svg) => {
    const element = document.createElementNS(svg.namespaceURI, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  };
  const write = (parent, x, y, kind, text) => {
    draw("text", { x, y, class: kind }, parent).textContent = text;
  };
  for (const [a, b] of edges) {
    const [x1, y1] = at(shown[a]), [x2, y2] = at(shown[b]);
    draw("line", { x1, y1, x2, y2 });
  }
  const codes = new Set();
  for (const one of [...shown].reverse()) {
    const [x, y] = at(one), isSource = one.share > 0, isCentre = one.node === node;
    const size = halfSize(isSource ? one.share : one.weight);
    const code = isSource ? model.given[one.node] : model.told(one.node);
    const group = draw("g", { class: `node c${code % 8}`, "data-node": one.node });
    group.addEventListener("click", () => goTo(one.node));
    draw("title", {}, group).textContent = hint(model, one, code);
    if (isSource) {
      draw("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, rx: 2 }, group);
    } else {
      draw("circle", { cx: x, cy: y, r: size }, group);
    }
    const ring = size * (isSource ? Math.SQRT2 : 1) + 6;
    if (isCentre) draw("circle", { cx: x, cy: y, r: ring, class: "ring" }, group);
    write(group, x, y, "mark", model.marks[code]);
    /* On a phone the heading names the node itself; its neighbours need the room. */
    const named = isCentre ? !narrow : isSource && one.share >= (narrow ? 0.08 : 0.03);
    const above = isCentre ? y - ring - 8 : y - size - 8;
    if (named) write(group, x, above, isCentre ? "name centre" : "name", cut(model.name(one.node), narrow ? 10 : 16));
    if (one.share >= 0.01) write(group, x, (isCentre ? y + ring : y + size) + 9, "share", percent(one.share, 0));
    codes.add(code);
  }
  return codes;
}

const halfSize = (share) => Math.max(SMALLEST, LARGEST * Math.sqrt(Math.min(share / 0.3, 1)));

function hint(model, one, code) {
  const what = one.share > 0
    ? `label ${model.classes[code]}, ${percent(one.share)} of the soft label`
    : `predicted ${model.classes[code]}`;
  const weight = one.weight > 0 ? `; ${percent(one.weight)} of the weight in the prediction` : "";
  return `${model.name(one.node)}: ${what}${weight}`;
}

function described(model, node, labels, shown) {
  const first = labels.parts.slice(0, 3)
    .map((part) => `${model.name(part.node)} (${model.classes[part.code]}) ${percent(part.share)}`);
  const sources = first.length ? ` Labels that count most: ${first.join(", ")}.` : "";
  return `Neighbourhood of ${model.name(node)}: ${shown.length} nodes.${sources} The tables below say the same.`;
}
