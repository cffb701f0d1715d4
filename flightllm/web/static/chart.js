// A result as bars: a numeric column, labelled by the first column that is not numeric.

import { h } from "./dom.js";

const MOST = 200;

// Return whether the rows can be shown as bars.
export function canBeBars(columns, rows) {
  return rows.length > 0 && rows.length <= MOST && columns.some((one) => one.number) && columns.some((one) => !one.number);
}

// Return the bars of a numeric column; with several numeric columns, a select box is above them.
export function bars(columns, rows) {
  const label = columns.findIndex((one) => !one.number);
  const numbers = columns.flatMap((one, at) => (one.number ? [at] : []));
  const place = h("div", { class: "bars", role: "list" });
  const show = (at) => {
    const values = rows.map((row) => Number(row[at] ?? NaN));
    const most = Math.max(...values.map(Math.abs).filter(Number.isFinite), 0);
    place.replaceChildren(...rows.map((row, index) => {
      const bar = h("span", { class: values[index] < 0 ? "bar minus" : "bar" });
      bar.style.width = most && Number.isFinite(values[index]) ? `${(100 * Math.abs(values[index])) / most}%` : "0";
      return h("div", { role: "listitem" }, h("span", { class: "label", title: row[label] ?? "NULL" }, row[label] ?? "NULL"),
        h("span", { class: "lane" }, bar), h("span", { class: "number" }, row[at] ?? "NULL"));
    }));
  };
  show(numbers[0]);
  if (numbers.length === 1) return h("div", {}, place);
  const choice = h("select", { "aria-label": "Column of numbers", onchange: () => show(Number(choice.value)) },
    numbers.map((at) => h("option", { value: String(at) }, columns[at].name)));
  return h("div", {}, h("p", { class: "actions" }, choice), place);
}
