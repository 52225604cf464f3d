/* Tables that can be sorted by each column and filtered by a text, or to the rows that are marked. */

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.querySelector("tbody"), rows = [...body.rows];
  const headers = [...table.querySelectorAll("thead th")];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const falls = header.getAttribute("aria-sort") === "ascending"
        || (header.getAttribute("aria-sort") === null && header.classList.contains("number"));
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const sorted = rows.map((row, place) => [value(row, column), place, row]);
      sorted.sort((a, b) => (falls ? compare(b[0], a[0]) : compare(a[0], b[0])) || a[1] - b[1]);
      body.append(...sorted.map((entry) => entry[2]));
    });
  });
  const filter = document.getElementById(table.dataset.filter);
  const status = document.getElementById(`${table.dataset.filter}-status`);
  const only = document.getElementById(`${table.dataset.filter}-only`);
  const choose = () => {
    const wanted = filter.value.trim().toLowerCase(), isOnly = only !== null && only.checked;
    let count = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted) || (isOnly && row.dataset.marked === undefined);
      count += Number(!row.hidden);
    }
    status.textContent = wanted === "" && !isOnly ? "" : `${count} of ${rows.length} rows`;
  };
  filter.closest("[hidden]").hidden = false;
  filter.addEventListener("input", choose);
  if (only !== null) only.addEventListener("change", choose);
}
