/* The search for a node: a text field with a list that the arrow keys walk through. */

const N_FOUND = 8;

/* The nodes whose name has the text in it; those that begin with it first. */
function findNodes(model, text) {
  const wanted = text.trim().toLowerCase();
  const begins = [], holds = [];
  let exact = -1;
  for (let i = 0; i < model.n; i += 1) {
    const name = model.name(i);
    if (exact < 0 && (name === text || name.trim() === text.trim())) exact = i;
    const at = name.toLowerCase().indexOf(wanted);
    if (at === 0) begins.push(i);
    else if (at > 0) holds.push(i);
  }
  const found = begins.concat(holds);
  if (exact >= 0) found.splice(0, 0, ...found.splice(found.indexOf(exact), 1));
  return { exact, found };
}

class Search {
  constructor(model, choose) {
    Object.assign(this, { model, choose, shown: [], active: -1 });
    this.field = byId("node-search");
    this.list = byId("node-list");
    this.field.addEventListener("input", () => this.open());
    this.field.addEventListener("focus", () => this.field.select());
    this.field.addEventListener("blur", () => this.close());
    this.field.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (event.key === "Escape") this.close();
    if (!["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
    event.preventDefault();
    if (this.list.hidden) this.open();
    if (!this.shown.length) return;
    if (event.key === "Enter") this.take(Math.max(this.active, 0));
    else this.mark(event.key === "ArrowDown" ? this.active + 1 : Math.max(this.active, 0) - 1);
  }

  open() {
    const { found } = findNodes(this.model, this.field.value);
    this.shown = found.slice(0, N_FOUND);
    this.active = -1;
    this.list.replaceChildren(...this.shown.map((node, index) => this.optionOf(node, index)));
    this.list.hidden = this.shown.length === 0;
    this.field.setAttribute("aria-expanded", String(this.shown.length > 0));
    const more = found.length > N_FOUND ? `, the first ${N_FOUND} are listed` : "";
    byId("node-status").textContent = found.length === 0
      ? "No node has this in its name." : `${counted(found.length, "node")} found${more}.`;
  }

  optionOf(node, index) {
    const { model } = this;
    const option = make(
      "li", { role: "option", id: `node-option-${index}`, "aria-selected": "false" },
      make("span", {}, model.name(node)), " ",
      make("span", { class: "quiet" }, model.classes[model.told(node)]),
    );
    /* Else the field would lose the focus before the click, and the list close. */
    option.addEventListener("mousedown", (event) => event.preventDefault());
    option.addEventListener("click", () => this.take(index)); /* a finger that scrolls does not click */
    return option;
  }

  mark(index) {
    this.active = (index + this.shown.length) % this.shown.length;
    [...this.list.children].forEach((option, place) => {
      option.setAttribute("aria-selected", String(place === this.active));
    });
    this.field.setAttribute("aria-activedescendant", `node-option-${this.active}`);
    this.list.children[this.active].scrollIntoView({ block: "nearest" });
  }

  take(index) {
    this.close();
    this.choose(this.shown[index]);
  }

  close() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.field.removeAttribute("aria-activedescendant");
    this.active = -1;
  }
}
