/* The search for a node: a text field with a list that the arrow keys walk through. */

/* The nodes whose name has the text in it; those that begin with it first. */
function findNodes(model, text) {
  const wanted = text.trim().toLowerCase();
  const begins = [], holds = [];
  let exact = -1;
  for (let i = 0; i < model.n; i += 1) {
    const name = model.name(i);
    if (exact < 0 && name === text.trim()) exact = i;
    const at = name.toLowerCase().indexOf(wanted);
    if (at === 0) begins.push(i);
    else if (at > 0) holds.push(i);
  }
  const found = begins.concat(holds);
  if (exact >= 0) found.splice(0, 0, ...found.splice(found.indexOf(exact), 1));
  return { exact, found };
}

function startSearch(model, choose) {
  const field = byId("node-search"), list = byId("node-list");
  let shown = [], active = -1;

  function close() {
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
    active = -1;
  }

  function open() {
    const { found } = findNodes(model, field.value);
    shown = found.slice(0, N_FOUND);
    list.replaceChildren(...shown.map((node, index) => {
      const option = make("li", { role: "option", id: `node-option-${index}`, "aria-selected": "false" },
        make("span", {}, model.name(node)), " ",
        make("span", { class: "quiet" }, model.classes[model.told(node)]));
      option.addEventListener("pointerdown", (event) => { event.preventDefault(); take(index); });
      return option;
    }));
    list.hidden = shown.length === 0;
    field.setAttribute("aria-expanded", String(shown.length > 0));
    active = -1;
    const more = found.length > N_FOUND ? `, the first ${N_FOUND} are listed` : "";
    byId("node-status").textContent = found.length === 0
      ? "No node has this in its name." : `${counted(found.length, "node")} found${more}.`;
  }

  function mark(index) {
    active = (index + shown.length) % shown.length;
    [...list.children].forEach((option, place) => {
      option.setAttribute("aria-selected", String(place === active));
    });
    field.setAttribute("aria-activedescendant", `node-option-${active}`);
    list.children[active].scrollIntoView({ block: "nearest" });
  }

  function take(index) {
    const node = shown[index];
    close();
    choose(node);
  }

  field.addEventListener("input", open);
  field.addEventListener("focus", () => field.select());
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp" && event.key !== "Enter") return;
    event.preventDefault();
    if (list.hidden) open();
    if (!shown.length) return;
    if (event.key === "Enter") take(Math.max(active, 0));
    else mark(event.key === "ArrowDown" ? active + 1 : Math.max(active, 0) - 1);
  });
}
