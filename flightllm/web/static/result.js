// One statement that runs: how far it is, what it cost, its rows or its error.

import { run } from "./api.js";
import { h, setText } from "./dom.js";
import { count, counted, seconds } from "./format.js";
import { Grid } from "./grid.js";

export class Result {
  // `title` is null for a statement that runs alone.
  constructor(title) {
    this.grid = new Grid();
    this.status = h("span", { role: "status" });
    this.bar = h("progress", { hidden: true, "aria-label": "Model calls" });
    this.link = h("a", { hidden: true }, "Details");
    this.cost = h("p", { class: "cost", hidden: true });
    this.error = h("p", { class: "error", role: "alert", hidden: true });
    this.failed = false;
    this.ended = false;
    this.element = h("section", { class: "one" }, title && h("h2", {}, title),
      h("p", { class: "line" }, this.status, this.bar, this.link), this.cost, this.error, this.grid.element);
  }

  // Run a statement to its end; `signal` stops it.
  async run(sql, rows, signal) {
    this.sql = sql;
    this.began = performance.now();
    this.grid.element.setAttribute("aria-busy", "true");
    setText(this.status, "Planning …");
    try {
      await run({ sql, rows }, signal, (event) => this.tell(event));
      if (!this.ended) this.fail("The connection was lost before the statement ended.");
    } catch (error) {
      if (error.name === "AbortError") {
        this.failed = true;
        setText(this.status, "Cancelled.");
      } else this.fail(error.message);
    }
    this.bar.hidden = true;
    this.grid.element.setAttribute("aria-busy", "false");
    this.grid.end(this.more);
  }

  tell(event) {
    if (event.query_id) {
      this.link.href = `#/queries/${event.query_id}`;
      this.link.hidden = false;
    }
    const passed = seconds((performance.now() - this.began) / 1000);
    if (event.event === "progress") this.progress(event, passed);
    else if (event.event === "columns") this.grid.setColumns(event.columns, event.answers, this.sql);
    else if (event.event === "rows") {
      this.grid.add(event.rows);
      if (this.bar.hidden) setText(this.status, this.arriving(passed));
    } else if (event.event === "affected") this.finish(event, event.rows === null ? "Done" : `${counted(event.rows, "row")} affected`, passed);
    else if (event.event === "end") {
      this.more = event.more;
      const rows = event.more ? `The first ${counted(event.rows, "row")}; there are more rows, and the query was stopped here` : counted(event.rows, "row");
      this.finish(event, this.grid.isPlan ? "Plan" : rows, passed);
    } else if (event.event === "error") {
      this.tellCost(event.summary);
      this.fail(event.message, event.sqlstate);
    }
  }

  arriving(passed) {
    return `Rows arrive: ${count(this.grid.count)} so far, ${passed}`;
  }

  progress(event, passed) {
    const calls = event.calls_expected;
    this.bar.hidden = !calls;
    const done = calls ? `; ${count(event.calls_done)} of ${count(calls)} model calls` : "";
    if (calls) {
      this.bar.max = calls;
      this.bar.value = event.calls_done;
    }
    const running = calls || event.status === "running" ? `Running, ${passed}` : `Planning, ${passed}`;
    setText(this.status, `${this.grid.count ? this.arriving(passed) : running}${done || " …"}`);
  }

  finish(event, text, passed) {
    this.ended = true;
    const whole = event.event === "end" && !event.more && event.summary; // it has the rows and seconds too
    setText(this.status, whole ? `${event.summary}.` : `${text}, ${passed}.`);
    this.tellCost(whole ? "" : event.summary);
  }

  // Show the server's line about calls, tokens and their price; it is empty for a statement without model calls.
  tellCost(summary) {
    setText(this.cost, summary);
    this.cost.hidden = !summary;
  }

  fail(message, state) {
    if (this.ended) return;
    this.ended = true;
    this.failed = true;
    setText(this.status, "Failed.");
    setText(this.error, state ? `${message} (${state})` : message);
    this.error.hidden = false;
  }
}
