// Rows of a result.

import { h, replace, table } from "./dom.js";

const LONG = 120;

function pretty(text, type) {
  if (!/^(list|large_list|fixed_size_list|struct|map)/.test(type)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function showAll(column, text) {
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const copy = h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(text) }, "Copy");
  const dialog = h("dialog", { "aria-label": `Value of ${column.name}`, onclose: () => dialog.remove() },
    h("h2", {}, column.name), h("pre", { tabindex: "0" }, pretty(text, column.type)),
    h("p", { class: "actions" }, close, copy));
  document.body.append(dialog);
  dialog.showModal();
}

function cell(text, column) {
  const style = column.number ? "number" : null;
  if (text === null) return h("td", { class: style }, h("span", { class: "null" }, "NULL"));
  if (text.length <= LONG && !text.includes("\n")) return h("td", { class: style }, text);
  const short = `${text.slice(0, LONG).replace(/\s+/g, " ")}…`;
  const label = `Show all ${text.length} characters of ${column.name}`;
  return h("td", {}, h("button", { type: "button", class: "cell", title: label, "aria-label": `${short} ${label}`,
    onclick: () => showAll(column, text) }, short));
}

export class Grid {
  constructor() {
    this.element = h("div", { class: "result" });
    this.clear();
  }

  clear() {
    this.columns = [];
    this.rows = 0;
    replace(this.element);
  }

  setColumns(columns) {
    this.clear();
    this.columns = columns;
    this.isPlan = columns.map((column) => column.name).join() === "plan_type,plan";
    if (this.isPlan) return;
    this.body = h("tbody", {});
    const heads = columns.map((column) => [column.name, column.number ? "number" : null]);
    const shown = table("Rows", [["", "number"], ...heads], this.body);
    shown.classList.add("grid");
    shown.querySelectorAll("th").forEach((head, at) => {
      if (at) head.title = columns[at - 1].type;
      else head.append(h("span", { class: "hidden" }, "Row"));
    });
    replace(this.element, shown);
  }

  add(rows) {
    if (this.isPlan) {
      for (const [title, text] of rows) this.element.append(h("h3", {}, title ?? ""), h("pre", { tabindex: "0" }, text ?? ""));
      return;
    }
    const made = rows.map((row) => {
      this.rows += 1;
      return h("tr", {}, h("td", { class: "number at" }, String(this.rows)), row.map((text, at) => cell(text, this.columns[at])));
    });
    this.body.append(...made);
  }
}
