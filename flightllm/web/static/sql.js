// The SQL box.

import { run } from "./api.js";
import { h, setText } from "./dom.js";
import { count, seconds } from "./format.js";
import { Grid } from "./grid.js";

let box = null;

function explained(sql) {
  return /^\s*EXPLAIN\b/i.test(sql) ? sql : `EXPLAIN ${sql}`;
}

class Box {
  constructor() {
    this.grid = new Grid();
    this.abort = null;
    this.text = h("textarea", { id: "sql", rows: "7", spellcheck: "false", autocapitalize: "off", autocomplete: "off",
      "aria-describedby": "sql-hint", onkeydown: (event) => this.key(event) });
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
      h("label", { for: "sql" }, "Statement"), this.text,
      h("div", { class: "actions" }, this.go, this.explain, this.stop,
        h("span", { class: "pair" }, h("label", { for: "most" }, "Rows shown"), this.most),
        h("span", { id: "sql-hint", class: "hint" }, "Ctrl+Enter runs it. SET holds until you sign out.")));
    this.element = h("div", {}, h("h1", { tabindex: "-1" }, "SQL"), form,
      h("p", { class: "line" }, this.status, this.bar, this.link), this.error, this.grid.element);
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.start(this.text.value);
    }
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
      if (!this.ended) this.fail("The connection broke off before the statement ended.");
    } catch (error) {
      if (error.name === "AbortError") setText(this.status, "Cancelled.");
      else this.fail(this.ended ? "" : error.message);
    }
    this.abort = null;
    this.busy(false);
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
      const most = event.more ? `The first ${rows}; there are more, and the query was stopped here` : rows;
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

export function show(main) {
  box ??= new Box();
  main.replaceChildren(box.element);
  return () => {};
}

// Put a text into the box, for another page.
export function put(sql) {
  box ??= new Box();
  box.text.value = sql;
}
