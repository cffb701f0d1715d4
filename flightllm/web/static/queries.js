// The running queries and the ended ones.

import { get, poll, post } from "./api.js";
import { alert, h, keyed, replace, setText, table } from "./dom.js";
import { count, isOpen, oneLine, seconds, share, when } from "./format.js";

// Make the progress bar of a query's model calls.
export function progressOf() {
  const bar = h("progress", { max: "1", "aria-label": "Model calls answered" });
  const text = h("span", {});
  const element = h("span", { class: "calls" }, bar, text);
  return {
    element,
    update(query) {
      bar.hidden = !query.calls_expected || !isOpen(query);
      bar.max = Math.max(1, query.calls_expected);
      bar.value = query.calls_done;
      setText(text, query.calls_expected ? `${count(query.calls_done)} / ${count(query.calls_expected)}` : "–");
    },
  };
}

export function cancelButton(id, failed) {
  const button = h("button", { type: "button", "aria-label": `Cancel query ${id}`, onclick: async () => {
    button.disabled = true;
    try {
      await post(`/api/queries/${id}/cancel`);
    } catch (error) {
      button.disabled = false;
      failed(error);
    }
  } }, "Cancel");
  return button;
}

function row(query, context, failed) {
  const progress = progressOf();
  const cells = Object.fromEntries(["when", "user", "status", "time", "rows", "hits"].map((name) => [name, h("td", {})]));
  for (const name of ["time", "rows", "hits"]) cells[name].className = "number";
  const act = isOpen(query) ? h("td", {}, cancelButton(query.query_id, failed)) : null; // the first column, so that it is always visible
  const link = h("a", { href: `#/queries/${query.query_id}` }, oneLine(query.sql) || query.query_id);
  const element = h("tr", {}, act, cells.when, cells.status, h("td", { class: "sql" }, link),
    context.me.admin ? cells.user : null, cells.time, h("td", {}, progress.element), cells.rows, cells.hits);
  return {
    element,
    update(now) {
      setText(cells.when, when(now.started_at));
      setText(cells.user, now.user);
      setText(cells.status, now.status);
      cells.status.className = `status ${now.status}`;
      if (now.error) cells.status.title = now.error;
      setText(cells.time, seconds(now.seconds));
      setText(cells.rows, count(now.rows));
      setText(cells.hits, share(now.cached_tokens, now.prompt_tokens));
      progress.update(now);
    },
  };
}

export function show(main, _parameters, context) {
  const running = h("tbody", {});
  const ended = h("tbody", {});
  const problem = h("div", {});
  const none = h("p", { class: "hint", hidden: true }, "Nothing is running.");
  const left = h("p", { class: "hint" });
  const failed = (error) => replace(problem, alert(error));
  const user = context.me.admin ? ["User"] : [];
  const columns = ["Started", "Status", "Statement", ...user, ["Time", "number"], "Model calls", ["Rows", "number"],
    ["Prefix hits", "number"]];
  const live = table("Running statements", ["Action", ...columns], running);
  let some = false;
  replace(main, h("h1", { tabindex: "-1" }, "Queries"), problem, h("h2", {}, "Running"), none, live,
    h("h2", {}, "Recent"), table("Recent statements", columns, ended), left);
  return poll(async () => {
    try {
      const found = await get("/api/queries");
      some = found.running.length > 0;
      none.hidden = some;
      live.hidden = !some;
      keyed(running, found.running, (query) => query.query_id, (query) => row(query, context, failed));
      keyed(ended, found.ended, (query) => query.query_id, (query) => row(query, context, failed));
      setText(left, found.left_out ? `${count(found.left_out)} earlier queries are in system.queries.` : "");
      if (problem.dataset.lost) {
        replace(problem);
        delete problem.dataset.lost;
      }
    } catch (error) {
      problem.dataset.lost = "yes";
      failed(error);
    }
  }, () => (some ? 1 : 2));
}
