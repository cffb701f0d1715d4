// The answer to EXPLAIN as text: the calls and their price first, then the plan.

import { figures, h } from "./dom.js";

const FIRST = /^(total|saved|calls of|notes)/;

// Return the figures of a table of text with one line, or null if the text has another form.
function figuresOf(text) {
  const [heads, values, ...rest] = text.split("\n").map((line) => line.trim().split(/\s{2,}/));
  if (rest.length || values?.length !== heads.length + 1) return null;
  return figures(heads.map((name, at) => [name, values[at + 1]]));
}

function part([title, text]) {
  const known = /^(total|saved)$/.test(title) ? figuresOf(text ?? "") : null;
  const name = title === "total" ? "In total, as predicted" : `${(title ?? "").slice(0, 1).toUpperCase()}${(title ?? "").slice(1)}`;
  return [h("h3", {}, name), known ?? h("pre", { class: title === "notes" && "text", tabindex: "0" }, text ?? "")];
}

// Return the elements for the rows of EXPLAIN; the plan of a query without calls is open.
export function explanation(rows) {
  const order = ["total", "saved"];
  const rank = ([title]) => (order.includes(title) ? order.indexOf(title) : order.length);
  const first = rows.filter(([title]) => FIRST.test(title)).sort((one, two) => rank(one) - rank(two));
  const plan = rows.filter(([title]) => !FIRST.test(title));
  const calls = first.some(([title]) => title.startsWith("calls of"));
  return [...first.flatMap(part), h("details", { class: "plan", open: !calls }, h("summary", {}, "Plan"), plan.flatMap(part))];
}
