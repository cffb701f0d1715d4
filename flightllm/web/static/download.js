// Rows as a file.

import { h } from "./dom.js";

// A spreadsheet must not run a text from a table or a model as a formula, so a quote precedes it. Numbers, phone numbers
// and signs alone have no letter and no operator that could name a cell, a function or a program: they stay as they are.
const HARMLESS = /^[+-]([\d.]+(e[+-]?\d+)?|[\d\s().,/-]*)$/i;
export const CSV_HINT = "A ' precedes texts that a spreadsheet could run as a formula, such as =1+1. JSON lines have each text as it is.";
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;
const NESTED = /^(list|large_list|fixed_size_list|struct|map)/;

// Return a value as CSV; NULL is an empty field, and an empty text is two quotes.
function quoted(text) {
  if (text === null) return "";
  const safe = /^[=+\-@\t\r]/.test(text) && !HARMLESS.test(text) ? `'${text}` : text;
  return text === "" || /[",\r\n]/.test(text) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(columns, rows) {
  const lines = [columns.map((column) => column.name), ...rows].map((row) => row.map(quoted).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function json(text, column) {
  if (text === null) return "null";
  const isJson = column.number ? JSON_NUMBER.test(text) : column.type === "bool" || NESTED.test(column.type);
  return isJson ? text : JSON.stringify(text);
}

// Return one object a line; a second column of one name gets a number.
export function jsonLines(columns, rows) {
  const seen = new Map();
  const names = columns.map(({ name }) => {
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return JSON.stringify(seen.get(name) === 1 ? name : `${name}_${seen.get(name)}`);
  });
  return rows.map((row) => `{${row.map((text, at) => `${names[at]}: ${json(text, columns[at])}`).join(", ")}}\n`).join("");
}

export function downloadFrom(name, address) {
  h("a", { href: address, download: name }).click();
}

export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  downloadFrom(name, address);
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
