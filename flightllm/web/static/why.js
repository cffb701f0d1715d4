// Why a row has its answers: the prompts as they were sent, and what the models answered.

import { post } from "./api.js";
import { alert, h, replace, table } from "./dom.js";
import { count } from "./format.js";
import { openDialog } from "./value.js";

const NOT_KEPT = "The answer cache does not have the answer: it was evicted, or the session or the call keeps no answers.";

function facts(call) {
  const { parameters } = call;
  const tokens = call.prompt === null ? null : `${count(call.prompt_tokens)} in${call.kept ? `, ${count(call.answer_tokens)} out` : ""}`;
  const found = [["Function", call.function], ["Model", call.model ?? "the server's own"], ["Engine", call.engine],
    ["In the answer cache", call.prompt === null ? null : call.kept ? "yes: the next query reuses it" : "no"], ["Tokens, by the engine's count", tokens],
    ["Layout", call.layout], ["Temperature", String(parameters.temperature)], ["Most tokens", count(parameters.max_tokens)],
    ["top_p", parameters.top_p === 1 ? null : String(parameters.top_p)], ["Seed", parameters.seed === null ? null : String(parameters.seed)],
    ["Reasoning", parameters.reasoning], ["Constraint", parameters.options ? `one of: ${parameters.options.join(", ")}` : parameters.constraint],
    ["Calibrated", call.calibrated ? "yes: examples or rows move the cut between the options" : null]];
  return h("dl", { class: "figures wide" }, found.filter(([, value]) => value !== null).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function probabilities({ probabilities: found, parameters: { options } }) {
  if (!found || !options) return null;
  const percent = (value) => (value === null || value === undefined ? "unknown" : `${(100 * value).toFixed(1)} %`);
  return [h("h3", {}, "How probable each option was"), table("Probabilities", ["Option", ["Probability", "number"]], h("tbody", {},
    options.map((option, at) => h("tr", {}, h("td", {}, option), h("td", { class: "number" }, percent(found[at]))))))];
}

function told(call) {
  if (call.prompt === null) return [h("p", {}, h("code", {}, call.text)), h("p", {}, "No prompt was sent: a value that the call needs is NULL.")];
  return [h("p", {}, h("code", {}, call.text)),
    h("h3", {}, "Prompt"), h("pre", { tabindex: "0", "aria-label": "Prompt" }, call.prompt),
    h("h3", {}, "Answer"), call.kept ? h("pre", { tabindex: "0", "aria-label": "Answer" }, call.answer) : h("p", { class: "hint" }, NOT_KEPT),
    probabilities(call), facts(call)].flat().filter(Boolean);
}

// Return the calls of a row in groups: those of the chosen column, those that decide about the row, and the others.
export function grouped(calls, at) {
  const own = calls.filter((call) => call.columns.includes(at));
  const filters = calls.filter((call) => !own.includes(call) && call.filters);
  return { own, filters, others: calls.filter((call) => !own.includes(call) && !filters.includes(call)) };
}

// Open the panel for a row of a statement's result; `at` is the number of a column, or -1 for the row itself.
export async function openWhy(sql, columns, row, at, number) {
  const place = h("div", { "aria-busy": "true" }, h("p", { role: "status" }, "Looking for the prompts …"));
  const title = at < 0 ? `Why row ${count(number)}?` : `Why this ${columns[at].name}?`;
  const value = at < 0 ? null : row[at];
  const dialog = openDialog(title, title, at < 0 ? null : h("pre", { tabindex: "0", "aria-label": "Value" }, value ?? "NULL"), place,
    h("p", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
      value === null ? null : h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(value) }, "Copy the value")));
  const stop = new AbortController();
  dialog.addEventListener("close", () => stop.abort());
  try {
    const found = await post("/api/why", { sql, row }, stop.signal);
    const { own, filters, others } = grouped(found.calls, at);
    const part = (name, calls) => (calls.length ? [h("h3", { class: "group" }, name), calls.flatMap(told)] : []);
    replace(place, found.several ? h("p", { class: "hint" }, "Several rows of the result look like this one and had different prompts. This is the first of them.") : null,
      [part("Asked for this column", own), part("Decided that the row is in the result", filters), part("Asked for other columns", others)].flat(2));
  } catch (error) {
    if (error.name === "AbortError") return;
    replace(place, alert(error));
  }
  place.setAttribute("aria-busy", "false");
}
