// The load of the server and its engine, for admins.

import { get, poll } from "./api.js";
import { alert, h, keyed, replace, setText, table } from "./dom.js";
import { bytes, count, share, when } from "./format.js";

const SESSIONS = [
  ["User", (row) => row.user], ["From", (row) => row.peer], ["Opened", (row) => when(row.opened_at)],
  ["Last used", (row) => when(row.last_used_at)], ["Statements", (row) => count(row.statements), "number"],
  ["Settings", (row) => (row.settings === "{}" ? "" : row.settings), "sql"],
];

function sessionRow() {
  const cells = SESSIONS.map(([, , style]) => h("td", { class: style }));
  return {
    element: h("tr", {}, cells),
    update: (row) => SESSIONS.forEach(([, of], at) => setText(cells[at], of(row))),
  };
}

function rates(now, before) {
  const passed = before ? (now.at - before.at) / 1000 : 0;
  return (name) => {
    if (!passed) return "–";
    return `${count((now.totals[name] - before.totals[name]) / passed)} / s`;
  };
}

function figures(now, before) {
  const rate = rates(now, before);
  const { totals, cache, statements, engine } = now;
  const recent = before ? totals.prompt_tokens - before.totals.prompt_tokens : 0;
  return {
    Engine: [["Name", engine.name], ["State", now.draining ? "draining" : engine.up ? "up" : "down"],
      ["Prompts in flight", `${count(engine.in_flight)} of ${count(engine.max_in_flight)}`],
      ["Prompts", rate("calls")], ["Tokens in", rate("prompt_tokens")], ["Tokens out", rate("completion_tokens")],
      ["Prefix hits now", recent > 0 ? share(totals.cached_tokens - before.totals.cached_tokens, recent) : "–"],
      ["Prefix hits in total", share(totals.cached_tokens, totals.prompt_tokens)]],
    Statements: [["Running", `${count(statements.running)} of ${count(statements.places)}`],
      ["Waiting", count(statements.queued)], ["Left behind", count(statements.left_behind)],
      ["In separate processes", count(statements.isolated)], ["Ended", count(totals.ended)], ["Rows", count(totals.rows)],
      ["Prompts sent", count(totals.calls)], ["Answers reused", count(totals.cache_hits)],
      ["Tokens in", count(totals.prompt_tokens)], ["Tokens out", count(totals.completion_tokens)],
      ...Object.entries(now.refusals).map(([limit, refused]) => [`Refused: ${limit}`, count(refused)])],
    "Answer cache": [["Answers", count(cache.entries)], ["Size", `${bytes(cache.bytes)} of ${bytes(cache.max_bytes)}`],
      ["Hit rate", share(cache.hits, cache.hits + cache.misses)], ["Hits", count(cache.hits)],
      ["Misses", count(cache.misses)]],
  };
}

function figure() {
  const name = h("dt", {});
  const value = h("dd", {});
  return {
    element: h("div", {}, name, value),
    update([title, text]) {
      setText(name, title);
      setText(value, text);
    },
  };
}

function group() {
  const heading = h("h2", {});
  const shown = h("dl", { class: "figures" });
  return {
    element: h("section", {}, heading, shown),
    update([title, pairs]) {
      setText(heading, title);
      keyed(shown, pairs, ([name]) => name, figure);
    },
  };
}

export function show(main) {
  const problem = h("div", {});
  const groups = h("div", {});
  const sessions = h("tbody", {});
  replace(main, h("h1", { tabindex: "-1" }, "Load"), problem, groups, h("h2", {}, "Sessions"),
    table("Sessions", SESSIONS.map(([name, , style]) => [name, style]), sessions));
  let before = null;
  return poll(async () => {
    try {
      const now = { ...(await get("/api/load")), at: performance.now() };
      keyed(groups, Object.entries(figures(now, before)), ([title]) => title, group);
      keyed(sessions, now.sessions, (row) => row.session_id, sessionRow);
      before = now;
      replace(problem);
    } catch (error) {
      replace(problem, alert(error));
    }
  }, () => 2);
}
