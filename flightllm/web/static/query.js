// One query: its text, figures, AI calls and plan.

import { get, poll, run } from "./api.js";
import { alert, h, keyed, replace, setText, table } from "./dom.js";
import { bytes, count, isOpen, seconds, share, when } from "./format.js";
import { Grid } from "./grid.js";
import { cancelButton, progressOf } from "./queries.js";
import { put } from "./sql.js";

const MOST_TEXT = 16384; // the server keeps this many characters of a statement; a truncated statement cannot run again

const FIGURES = [
  ["Status", (query) => query.status],
  ["User", (query) => query.user],
  ["Session", (query) => query.session_id],
  ["Kind", (query) => query.kind.replaceAll("_", " ")],
  ["Started", (query) => when(query.started_at)],
  ["Waited", (query) => seconds(query.queued_seconds)],
  ["Ran", (query) => seconds(query.seconds)],
  ["Rows", (query) => count(query.rows)],
  ["Result", (query) => bytes(query.bytes)],
  ["Sent to models", (query) => count(query.calls)],
  ["Answers reused", (query) => count(query.cache_hits)],
  ["Prompt tokens", (query) => count(query.prompt_tokens)],
  ["Prefix hits", (query) => share(query.cached_tokens, query.prompt_tokens)],
  ["Answer tokens", (query) => count(query.completion_tokens)],
  ["Rows without answer", (query) => count(query.failed_rows)],
  ["Cost", (query) => (query.cost === null ? "–" : query.cost.toFixed(4))],
];

const CALLS = [
  ["Operator", (call) => call.operator || "–"],
  ["Call", (call) => call.text, "sql"],
  ["Model", (call) => call.model ?? "default"],
  ["Rows", (call) => count(call.input_rows || null), "number"],
  ["Prompts", (call) => count(call.prompts_expected), "number"],
  ["Sent", (call) => count(call.calls), "number"],
  ["Answered", (call) => count(call.answered), "number"],
  ["Reused", (call) => count(call.cache_hits), "number"],
  ["Tokens in", (call) => count(call.prompt_tokens), "number"],
  ["Prefix hits", (call) => share(call.cached_tokens, call.prompt_tokens), "number"],
  ["Tokens out", (call) => count(call.completion_tokens), "number"],
  ["Failed", (call) => count(call.failed_rows), "number"],
  ["Ordering", (call) => call.notes.ordering ?? "–"],
];

function callRow() {
  const cells = CALLS.map(([, , style]) => h("td", { class: style }));
  return {
    element: h("tr", {}, cells),
    update: (call) => CALLS.forEach(([, of], at) => setText(cells[at], of(call))),
  };
}

export function show(main, [id]) {
  const problem = h("div", {});
  const failed = (error) => replace(problem, alert(error));
  const values = FIGURES.map(() => h("dd", {}));
  const text = h("pre", { class: "text", tabindex: "0" });
  const error = h("p", { class: "error", hidden: true });
  const progress = progressOf();
  const cancel = cancelButton(id, failed);
  const calls = h("tbody", {});
  const heading = h("h2", {}, "AI calls");
  const sites = table("AI calls", CALLS.map(([name, , style]) => [name, style]), calls);
  const plan = new Grid();
  const reuse = h("button", { type: "button", onclick: () => {
    put(text.textContent);
    location.hash = "#/sql";
  } }, "Open in SQL");
  const status = h("span", { role: "status" });
  let asking = null;
  let last = null; // the query as it was when the server was asked last
  const explain = h("button", { type: "button", onclick: async () => {
    asking = new AbortController();
    explain.disabled = true;
    setText(status, "Planning …");
    try {
      await run({ sql: `EXPLAIN (FORMAT JSON) ${text.textContent}` }, asking.signal, (event) => {
        if (event.event === "columns") plan.setColumns(event.columns);
        else if (event.event === "rows") {
          plan.add(event.rows);
          if (last) plan.drawn?.setActual(last);
        }
        else if (event.event === "error") failed(event);
      });
    } catch (refused) {
      if (refused.name !== "AbortError") failed(refused);
    }
    setText(status, "");
    explain.disabled = false;
  } }, "Show plan");
  replace(main, h("p", {}, h("a", { href: "#/queries" }, "All queries")),
    h("h1", { tabindex: "-1" }, "Query ", h("code", {}, id)), problem, error,
    h("p", { class: "line actions" }, cancel, progress.element),
    h("h2", {}, "Statement"), text, h("p", { class: "actions" }, reuse, explain, status),
    h("h2", {}, "Figures"),
    h("dl", { class: "figures" }, FIGURES.map(([name], at) => h("div", {}, h("dt", {}, name), values[at]))),
    heading, sites, plan.element);
  let open = true;
  const stop = poll(async () => {
    if (!open) return;
    try {
      const query = await get(`/api/queries/${encodeURIComponent(id)}`);
      open = isOpen(query);
      last = query;
      plan.drawn?.setActual(query);
      FIGURES.forEach(([, of], at) => setText(values[at], of(query)));
      values[0].className = `status ${query.status}`;
      setText(text, query.sql);
      setText(error, query.error ?? "");
      error.hidden = !query.error;
      cancel.hidden = !open;
      progress.update(query);
      progress.element.hidden = !query.calls_expected;
      reuse.hidden = query.sql.length > MOST_TEXT;
      explain.hidden = query.kind !== "query" || reuse.hidden;
      heading.hidden = sites.hidden = !query.ai_calls.length;
      keyed(calls, query.ai_calls, (call) => call.call_site, callRow);
    } catch (refused) {
      open = refused.status === 0;
      failed(refused);
    }
  }, () => 1);
  return () => {
    stop();
    asking?.abort();
  };
}
