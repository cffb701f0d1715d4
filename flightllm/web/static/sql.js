// The SQL box.

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { Editor } from "./editor.js";
import { count, oneLine } from "./format.js";
import { Names } from "./names.js";
import { Result } from "./result.js";

let box = null;
let pending = null;

function explained(sql) {
  return /^\s*EXPLAIN\b/i.test(sql) ? sql : `EXPLAIN ${sql}`;
}

class Box {
  constructor(me) {
    this.me = me;
    this.abort = null;
    this.text = new Editor(() => this.start(this.text.value));
    this.names = new Names(this.text);
    this.history = h("select", { id: "history", onchange: () => this.recall() });
    this.most = h("select", { id: "most" }, ["100", "1000", "10000"].map((rows) =>
      h("option", { value: rows, selected: rows === "1000" }, count(Number(rows)))));
    this.go = h("button", { type: "submit", class: "main" }, "Run");
    this.explain = h("button", { type: "button", onclick: () => this.start(explained(this.text.value)) }, "Explain");
    this.stop = h("button", { type: "button", disabled: true, onclick: () => this.abort?.abort() }, "Cancel");
    this.results = h("div", {});
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
    const box = h("div", { class: "box" }, form, this.results);
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
    this.busy(true);
    const result = new Result(null);
    replace(this.results, result.element);
    await result.run(sql, Number(this.most.value), this.abort.signal);
    this.abort = null;
    this.busy(false);
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
