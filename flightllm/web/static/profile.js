// The profile of a column: what its fetched values are. No query runs for it.

import { figures, h, table } from "./dom.js";
import { count, share } from "./format.js";
import { histogram, numberOf, typeOf } from "./numbers.js";
import { comparison } from "./sorting.js";
import { openDialog, short } from "./value.js";

const BINS = 16;
const TOP = 8;

// Return the values as numbers with equal distances, or null for a column of another kind.
function distances(column, values) {
  const type = typeOf(column);
  return type === "category" ? null : values.map((text) => numberOf(text, type)).filter((value) => value !== null);
}

function bars(numbers, first, last) {
  const found = histogram(numbers, BINS);
  const most = Math.max(...found);
  const drawn = found.map((number, at) => {
    const bar = h("span", { class: "bar", title: `part ${at + 1} of ${BINS}: ${count(number)} values` });
    bar.style.height = `${(100 * number) / most}%`;
    return bar;
  });
  return [h("h3", {}, "Histogram"), h("div", { class: "histogram", role: "img", "aria-label": `Values per part of the range: ${found.join(", ")}` }, drawn),
    h("p", { class: "range" }, h("span", {}, first), h("span", {}, last))];
}

// Open the profile of a column; `more` tells that the query had more rows than were fetched.
export function openProfile(column, at, rows, more) {
  const values = rows.map((row) => row[at]).filter((text) => text !== null);
  const counts = new Map();
  for (const text of values) counts.set(text, (counts.get(text) ?? 0) + 1);
  const compare = comparison(column);
  const least = values.reduce((one, two) => (one === null || compare(two, one) < 0 ? two : one), null);
  const most = values.reduce((one, two) => (one === null || compare(two, one) > 0 ? two : one), null);
  const numbers = distances(column, values);
  const facts = [["Type", column.type], ["Rows", count(rows.length)],
    ["NULL", `${count(rows.length - values.length)} (${share(rows.length - values.length, rows.length)})`],
    ["Distinct", count(counts.size)], ["Least", least === null ? "–" : short(least)], ["Greatest", most === null ? "–" : short(most)]];
  if (column.number && numbers.length) {
    facts.push(["Mean", String(Number((numbers.reduce((one, two) => one + two, 0) / numbers.length).toPrecision(6)))]);
  } else if (!numbers && values.length) {
    const lengths = values.reduce((sum, text) => sum + text.length, 0);
    facts.push(["Mean length", `${count(lengths / values.length)} characters`]);
  }
  const top = [...counts].sort(([, one], [, two]) => two - one).slice(0, TOP);
  const of = more ? `Of the first ${count(rows.length)} rows, which were fetched; there are more.` : `Of all ${count(rows.length)} rows.`;
  const dialog = openDialog(column.name, `Profile of ${column.name}`, h("p", { class: "hint" }, of),
    figures(facts),
    numbers?.length && least !== most ? bars(numbers, short(least), short(most)) : null,
    values.length > 1 && counts.size === values.length ? h("p", { class: "hint" }, "All values differ.") : null,
    counts.size < values.length ? [h("h3", {}, "Most frequent values"), table("Most frequent values", ["Value", ["Rows", "number"], ["Share", "number"]],
      h("tbody", {}, top.map(([text, number]) => h("tr", {}, h("td", { class: "value" }, text === "" ? h("span", { class: "null" }, "empty text") : short(text)),
        h("td", { class: "number" }, count(number)), h("td", { class: "number" }, share(number, rows.length))))))] : null,
    h("p", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close")));
}
