/* What the page's elements are made with; text is only ever text. */

const byId = (id) => document.getElementById(id);
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}\u00a0%`;
const counted = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const cut = (text, most) => {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
};

/* A name amid a sentence: one that is written from right to left stays apart from the rest. */
const FROM_THE_RIGHT = /[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const apart = (name) => (FROM_THE_RIGHT.test(name) ? `\u2068${name}\u2069` : name);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function makeButton(kind, text, press) {
  const button = make("button", { type: "button", class: kind }, text);
  button.addEventListener("click", press);
  return button;
}

const row = (kind, name, ...cells) => (
  make("tr", { class: kind }, make("th", { scope: "row" }, name), ...cells));
const empty = () => make("td", {});
const number = (text) => make("td", { class: "number" }, text);
const fill = (id, rows) => byId(id).querySelector("tbody").replaceChildren(...rows);

/* A share with a bar beside it, whose full length stands for `full`. */
function bar(share, code = null, full = 1) {
  const cell = make("td", { class: "number bar" }, percent(share));
  cell.style.setProperty("--share", String(full > 0 ? Math.min(share / full, 1) : 0));
  if (code !== null) cell.classList.add(`c${code % 8}`);
  return cell;
}
