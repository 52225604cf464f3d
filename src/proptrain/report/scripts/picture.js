/* The picture of a neighbourhood, in pixels of the frame it stands in, so that letters stay
   readable on a phone. */

const SMALLEST = 8, LARGEST = 19;

/* Draws it anew and returns the codes of the classes in it; who chooses a node goes there. */
function drawNeighbourhood(svg, model, told, goTo) {
  const { node, sources, neighbours, holds } = told;
  const width = Math.max(svg.parentElement.clientWidth, 280), narrow = width < 560;
  const height = narrow ? Math.min(width * 1.15, 460) : 470;
  const reach = [width / 2 - (narrow ? 34 : 124), height / 2 - 36];
  const { shown, edges } = neighbourhood(model, node, sources, neighbours, narrow ? 16 : 30);
  for (const one of shown) {
    one.side = narrow || Math.abs(one.x) < 0.35 ? 0 : Math.sign(one.x);
    one.x = width / 2 + one.x * reach[0];
    one.y = height / 2 - one.y * reach[1];
    one.isCentre = one.node === node;
    one.isLabel = one.share > 0 || (holds && one.isCentre);
    one.code = one.isLabel ? model.given[one.node] : model.told(one.node);
    one.hint = hint(model, one, holds ? "what the other labels say" : "the soft label");
  }
  svg.replaceChildren();
  fitFrame(svg, width, shown.map((one) => one.y));
  svg.setAttribute("aria-label", described(model, told, shown.length));
  for (const [a, b] of edges) {
    draw(svg, "line", { x1: shown[a].x, y1: shown[a].y, x2: shown[b].x, y2: shown[b].y });
  }
  const [centre, ...others] = shown;
  for (const one of others) makeChoice(drawNode(svg, model, one), () => goTo(one.node));
  drawNode(svg, model, centre).setAttribute("role", "img"); /* on top; one is there already */
  /* Names are on top of all nodes; the buttons have them too, so they are read only once. */
  const names = draw(svg, "g", { "aria-hidden": "true" });
  for (const one of shown) writeBeside(names, model, one, narrow);
  return new Set(shown.map((one) => one.code));
}

/* Makes a drawn node a button, for the pointer and for the keyboard. */
function makeChoice(group, choose) {
  group.setAttribute("role", "button");
  group.setAttribute("tabindex", "0");
  group.addEventListener("click", choose);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault(); /* a space would scroll */
    choose();
  });
}

function fitFrame(svg, width, rows) {
  const top = Math.min(...rows) - 40, bottom = Math.max(...rows) + 40;
  svg.setAttribute("viewBox", `0 ${top} ${width} ${bottom - top}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", bottom - top);
}

function draw(parent, tag, attributes, text = "") {
  const element = document.createElementNS(parent.namespaceURI, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  parent.append(element);
  return element;
}

function drawNode(svg, model, one) {
  const { x, y, share, isLabel, isCentre, code } = one;
  const size = halfSize(share || one.weight);
  const group = draw(svg, "g", { class: `node c${code % 8}`, "data-node": one.node, "aria-label": one.hint });
  draw(group, "title", {}, one.hint);
  if (isLabel) draw(group, "rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, rx: 2 });
  else draw(group, "circle", { cx: x, cy: y, r: size });
  one.ring = isCentre ? size * (isLabel ? Math.SQRT2 : 1) + 6 : size;
  if (isCentre) draw(group, "circle", { cx: x, cy: y, r: one.ring, class: "ring" });
  draw(group, "text", { x, y, class: "mark" }, model.marks[code]);
  return group;
}

/* The name and the share: above and under a node, or on its outer side, where there is room. */
function writeBeside(group, model, { node, x, y, side, share, isCentre, ring }, narrow) {
  /* On a phone the heading names the node itself; its neighbours need the room. */
  const named = isCentre ? !narrow : share >= (narrow ? 0.08 : 0.02);
  const name = named ? cut(model.name(node), narrow ? 10 : 14) : "";
  const told = share >= 0.01 ? percent(share, 0) : "";
  if (side !== 0) {
    const place = { x: x + side * (ring + 5), y, class: side > 0 ? "name right" : "name left" };
    draw(group, "text", place, `${apart(name)} ${told}`.trim());
    return;
  }
  draw(group, "text", { x, y: y - ring - 8, class: isCentre ? "name centre" : "name" }, name);
  draw(group, "text", { x, y: y + ring + 9, class: "share" }, told);
}

const halfSize = (share) => Math.max(SMALLEST, LARGEST * Math.sqrt(Math.min(share / 0.3, 1)));

function hint(model, one, whole) {
  const what = `${one.isLabel ? "label" : "predicted"} ${apart(model.classes[one.code])}`;
  const share = one.share > 0 ? `, ${percent(one.share)} of ${whole}` : "";
  const weight = one.weight > 0 ? `; ${percent(one.weight)} of the weight in the prediction` : "";
  return `${apart(model.name(one.node))}: ${what}${share}${weight}`;
}

function described(model, { node, sources, holds }, count) {
  const first = sources.parts.slice(0, 3)
    .map((part) => `${model.name(part.node)} (${model.classes[part.code]}) ${percent(part.share)}`);
  const which = holds ? "Other labels" : "Labels";
  const most = first.length ? ` ${which} that count most: ${first.join(", ")}.` : "";
  return `Neighbourhood of ${model.name(node)}: ${counted(count, "node")}.${most} The tables below say the same.`;
}
