/* The part of the page that explains one node at a time. */

const N_PARTS = 10, N_STEPS = 14;

class Explorer {
  constructor(model, audit) {
    this.model = model;
    this.audit = audit;
    this.without = new Set();
    new Search(model, (node) => this.choose(node));
    byId("node-unsure").append(...model.unsure.flatMap((node) => [" ", this.buttonOf(node)]));
    byId("explorer").hidden = false;
    const asked = askedFor(model);
    this.show(asked >= 0 ? asked : model.start);
    new ResizeObserver(() => this.fit()).observe(byId("node-picture").parentElement);
    document.addEventListener("click", (event) => {
      const link = event.target.closest("[data-show-node]");
      if (link !== null) this.goTo(Number(link.dataset.showNode));
    });
  }

  say(text) { byId("node-status").textContent = text; }

  buttonOf(node) { return makeButton("link", this.model.name(node), () => this.goTo(node)); }

  classOf(code) {
    const mark = make("span", { class: `mark c${code % 8}`, "aria-hidden": "true" }, this.model.marks[code]);
    const name = make("span", { class: "class-name" }, this.model.classes[code]);
    return make("span", { class: "class" }, mark, "\u00a0", name);
  }

  /* Shows a node that was searched for, and says what it is; the focus stays with the search. */
  choose(node) {
    const { model } = this;
    this.show(node);
    remember(model.name(node));
    this.say(`${apart(model.name(node))}: predicted ${apart(model.classes[model.told(node)])} with ${percent(model.sureness(node))}.`);
  }

  /* Moves to another node; the heading takes the focus, since the button that was pressed goes. */
  goTo(node) {
    this.show(node);
    remember(this.model.name(node));
    byId("node-heading").focus();
  }

  show(node) {
    this.node = node;
    this.without.clear();
    const name = this.model.name(node);
    byId("node-search").value = name;
    byId("node-name").replaceChildren(name);
    this.showTold();
    this.showAudit();
    this.showProbabilities();
    this.showParts();
    this.say("");
  }

  showTold() {
    const { model, node } = this, told = model.told(node), given = model.given[node];
    const is = ["Predicted ", this.classOf(told), ` with ${percent(model.sureness(node))}`];
    const trained = model.role[node] === 1;
    if (given < 0) is.push("; no label was given.");
    else if (given === told) is.push(`, the label it was given${trained ? " and trained on." : ", kept from training."}`);
    else is.push(`. It was given${trained ? " and trained on " : ", but not trained on, "}`, this.classOf(given), ".");
    byId("node-told").replaceChildren(...is);
  }

  /* What the audit says of the label that was given, and what speaks for that. */
  showAudit() {
    const found = this.audit.get(this.node);
    byId("node-audit").hidden = found === undefined;
    if (found === undefined) return;
    const given = this.model.given[this.node];
    const flag = found.isSuspect ? [make("span", { class: "flag" }, "suspect"), " "] : [];
    byId("node-audit").replaceChildren(...flag, ...(found.isJudged
      ? ["The audit ", ...this.suggestion(found, given), ...this.evidence(found, given)]
      : ["This label was not judged by the audit: no other is of its class."]));
  }

  suggestion(found, given) {
    const code = this.model.classes.indexOf(found.suggested);
    const says = code === given ? ["finds no better class than ", this.classOf(given)]
      : ["suggests ", code < 0 ? found.suggested : this.classOf(code), " instead of ", this.classOf(given)];
    return [...says, `: suspicion ${percent(found.suspicion)}.`];
  }

  evidence({ crossFitted, others }, given) {
    const known = [["models that have not seen it", crossFitted], ["the other labels, spread through labelled nodes too", others]]
      .filter(([, share]) => !Number.isNaN(share)).map(([who, share]) => `${who} (${percent(share)})`);
    return known.length ? [" For ", this.classOf(given), ` speak ${known.join(" and ")}.`] : [];
  }

  showProbabilities() {
    const { model, node } = this, rows = [];
    let rest = 1;
    for (let k = node * model.nTold; k < (node + 1) * model.nTold; k += 1) {
      const code = model.toldClass[k], share = model.toldShare[k] / 65535;
      rest -= share;
      rows.push(row("", this.classOf(code), bar(share, code)));
    }
    const others = model.classes.length - model.nTold;
    const name = others === 1 ? "1 other class" : `${others} other classes`;
    if (others > 0) rows.push(row("rest", name, number(percent(Math.max(rest, 0)))));
    fill("node-probabilities", rows);
  }

  /* Whether the node holds its label, so that its soft label is that one, whatever others say. */
  get holds() { return this.model.clamp && this.others !== null; }

  /* The labels worth a look: those of the soft label, or the others' if it is its own. */
  get sources() { return this.holds ? this.others : this.labels; }

  showParts() {
    const { model, node, without } = this;
    this.labels = labelParts(model, node, without);
    this.others = model.role[node] === 1 && !without.has(node)
      ? labelParts(model, node, new Set([...without, node])) : null;
    this.neighbours = model.f === null ? null : neighbourParts(model, node);
    this.showLabels();
    this.showOthers();
    this.showLeftOut();
    if (this.neighbours !== null) this.showNeighbours();
    this.showSteps();
    this.draw();
  }

  showLabels() {
    const { model, node, labels } = this;
    byId("node-soft").replaceChildren(...(this.holds
      ? ["It was trained on its own label, ", this.classOf(model.given[node]), ", which is all of its soft label."]
      : [`${this.reach(labels)}.`]));
    this.listLabels("node-labels", labels);
    byId("node-labels-frame").hidden = this.holds || labels.parts.length === 0;
    byId("node-if-zero").hidden = !model.clamp || this.sources.parts.length === 0;
  }

  showOthers() {
    byId("node-others-part").hidden = this.others === null;
    if (this.others === null) return;
    const said = this.reach(this.others);
    byId("node-others-soft").textContent = `Without its own label, ${said[0].toLowerCase()}${said.slice(1)}.`;
    this.listLabels("node-others", this.others);
    byId("node-others-frame").hidden = this.others.parts.length === 0;
  }

  listLabels(id, { parts }) {
    const rows = parts.slice(0, N_PARTS).map((part) => {
      const leave = makeButton("quiet-button", "leave out", () => this.leaveOut(part.node));
      leave.setAttribute("aria-label", `Leave out the label of ${this.model.name(part.node)}`);
      return row("", this.buttonOf(part.node), make("td", {}, this.classOf(part.code)),
        bar(part.share, part.code, parts[0].share), number(part.steps.toFixed(1)), number(leave));
    });
    rows.push(...restOf(parts, "label", (share) => [empty(), share, empty(), empty()]));
    fill(id, rows);
  }

  showLeftOut() {
    const buttons = [...this.without].map((node) => (
      makeButton("quiet-button", `put back ${this.model.name(node)}`, () => this.leaveOut(node))));
    byId("node-without").hidden = buttons.length === 0;
    byId("node-without").replaceChildren("Left out: ", ...buttons.flatMap((button) => [button, " "]));
  }

  /* How many labels reach the node, and what they speak for. */
  reach({ parts, totals, whole }) {
    if (whole === 0) return "No label reaches this node over the graph";
    const order = [...totals.keys()].filter((code) => totals[code] > 0);
    order.sort((a, b) => totals[b] - totals[a] || a - b);
    const shares = order.slice(0, 3)
      .map((code) => `${apart(this.model.classes[code])} ${percent(totals[code] / whole)}`);
    const reach = parts.length === 1 ? "1 label reaches" : `${counted(parts.length, "label")} reach`;
    return `${reach} it, with ${whole.toPrecision(3)} of a whole label: ${shares.join(", ")}`;
  }

  /* Takes a label away, or puts it back, and says what that does. */
  leaveOut(source) {
    const before = source === this.node ? this.labels : this.sources;
    const isBack = this.without.delete(source);
    if (!isBack) this.without.add(source);
    this.showParts();
    const name = apart(this.model.name(source)), after = this.sources;
    const lost = isBack ? "" : this.lost(source, before, after);
    byId("node-without").append(lost);
    this.say(`${isBack ? "With" : "Without"} the label of ${name}: ${this.reach(after)}. ${lost}`.trim());
    byId(this.holds ? "node-others-soft" : "node-soft").focus();
  }

  /* What the soft label lost with a label, beside what its part was. */
  lost(source, before, after) {
    const part = before.parts.find((one) => one.node === source);
    if (part === undefined) return "";
    const fall = before.totals[part.code] - after.totals[part.code];
    return `${apart(this.model.classes[part.code])} lost ${fall.toFixed(3)} of a whole label; the part was ${part.value.toFixed(3)}.`;
  }

  showNeighbours() {
    const { parts } = this.neighbours, told = this.model.told(this.node);
    const { factors, byLabels } = this.model, plain = factors.every((factor) => factor === 1);
    byId("node-averaged").replaceChildren(
      "To its probability of ", this.classOf(told), `, each node adds what ${byLabels ? "its balanced soft label" : "the network"} says of it, times its weight`,
      plain ? "." : ` and the class’s factor of ${factors[told].toPrecision(3)}, which keeps large classes from swallowing small ones; then all that is added is scaled to 100 %.`,
    );
    const rows = parts.slice(0, N_PARTS).map((part) => row(
      "", this.buttonOf(part.node), make("td", {}, this.classOf(part.code)),
      number(percent(part.weight)), number(percent(part.own)),
      bar(part.share, told, parts[0].share), number(part.steps.toFixed(1)),
    ));
    rows.push(...restOf(parts, "node", (share) => [empty(), empty(), empty(), share, empty()]));
    fill("node-neighbours", rows);
  }

  /* Both sums by the number of steps; a label that a node holds came over none. */
  showSteps() {
    const sums = [...(this.holds ? [] : [this.labels]), ...(this.neighbours === null ? [] : [this.neighbours])];
    const full = Math.max(...sums.flatMap((sum) => sum.bySteps));
    const rows = [];
    for (let steps = 0; steps < this.labels.bySteps.length && rows.length < N_STEPS; steps += 1) {
      const shares = sums.map((sum) => sum.bySteps[steps]);
      if (Math.max(...shares) >= 0.0005) {
        rows.push(row("", String(steps), ...shares.map((share) => bar(share, null, full))));
      }
    }
    fill("node-steps", rows);
    byId("node-steps-soft").hidden = this.holds;
    byId("node-steps-part").hidden = rows.length === 0;
  }

  /* Draws the picture, with a legend of all classes in it and in the tables below. */
  draw() {
    const { model, node, sources, neighbours, holds } = this;
    this.width = byId("node-picture").parentElement.clientWidth;
    const drawn = drawNeighbourhood(
      byId("node-picture"), model, { node, sources, neighbours, holds }, (other) => this.goTo(other),
    );
    const sums = [sources, ...(neighbours === null ? [] : [neighbours])];
    const listed = sums.flatMap((sum) => sum.parts.slice(0, N_PARTS).map((part) => part.code));
    const codes = [...new Set([...drawn, ...listed])].sort((a, b) => a - b);
    byId("node-legend").replaceChildren(...codes.map((code) => make("li", {}, this.classOf(code))));
  }

  /* Draws it anew in a frame of another width; else a node would lose the focus for nothing. */
  fit() {
    if (byId("node-picture").parentElement.clientWidth !== this.width) this.draw();
  }
}

/* A row for the parts that are not listed one by one. */
function restOf(parts, word, cells) {
  const rest = parts.slice(N_PARTS);
  const share = rest.reduce((sum, part) => sum + part.share, 0);
  return rest.length ? [row("rest", counted(rest.length, `other ${word}`), ...cells(number(percent(share))))] : [];
}

/* Puts the node's name into the address, where a page may have one of its own. */
function remember(name) {
  try {
    history.replaceState(null, "", `#node=${encodeURIComponent(name)}`);
  } catch (error) {
    /* A preview without an address: the page works without. */
  }
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

const held = (id) => (byId(id) === null ? null : JSON.parse(byId(id).textContent));
if (byId("explorable") !== null) new Explorer(openModel(held("explorable")), openAudit(held("audited")));
