// Why a row has its answers: the prompts as they were sent, and what the models answered.

import { post } from "./api.js";
import { alert, figures, h, replace, table } from "./dom.js";
import { count } from "./format.js";
import { labelForm, labelList, remember } from "./label.js";
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
  return figures(found.filter(([, value]) => value !== null), "figures wide");
}

function probabilities({ probabilities: found, parameters: { options } }) {
  if (!found || !options) return null;
  const percent = (value) => (value === null || value === undefined ? "unknown" : `${(100 * value).toFixed(1)} %`);
  return [h("h3", {}, "How probable each option was"), table("Probabilities", ["Option", ["Probability", "number"]], h("tbody", {},
    options.map((option, at) => h("tr", {}, h("td", {}, option), h("td", { class: "number" }, percent(found[at]))))))];
}

// Return a statement for the rows that a learned filter wants labelled next, among those of a statement.
export function nextRows({ name, parameters }, sql) {
  const columns = parameters.map((one) => `n."${one.replaceAll('"', '""')}"`).join(", ");
  const rows = `ai_next_labels('${name}', '${sql.trim().replace(/;$/, "").replaceAll("'", "''")}', 20)`;
  return `SELECT ${columns}, ${name}(${columns}) AS answer\nFROM ${rows} AS n`;
}

// Return a button that runs this statement; `leave` closes the panel.
function nextButton(call, sql, leave) {
  if (!call.filter) return null;
  return h("p", { class: "actions" }, h("button", { type: "button", onclick: () => {
    leave();
    document.dispatchEvent(new CustomEvent("statement", { detail: nextRows(call.filter, sql) }));
  } }, "Rows to label next"));
}

// Return the elements of a call; `add` gets the form for its label, and the buttons beside the form.
function told(call, add) {
  if (call.prompt === null) return [h("p", {}, h("code", {}, call.text)), h("p", {}, "No prompt was sent: a value that the call needs is NULL.")];
  return [h("p", {}, h("code", {}, call.text)),
    h("h3", {}, "Prompt"), h("pre", { tabindex: "0", "aria-label": "Prompt" }, call.prompt),
    h("h3", {}, "Answer"), call.kept ? h("pre", { tabindex: "0", "aria-label": "Answer" }, call.answer) : h("p", { class: "hint" }, NOT_KEPT),
    probabilities(call), add(call), facts(call)].flat(2).filter(Boolean);
}

// Return the calls of a row in groups: those of the chosen column, those that decide about the row, and the others.
export function grouped(calls, at) {
  const own = calls.filter((call) => call.columns.includes(at));
  const filters = calls.filter((call) => !own.includes(call) && call.filters);
  return { own, filters, others: calls.filter((call) => !own.includes(call) && !filters.includes(call)) };
}

function notes(found) {
  const how = found.by === "others" ? "No kept answer leads to these values. The row was found by its columns that no model answered." : null;
  const several = found.several ? "Several rows of the result look like this one and had different prompts. This is the first of them." : null;
  const part = found.whole ? null : "Not all rows of the result were compared. More rows can look like this one.";
  return [how, several, part].filter(Boolean).map((text) => h("p", { class: "hint" }, text));
}

// Open the panel for a row of a statement's result; `at` is the number of a column, or -1 for the row itself.
// `button` is that of the cell, which shows the visitor's label.
export async function openWhy(sql, columns, row, at, number, button) {
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
    const forms = [];
    const form = (call) => {
      if (found.unlabelled) return labelList(call, found.unlabelled);
      const marks = at >= 0 && call === own[0];
      const made = labelForm(call, (verdict) => marks && remember(sql, row, at, verdict, button));
      if (marks) remember(sql, row, at, call.labels.find((one) => one.own)?.verdict ?? null, button);
      forms.push(made);
      return [made.element, nextButton(call, sql, () => dialog.close())];
    };
    const part = (name, calls) => (calls.length ? [h("h3", { class: "group" }, name), calls.flatMap((call) => told(call, form))] : []);
    dialog.addEventListener("keydown", (event) => {
      if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      forms[0]?.press(event.key);
    });
    replace(place, notes(found), [part("Asked for this column", own), part("Decided that the row is in the result", filters), part("Asked for other columns", others)].flat(2),
      forms.length ? h("p", { class: "hint" }, "R, W and U stand for Right, Wrong and Undo of the first answer.") : null);
  } catch (error) {
    if (error.name === "AbortError") return;
    replace(place, alert(error));
  }
  place.setAttribute("aria-busy", "false");
}
