// A value of a result: short in its cell, and in full in a dialog.

import { h } from "./dom.js";

const LONG = 120;

function pretty(text, type) {
  if (!/^(list|large_list|fixed_size_list|struct|map)/.test(type)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// Open a dialog that is removed when it is closed.
export function openDialog(title, label, ...children) {
  const dialog = h("dialog", { "aria-label": label, onclose: () => dialog.remove() }, h("h2", { tabindex: "-1", autofocus: true }, title), children.flat().filter(Boolean));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function showAll(column, text) {
  const copy = h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(text) }, "Copy");
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = openDialog(column.name, `Value of ${column.name}`, h("pre", { tabindex: "0" }, pretty(text, column.type)),
    h("p", { class: "actions" }, close, copy));
}

// Return the text that a cell has room for.
export function short(text) {
  return text.length <= LONG && !text.includes("\n") ? text : `${text.slice(0, LONG).replace(/\s+/g, " ")}…`;
}

// Return the cell of a value; `why` is called with the button of an answer of a model, and is null for other values.
export function cell(text, column, why = null) {
  const style = column.number ? "number" : null;
  if (why) {
    const shown = text === null ? "NULL" : short(text);
    return h("td", { class: style }, h("button", { type: "button", class: "cell answer", title: "Why this answer?",
      "aria-label": `${shown}; why this answer?`, onclick: (event) => why(event.currentTarget) }, shown));
  }
  if (text === null) return h("td", { class: style }, h("span", { class: "null" }, "NULL"));
  const shown = short(text);
  if (shown === text) return h("td", { class: style }, text);
  const label = `Show all ${text.length} characters of ${column.name}`;
  return h("td", {}, h("button", { type: "button", class: "cell", title: label, "aria-label": `${shown} ${label}`,
    onclick: () => showAll(column, text) }, shown));
}
