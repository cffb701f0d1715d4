// The rows of a result: as a table or a chart, sorted, and as files; or the plan that EXPLAIN returns.

import { Chart } from "./chart.js";
import { h, replace, setText } from "./dom.js";
import { csv, CSV_HINT, download, jsonLines } from "./download.js";
import { explanation } from "./explain.js";
import { counted } from "./format.js";
import { verdictOf } from "./label.js";
import { Plan, planDocument } from "./plan.js";
import { openProfile } from "./profile.js";
import { Rows } from "./rows.js";
import { sorted } from "./sorting.js";
import { tabs } from "./tabs.js";
import { openWhy } from "./why.js";

export class Grid {
  constructor() {
    this.shown = h("div", { class: "result" });
    this.tabs = tabs("Result as", ["Table", "Chart"], this.shown, (name) => this.turn(name));
    this.chart = null;
    this.label = h("span", { class: "hint" });
    this.note = h("span", { class: "hint", "aria-live": "polite" });
    const asCsv = h("button", { type: "button", title: CSV_HINT, onclick: () => this.save("csv", csv, "text/csv") }, "CSV");
    const asJson = h("button", { type: "button", onclick: () => this.save("jsonl", jsonLines, "application/x-ndjson") }, "JSON lines");
    this.tools = h("div", { class: "actions", hidden: true }, this.tabs, this.label, asCsv, asJson, this.note);
    this.element = h("div", {}, this.tools, this.shown);
    this.columns = [];
    this.table = null;
    this.more = false;
    this.isPlan = false;
    this.sorting = null; // [column, direction]
  }

  get count() {
    return this.table?.rows.length ?? 0;
  }

  // Show the buttons for the rows: chart and download. `more` tells that the query had more rows.
  end(more) {
    this.more = more;
    setText(this.label, `Download ${counted(this.count, "row")}:`);
    this.tools.hidden = !this.table;
    this.tabs.hidden = !this.count;
    if (this.sorting) this.arrange();
  }

  turn(name) {
    this.chart?.close();
    this.chart = name === "Chart" ? new Chart(this.columns, this.table.shown(), this.more) : null;
    replace(this.shown, this.chart ? this.chart.element : this.table.element);
    this.chart?.open();
  }

  save(ending, written, type) {
    download(`result.${ending}`, written(this.columns, this.table.shown()), type);
  }

  // `answers` are the columns with answers of models, and `sql` is the statement; null means that no row has its own.
  setColumns(columns, answers = null, sql = "") {
    this.columns = columns;
    this.plan = [];
    this.drawn = null; // the graph of a plan
    this.isPlan = columns.map((column) => column.name).join() === "plan_type,plan";
    if (this.isPlan) return;
    this.table = new Rows(columns, (at) => this.sort(at), (at) => openProfile(columns[at], at, this.table.rows, this.more),
      answers, (row, number, at, button) => openWhy(sql, columns, row, at, number, button),
      (row, at) => verdictOf(sql, row, at));
    replace(this.shown, this.table.element);
  }

  // Sort by a column: first ascending, then descending, then as the rows came.
  sort(at) {
    const now = this.sorting?.[0] === at ? this.sorting[1] : null;
    const next = { ascending: "descending", descending: null }[now] ?? (now ? null : "ascending");
    this.sorting = next && [at, next];
    this.arrange();
  }

  arrange() {
    const [at, direction] = this.sorting ?? [-1, null];
    this.table.arrange(direction && sorted(this.table.rows, at, this.columns[at], direction), at, direction);
    const part = this.more ? "; only the fetched rows: ORDER BY sorts all" : "";
    setText(this.note, direction ? `Sorted by ${this.columns[at].name}, ${direction}${part}.` : "");
  }

  // Show the document of EXPLAIN (FORMAT JSON), and return whether the rows are one.
  addDocument(rows) {
    const found = this.columns.length === 1 && this.columns[0].name === "plan" && rows.length === 1 && !this.count ? planDocument(rows[0][0]) : null;
    if (!found) return false;
    this.isPlan = true;
    this.table = null;
    this.drawn = new Plan(found);
    replace(this.shown, this.drawn.element);
    return true;
  }

  add(rows) {
    if (this.drawn || this.addDocument(rows)) return;
    if (this.isPlan) {
      this.plan.push(...rows);
      replace(this.shown, explanation(this.plan));
      return;
    }
    this.table.add(rows);
    if (this.sorting) this.arrange();
  }
}
