// The SQL box.

import { post } from "./api.js";
import { h, replace, setText } from "./dom.js";
import { Editor } from "./editor.js";
import { count, oneLine } from "./format.js";
import { History } from "./history.js";
import { Names } from "./names.js";
import { errorPlace } from "./places.js";
import { Result } from "./result.js";
import { written } from "./tokens.js";
import { Uploads } from "./upload.js";

const EXPLAIN = "EXPLAIN (FORMAT JSON) "; // the graph is drawn from it
const SHOWN = 60; // letters of a statement above its result

let box = null;
let pending = null;

class Box {
  constructor(me) {
    this.me = me;
    this.abort = null;
    this.text = new Editor((all) => this.start({ all }));
    this.names = new Names(this.text);
    this.history = new History(me.user);
    this.most = h("select", { id: "most" }, ["100", "1000", "10000"].map((rows) =>
      h("option", { value: rows, selected: rows === "1000" }, count(Number(rows)))));
    this.go = h("button", { type: "submit", class: "main", title: "The selection, or the statement at the caret" }, "Run");
    this.every = h("button", { type: "button", onclick: () => this.start({ all: true }) }, "Run all");
    this.explain = h("button", { type: "button", onclick: () => this.start({ explain: true }) }, "Explain");
    this.stop = h("button", { type: "button", disabled: true, onclick: () => this.abort?.abort() }, "Cancel");
    const earlier = h("button", { type: "button", id: "history", onclick: () => this.history.open(this.text.value, (sql) => {
      this.text.value = sql;
      this.text.text.focus();
    }) }, "History");
    this.uploads = new Uploads((tables) => {
      this.names.refresh();
      if (!this.text.value.trim()) this.text.value = `SELECT * FROM ${written(tables[0])} LIMIT 100`;
    });
    this.summary = h("p", { class: "line", hidden: true, "aria-live": "polite" });
    this.results = h("div", {});
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      this.start({});
    } },
      h("label", { for: "sql" }, "Statements"), this.text.element,
      h("div", { class: "actions" }, this.go, this.every, this.explain, this.stop,
        h("span", { class: "pair" }, h("label", { for: "most" }, "Rows shown"), this.most), earlier, this.me.role === "readonly" ? null : [this.uploads.button, this.uploads.picker]),
      h("p", { id: "sql-hint", class: "hint" }, "Ctrl+Enter runs the selection or the statement at the caret, and Ctrl+Shift+Enter",
        " runs all statements. Ctrl+Space and Tab complete a name. SET applies until you sign out."));
    const main = h("div", { class: "box" }, form, this.uploads.shown, this.summary, this.results);
    if (this.me.role !== "readonly") this.uploads.listen(main);
    this.element = h("div", {}, h("h1", { tabindex: "-1" }, "SQL"), h("div", { class: "beside" }, this.names.element, main));
  }

  // Return the statements to run as {sql, begin, line}: all of them, those of the selection, or the one at the caret.
  async chosen(all) {
    const { value, selectionStart, selectionEnd } = this.text.text;
    const part = !all && value.slice(selectionStart, selectionEnd).trim();
    const [from, sql] = part ? [selectionStart, value.slice(selectionStart, selectionEnd)] : [0, value];
    const whole = { sql, begin: from, line: 1 };
    if (!sql.includes(";")) return [whole];
    const { statements } = await post("/api/split", { sql }, this.abort.signal);
    const lines = value.slice(0, from).split("\n").length - 1;
    const found = statements.map(({ begin, end, line }) => ({ sql: sql.slice(begin, end), begin: from + begin, line: lines + line }));
    if (!found.length) return [whole];
    if (all || part) return found;
    // A caret behind the last letter of a statement, or behind its semicolon, is still in it.
    const next = found.findIndex((one) => one.begin > selectionStart);
    const before = next < 0 ? found.at(-1) : found[Math.max(0, next - 1)];
    const gap = value.slice(before.begin + before.sql.length, selectionStart);
    return [next > 0 && gap.includes("\n") ? found[next] : before];
  }

  async start({ all = false, explain = false }) {
    if (this.abort) return;
    this.abort = new AbortController();
    this.busy(true);
    this.text.mark(null);
    this.summary.hidden = true;
    replace(this.results);
    try {
      await this.runEach(await this.chosen(all), explain);
    } catch (error) {
      if (error.name !== "AbortError") this.tell(error.message);
    }
    this.abort = null;
    this.busy(false);
    this.names.refresh(); // any statement can have changed the names
  }

  // Run statements one after the other, up to the first that fails.
  async runEach(statements, explain) {
    for (const [at, { sql, begin, line }] of statements.entries()) {
      const number = `${at + 1} of ${statements.length}`;
      const result = new Result(statements.length > 1 ? `Statement ${number}, line ${line}: ${oneLine(sql).slice(0, SHOWN)}` : null);
      this.results.append(result.element);
      this.history.add(sql);
      const added = explain && !/^\s*EXPLAIN\b/i.test(sql) ? EXPLAIN : "";
      await result.run(added + sql, Number(this.most.value), this.abort.signal);
      if (!result.failed) continue;
      if (statements.length > 1) this.tell(`Stopped at statement ${number}, in line ${line}.`);
      this.mark(result.error.textContent, sql, begin, added);
      return;
    }
    if (statements.length > 1) this.tell(`All ${count(statements.length)} statements have run.`);
  }

  // Mark what an error means, unless the text has changed.
  mark(message, sql, begin, added) {
    if (this.text.value.slice(begin, begin + sql.length) !== sql) return;
    const place = errorPlace(message, added + sql);
    const first = begin - added.length;
    if (place && place[0] >= added.length) this.text.mark([first + place[0], first + place[1]]);
  }

  tell(text) {
    setText(this.summary, text);
    this.summary.hidden = false;
  }

  busy(is) {
    this.go.disabled = this.every.disabled = this.explain.disabled = is;
    this.stop.disabled = !is;
  }
}

export function show(main, _found, context) {
  if (box?.me.user !== context.me.user) box = new Box(context.me); // a new user must not see the previous user's box
  if (pending !== null) box.text.value = pending;
  pending = null;
  main.replaceChildren(box.element);
  box.names.refresh();
  return () => {};
}

// Other parts of the page send a statement to run.
document.addEventListener("statement", ({ detail }) => {
  if (!box || box.abort) return;
  box.text.value = detail;
  box.start({});
});

// Put a text into the box; other pages call this.
export function put(sql) {
  pending = sql;
}
