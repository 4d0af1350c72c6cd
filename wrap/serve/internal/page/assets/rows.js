// The rows of a file, of which one is picked, and the fields in which its values are changed.

import { element } from "./answer.js";

const perPage = 50;

const short = (value) => {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return text.length > 32 ? `${text.slice(0, 30)}…` : text;
};

// showRows puts rows into a table, and calls pick with each that is picked.
export function showRows(parts, file, pick) {
  let first = 0, picked = -1;
  const pages = file.rows.length > perPage;
  parts.pages.hidden = !pages;
  const show = () => {
    const last = Math.min(first + perPage, file.rows.length);
    parts.note.textContent = `${file.name}: rows ${first + 1} to ${last} of ${file.more ? "the first " : ""}${file.rows.length.toLocaleString("en")}. Pick one.`;
    parts.before.disabled = first === 0;
    parts.after.disabled = last === file.rows.length;
    parts.table.replaceChildren(
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Row"),
        ...file.columns.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...file.rows.slice(first, last).map((row, k) => line(row, first + k))));
    parts.scroll.scrollTop = 0;
  };
  const line = (row, i) => {
    const input = element("input", { type: "radio", name: "row", value: i });
    input.checked = i === picked;
    const made = element("tr", { class: i === picked ? "picked" : undefined },
      element("th", { scope: "row" }, element("label", {}, input, element("span", { class: "hidden" }, "Row "), String(i + 1))),
      ...file.columns.map((name) => element("td", {}, short(row[name]))));
    made.addEventListener("click", (event) => {
      if (event.target.closest("label") === null) input.click();
    });
    input.addEventListener("change", () => {
      parts.table.querySelector("tr.picked")?.classList.remove("picked");
      made.classList.add("picked");
      picked = i;
      pick(row);
    });
    return made;
  };
  parts.before.onclick = () => { first -= perPage; show(); };
  parts.after.onclick = () => { first += perPage; show(); };
  show();
}

// showFields puts a field for each value. They write what is typed into text.
export function showFields(at, fields) {
  at.replaceChildren(...fields.map((field) => {
    const control = field.block
      ? element("textarea", { spellcheck: "false", autocomplete: "off" })
      : element("input", { type: "text", spellcheck: "false", autocomplete: "off", inputmode: field.input.datatype === "BYTES" ? "text" : "decimal" });
    control.value = field.text;
    control.addEventListener("input", () => { field.text = control.value; });
    return element("label", { class: field.block ? "block" : undefined },
      field.block ? `${field.label}, as JSON` : field.label, control);
  }));
}
