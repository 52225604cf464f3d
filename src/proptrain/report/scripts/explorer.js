/* The part of the page that explains a node: search, tables, picture. */

const N_FOUND = 8, N_PARTS = 10, N_STEPS = 14;
const byId = (id) => document.getElementById(id);
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const cut = (text, most) => {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
};
const counted = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/* An element of these children; text is only ever text. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function explore(model) {
  const state = { node: -1, without: new Set() };
  const labelOf = (code) => make(
    "span", { class: "class" },
    make("span", { class: `mark c${code % 8}`, "aria-hidden": "true" }, model.marks[code]),
    " ", make("span", { class: "class-name" }, model.classes[code]),
  );
  /* A share with a bar beside it, whose full length stands for `full`. */
  const bar = (share, code, full = 1) => {
    const cell = make("td", { class: "number bar" }, percent(share));
    cell.style.setProperty("--share", String(full > 0 ? Math.min(share / full, 1) : 0));
    if (code !== undefined) cell.classList.add(`c${code % 8}`);
    return cell;
  };
  const nodeButton = (node) => {
    const button = make("button", { type: "button", class: "link" }, model.name(node));
    button.addEventListener("click", () => goTo(node));
    return button;
  };
  const number = (text) => make("td", { class: "number" }, text);
  const rowName = (...children) => make("th", { scope: "row" }, ...children);
  const fill = (id, rows) => byId(id).querySelector("tbody").replaceChildren(...rows);

  /* Moves to another node; the heading takes the focus, since the button that was pressed goes. */
  function goTo(node) {
    show(node);
    byId("node-heading").focus();
  }

  function show(node) {
    state.node = node;
    state.without = new Set();
    byId("node-search").value = model.name(node);
    history.replaceState(null, "", `#node=${encodeURIComponent(model.name(node))}`);
    showProbabilities(node);
    showParts();
    say("");
  }

  function showProbabilities(node) {
    const told = model.told(node), given = model.given[node];
    const sentence = [`told `, labelOf(told), ` with ${percent(model.sureness(node))}`];
    const roles = [
      "; no label was given.",
      given === told ? ", the label it was given and trained on." : ". It was given and trained on ",
      given === told ? ", the label it was given, kept from training." : ". It was given, but not trained on, ",
    ];
    sentence.push(roles[model.role[node]]);
    if (given >= 0 && given !== told) sentence.push(labelOf(given), ".");
    byId("node-name").replaceChildren(model.name(node));
    byId("node-told").replaceChildren("It is ", ...sentence);
    const rows = [];
    let rest = 1;
    for (let k = 0; k < model.nTold; k += 1) {
      const code = model.toldClass[node * model.nTold + k];
      const share = model.toldShare[node * model.nTold + k] / 65535;
      rest -= share;
      rows.push(make("tr", {}, rowName(labelOf(code)), bar(share, code)));
    }
    const others = model.classes.length - model.nTold;
    if (others > 0) {
      const name = others === 1 ? "1 other class" : `${others} other classes`;
      rows.push(make("tr", { class: "rest" }, rowName(name), number(percent(Math.max(rest, 0)))));
    }
    fill("node-probabilities", rows);
  }

  function showParts() {
    const { node } = state;
    const labels = labelParts(model, node, state.without);
    const neighbours = model.f === null ? null : neighbourParts(model, node);
    showLabels(labels);
    if (neighbours !== null) showNeighbours(neighbours);
    showSteps(labels, neighbours);
    state.draw = () => {
      const drawn = drawNeighbourhood(byId("node-picture"), model, node, labels, neighbours, goTo);
      const listed = [labels, ...(neighbours === null ? [] : [neighbours])]
        .flatMap((sum) => sum.parts.slice(0, N_PARTS).map((part) => part.code));
      const codes = [...new Set([...drawn, ...listed])].sort((a, b) => a - b);
      byId("node-legend").replaceChildren(...codes.map((code) => make("li", {}, labelOf(code))));
    };
    state.draw();
    return labels;
  }

  function showLabels(labels) {
    byId("node-soft").replaceChildren(softLabel(labels));
    const rows = labels.parts.slice(0, N_PARTS).map((part) => {
      const leave = make(
        "button", { type: "button", class: "quiet-button", "aria-label": `Leave out the label of ${model.name(part.node)}` },
        "leave out",
      );
      leave.addEventListener("click", () => leaveOut(part.node));
      return make("tr", {}, rowName(nodeButton(part.node)), make("td", {}, labelOf(part.code)),
        bar(part.share, part.code, labels.parts[0].share), number(part.steps.toFixed(1)), make("td", { class: "number" }, leave));
    });
    rows.push(...restOf(labels.parts, "label", (share) => [make("td", {}), number(percent(share)), make("td", {}), make("td", {})]));
    fill("node-labels", rows);
    byId("node-labels-frame").hidden = rows.length === 0;
    const left = [...state.without].map((node) => {
      const button = make("button", { type: "button", class: "quiet-button" }, `put back ${model.name(node)}`);
      button.addEventListener("click", () => leaveOut(node));
      return button;
    });
    byId("node-without").hidden = left.length === 0;
    byId("node-without").replaceChildren("Left out: ", ...left.flatMap((button) => [button, " "]));
  }

  function softLabel(labels) {
    if (labels.whole === 0) return "No label reaches this node over the graph.";
    const order = [...labels.totals.keys()].filter((code) => labels.totals[code] > 0)
      .sort((a, b) => labels.totals[b] - labels.totals[a] || a - b);
    const shares = order.slice(0, 3)
      .map((code) => `${model.classes[code]} ${percent(labels.totals[code] / labels.whole)}`);
    const reach = labels.parts.length === 1 ? "1 label reaches" : `${counted(labels.parts.length, "label")} reach`;
    return `${reach} it, with ${labels.whole.toPrecision(3)} of a whole label: ${shares.join(", ")}.`;
  }

  /* Takes a label away, or puts it back, and says what that does. */
  function leaveOut(source) {
    const isBack = state.without.delete(source);
    if (!isBack) state.without.add(source);
    const labels = showParts();
    say(`${isBack ? "With" : "Without"} the label of ${model.name(source)}: ${softLabel(labels)}`);
    byId("node-soft").focus();
  }

  function restOf(parts, word, cells) {
    const rest = parts.slice(N_PARTS);
    if (!rest.length) return [];
    const share = rest.reduce((sum, part) => sum + part.share, 0);
    return [make("tr", { class: "rest" }, rowName(counted(rest.length, `other ${word}`)), ...cells(share))];
  }

  function showNeighbours(neighbours) {
    const told = model.told(state.node);
    byId("node-averaged").replaceChildren(
      "To its probability of ", labelOf(told), ", each node adds what the network says of it, times its weight.",
    );
    const rows = neighbours.parts.slice(0, N_PARTS).map((part) => make(
      "tr", {}, rowName(nodeButton(part.node)), make("td", {}, labelOf(part.code)),
      number(percent(neighbours.whole > 0 ? part.weight / neighbours.whole : 0)), number(percent(part.own)),
      bar(part.share, told, neighbours.parts[0].share), number(part.steps.toFixed(1)),
    ));
    rows.push(...restOf(neighbours.parts, "node", (share) => [
      make("td", {}), make("td", {}), make("td", {}), number(percent(share)), make("td", {})]));
    fill("node-neighbours", rows);
  }

  function showSteps(labels, neighbours) {
    const rows = [], all = [...labels.bySteps, ...(neighbours === null ? [] : neighbours.bySteps)];
    const full = Math.max(...all);
    labels.bySteps.forEach((share, steps) => {
      const other = neighbours === null ? 0 : neighbours.bySteps[steps];
      if (Math.max(share, other) < 0.0005 || rows.length === N_STEPS) return;
      const cells = neighbours === null ? [bar(share, undefined, full)]
        : [bar(share, undefined, full), bar(other, undefined, full)];
      rows.push(make("tr", {}, rowName(String(steps)), ...cells));
    });
    fill("node-steps", rows);
  }

  const say = (text) => { byId("node-status").textContent = text; };
  startSearch(model, (node) => {
    show(node);
    say(`${model.name(node)}: told ${model.classes[model.told(node)]} with ${percent(model.sureness(node))}.`);
  });
  byId("node-unsure").append(...model.unsure.flatMap((node) => [" ", nodeButton(node)]));
  byId("explorer").hidden = false;
  const asked = askedFor(model);
  show(asked >= 0 ? asked : model.start);
  new ResizeObserver(() => state.draw()).observe(byId("node-picture").parentElement);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-show-node]");
    if (link !== null) goTo(Number(link.dataset.showNode));
  });
}

/* The node that the address names, after the #; -1 if it names none. */
function askedFor(model) {
  const named = location.hash.match(/^#node=(.+)$/);
  try {
    return named === null ? -1 : findNodes(model, decodeURIComponent(named[1])).exact;
  } catch (error) {
    return -1;
  }
}

const held = document.getElementById("explorable");
if (held !== null) explore(openModel(JSON.parse(held.textContent)));
