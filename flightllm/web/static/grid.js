// Rows of a result.

import { bars, canBeBars } from "./chart.js";
import { h, replace, setText, table } from "./dom.js";
import { count } from "./format.js";

const LONG = 120;
const NUMBER = /^[+-]?[\d.]+(e[+-]?\d+)?$/i;

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

// Return a value as CSV; NULL is an empty field, and an empty text is two quotes.
function quoted(text) {
  if (text === null) return "";
  // A spreadsheet must not run a text from a table or a model as a formula, so a quote precedes it.
  const safe = /^[=+\-@\t\r]/.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return text === "" || /[",\r\n]/.test(text) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function download(name, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export class Grid {
  constructor() {
    this.chart = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.turn() }, "Chart");
    this.csv = h("button", { type: "button", onclick: () => this.save() }, "");
    this.tools = h("p", { class: "actions", hidden: true }, this.chart, this.csv);
    this.shown = h("div", { class: "result" });
    this.element = h("div", {}, this.tools, this.shown);
    this.clear();
  }

  clear() {
    this.columns = [];
    this.rows = [];
    this.isPlan = false;
    this.table = null;
    this.tools.hidden = true;
    this.chart.setAttribute("aria-pressed", "false");
    replace(this.shown);
  }

  // Show the buttons for the rows: chart and download.
  end() {
    setText(this.csv, `Download ${count(this.rows.length)} rows as CSV`);
    this.tools.hidden = this.isPlan || !this.columns.length;
    this.chart.hidden = !canBeBars(this.columns, this.rows);
  }

  turn() {
    const asBars = this.chart.getAttribute("aria-pressed") === "false";
    this.chart.setAttribute("aria-pressed", String(asBars));
    replace(this.shown, asBars ? bars(this.columns, this.rows) : this.table);
  }

  save() {
    const lines = [this.columns.map((column) => column.name), ...this.rows].map((row) => row.map(quoted).join(","));
    download("result.csv", `${lines.join("\r\n")}\r\n`);
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
    this.table = shown;
    replace(this.shown, shown);
  }

  add(rows) {
    if (this.isPlan) {
      for (const [title, text] of rows) this.shown.append(h("h3", {}, title ?? ""), h("pre", { tabindex: "0" }, text ?? ""));
      return;
    }
    const made = rows.map((row) => {
      this.rows.push(row);
      return h("tr", {}, h("td", { class: "number at" }, String(this.rows.length)), row.map((text, at) => cell(text, this.columns[at])));
    });
    this.body.append(...made);
  }
}
