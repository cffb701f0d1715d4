// The SQL box.

import { get, run } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { Editor } from "./editor.js";
import { count, oneLine, seconds } from "./format.js";
import { Grid } from "./grid.js";
import { Names } from "./names.js";

let box = null;
let pending = null;

function explained(sql) {
  return /^\s*EXPLAIN\b/i.test(sql) ? sql : `EXPLAIN ${sql}`;
}

class Box {
  constructor(me) {
    this.me = me;
    this.grid = new Grid();
    this.abort = null;
    this.text = new Editor(() => this.start(this.text.value));
    this.names = new Names(this.text);
    this.history = h("select", { id: "history", onchange: () => this.recall() });
    this.most = h("select", { id: "most" }, ["100", "1000", "10000"].map((rows) =>
      h("option", { value: rows, selected: rows === "1000" }, count(Number(rows)))));
    this.go = h("button", { type: "submit", class: "main" }, "Run");
    this.explain = h("button", { type: "button", onclick: () => this.start(explained(this.text.value)) }, "Explain");
    this.stop = h("button", { type: "button", disabled: true, onclick: () => this.abort?.abort() }, "Cancel");
    this.status = h("span", { role: "status" });
    this.bar = h("progress", { hidden: true, "aria-label": "Model calls" });
    this.link = h("a", { hidden: true }, "Details");
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      this.start(this.text.value);
    } },
      h("label", { for: "sql" }, "Statement"), this.text.element,
      h("div", { class: "actions" }, this.go, this.explain, this.stop,
        h("span", { class: "pair" }, h("label", { for: "most" }, "Rows shown"), this.most),
        h("span", { class: "pair" }, h("label", { for: "history" }, "Earlier"), this.history)),
      h("p", { id: "sql-hint", class: "hint" },
        "Ctrl+Enter runs the statement; Ctrl+Space and Tab complete a name. SET applies until you sign out."));
    const box = h("div", { class: "box" }, form, h("p", { class: "line" }, this.status, this.bar, this.link), this.error,
      this.grid.element);
    this.element = h("div", {}, h("h1", { tabindex: "-1" }, "SQL"), h("div", { class: "beside" }, this.names.element, box));
  }

  // List the user's last statements, each once.
  async remember() {
    const found = await get("/api/queries").catch(() => ({ running: [], ended: [] }));
    const own = [...found.running, ...found.ended].filter((query) => query.user === this.me.user);
    const last = [...new Map(own.map((query) => [query.sql, query]).reverse()).values()].reverse().slice(0, 50);
    const shown = last.map((query) => h("option", { value: query.query_id }, oneLine(query.sql).slice(0, 80)));
    replace(this.history, h("option", { value: "" }, "statements …"), shown);
  }

  async recall() {
    if (!this.history.value) return;
    const found = await get(`/api/queries/${this.history.value}`).catch(() => null);
    if (found) this.text.value = found.sql;
    this.history.value = "";
    this.text.text.focus();
  }

  async start(sql) {
    if (this.abort) return;
    this.abort = new AbortController();
    this.began = performance.now();
    this.ended = false;
    this.busy(true);
    this.grid.clear();
    this.error.hidden = true;
    this.link.hidden = true;
    setText(this.status, "Planning …");
    try {
      await run({ sql, rows: Number(this.most.value) }, this.abort.signal, (event) => this.tell(event));
      if (!this.ended) this.fail("The connection was lost before the statement ended.");
    } catch (error) {
      if (error.name === "AbortError") setText(this.status, "Cancelled.");
      else this.fail(this.ended ? "" : error.message);
    }
    this.abort = null;
    this.busy(false);
    this.grid.end();
    this.refresh();
  }

  // Ask the server again for the names and the history: any user's statement can have changed them.
  refresh() {
    this.names.refresh();
    this.remember();
  }

  busy(is) {
    this.go.disabled = this.explain.disabled = is;
    this.stop.disabled = !is;
    if (!is) this.bar.hidden = true;
    this.grid.element.setAttribute("aria-busy", String(is));
  }

  tell(event) {
    const passed = seconds((performance.now() - this.began) / 1000);
    if (event.query_id) {
      this.link.href = `#/queries/${event.query_id}`;
      this.link.hidden = false;
    }
    if (event.event === "progress") this.progress(event, passed);
    else if (event.event === "columns") this.grid.setColumns(event.columns);
    else if (event.event === "rows") {
      this.grid.add(event.rows);
    } else if (event.event === "affected") {
      this.ended = true;
      const rows = event.rows === null ? "Done" : `${count(event.rows)} ${event.rows === 1 ? "row" : "rows"} affected`;
      setText(this.status, `${rows}, ${passed}.`);
    } else if (event.event === "end") {
      this.ended = true;
      const rows = `${count(event.rows)} ${event.rows === 1 ? "row" : "rows"}`;
      const most = event.more ? `The first ${rows}; there are more rows, and the query was stopped here` : rows;
      setText(this.status, this.grid.isPlan ? `Plan, ${passed}.` : `${most}, ${passed}.`);
    } else if (event.event === "error") this.fail(event.message, event.sqlstate);
  }

  progress(event, passed) {
    this.bar.hidden = !event.calls_expected;
    if (event.calls_expected) {
      this.bar.max = event.calls_expected;
      this.bar.value = event.calls_done;
      setText(this.status, `Running, ${passed}; ${count(event.calls_done)} of ${count(event.calls_expected)} model calls.`);
    } else setText(this.status, `${event.status === "running" ? "Running" : "Planning"}, ${passed} …`);
  }

  fail(message, state) {
    this.ended = true;
    setText(this.status, "Failed.");
    setText(this.error, state ? `${message} (${state})` : message);
    this.error.hidden = false;
  }
}

export function show(main, _found, context) {
  if (box?.me.user !== context.me.user) box = new Box(context.me); // a new user must not see the previous user's box
  if (pending !== null) box.text.value = pending;
  pending = null;
  main.replaceChildren(box.element);
  box.refresh();
  return () => {};
}

// Put a text into the box; other pages call this.
export function put(sql) {
  pending = sql;
}
