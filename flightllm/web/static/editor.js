// A text area for SQL with syntax colours, and with completion of table, column and function names.
// The coloured text is behind the text area, letter for letter; the letters of the text area are transparent.

import { h, replace } from "./dom.js";

export const KEYWORDS = `ALL ALTER ANALYZE AND AS ASC BETWEEN BY CASE CAST COMMENT CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP
  ELSE END EXCEPT EXISTS EXPLAIN EXTERNAL FALSE FILTER FROM FULL GRANT GROUP HAVING ILIKE IN INNER INSERT INTERSECT INTO IS
  JOIN LEFT LIKE LIMIT MERGE NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER PARTITION QUALIFY REVOKE RIGHT SELECT SET SHOW
  TABLE THEN TRUE UNION UPDATE USING VALUES VIEW WHEN WHERE WITH`.split(/\s+/);
const MOST = 9;
const TOKEN = /(--[^\n]*|\/\*[^]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|("(?:[^"]|"")*(?:"|$))|(\b\d[\w.]*)|(\w+)(\s*\()?/gu;
const KINDS = ["comment", "text", "name", "number"];

// Return the parts of a statement as [text, kind]; a part without a colour has the kind null.
function parts(sql) {
  const found = [];
  let start = 0;
  for (const match of sql.matchAll(TOKEN)) {
    const word = match[5];
    let kind = KINDS[match.slice(1, 5).findIndex((group) => group !== undefined)] ?? null;
    if (word) kind = KEYWORDS.includes(word.toUpperCase()) ? "keyword" : match[6] ? "function" : null;
    if (!kind) continue;
    const text = word ?? match[0];
    found.push([sql.slice(start, match.index), null], [text, kind]);
    start = match.index + text.length;
  }
  return [...found, [sql.slice(start), null]];
}

export class Editor {
  // `run` is called for Ctrl+Enter.
  constructor(run) {
    this.run = run;
    this.names = []; // [text to write, what it is, the table of a column]
    this.choices = [];
    this.chosen = -1;
    this.colours = h("pre", { class: "colours", "aria-hidden": "true" });
    this.list = h("ul", { id: "choices", class: "choices", role: "listbox", "aria-label": "Completions", hidden: true });
    this.text = h("textarea", { id: "sql", rows: "7", spellcheck: "false", autocapitalize: "off", autocomplete: "off",
      "aria-describedby": "sql-hint", "aria-autocomplete": "list", "aria-controls": "choices",
      onkeydown: (event) => this.key(event), oninput: () => this.changed(), onscroll: () => this.scroll(),
      onblur: () => this.offer([]) });
    this.element = h("div", { class: "editor" }, this.colours, this.text, this.list);
    this.colour();
  }

  get value() {
    return this.text.value;
  }

  set value(sql) {
    this.text.value = sql;
    this.offer([]);
    this.colour();
  }

  // Insert a text at the caret, or replace the selection.
  insert(text) {
    this.text.setRangeText(text, this.text.selectionStart, this.text.selectionEnd, "end");
    this.colour();
    this.text.focus();
  }

  changed() {
    this.colour();
    this.complete(2);
  }

  colour() {
    const coloured = parts(`${this.text.value}\n`).map(([text, kind]) => (kind ? h("span", { class: kind }, text) : text));
    replace(this.colours, coloured);
    this.scroll();
  }

  scroll() {
    this.colours.scrollTop = this.text.scrollTop;
    this.colours.scrollLeft = this.text.scrollLeft;
  }

  // Offer names for the word before the caret, if it has at least `least` characters or follows a dot.
  complete(least) {
    const before = this.text.value.slice(0, this.text.selectionStart);
    const [, table, word] = /(?:(\w+)\.)?("?\w*)$/u.exec(before);
    if (!table && word.length < least) return this.offer([]);
    const wanted = word.replace('"', "").toLowerCase();
    const fits = (name) => name.replace(/^"/, "").toLowerCase().startsWith(wanted) && name !== word;
    const known = table && this.names.filter(([name, , of]) => of === table.toLowerCase() && fits(name));
    const all = known?.length ? known : this.names.filter(([name, , of]) => fits(name) && (!table || of));
    const keywords = table ? [] : KEYWORDS.filter(fits).map((name) => [name, ""]);
    const seen = new Map([...all, ...keywords].map((choice) => [choice[0], choice]));
    this.word = word;
    return this.offer([...seen.values()].slice(0, MOST));
  }

  offer(choices) {
    this.choices = choices;
    this.choose(-1);
    this.list.hidden = !choices.length;
    replace(this.list, choices.map(([name, what], at) => h("li", { id: `choice-${at}`, role: "option",
      onmousedown: (event) => {
        event.preventDefault(); // the text keeps the focus
        this.take(at);
      } }, h("span", {}, name), h("span", { class: "hint" }, what))));
    if (choices.length) this.place();
  }

  // Put the list below the word. A copy of the text before the caret gives the word's position.
  place() {
    const mark = h("span", {}, "\u200b");
    const copy = h("pre", { class: "colours measured" }, this.text.value.slice(0, this.text.selectionStart), mark);
    this.element.append(copy);
    const left = Math.min(mark.offsetLeft, this.element.clientWidth - 240);
    this.list.style.left = `${Math.max(0, left)}px`;
    this.list.style.top = `${mark.offsetTop + mark.offsetHeight + 2 - this.text.scrollTop}px`;
    copy.remove();
  }

  choose(at) {
    this.chosen = at;
    [...this.list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
    if (at < 0) this.text.removeAttribute("aria-activedescendant");
    else this.text.setAttribute("aria-activedescendant", `choice-${at}`);
  }

  take(at) {
    const end = this.text.selectionStart;
    this.text.setRangeText(this.choices[at][0], end - this.word.length, end, "end");
    this.offer([]);
    this.colour();
  }

  key(event) {
    const { key } = event;
    if (key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
    else if (key === " " && event.ctrlKey) this.complete(0);
    else if (this.choices.length && key === "ArrowDown") this.choose((this.chosen + 1) % this.choices.length);
    else if (this.choices.length && key === "ArrowUp") this.choose((this.chosen < 1 ? this.choices.length : this.chosen) - 1);
    else if (this.choices.length && key === "Tab" && !event.shiftKey) this.take(Math.max(0, this.chosen));
    else if (this.chosen >= 0 && key === "Enter") this.take(this.chosen);
    else if (this.choices.length && key === "Escape") this.offer([]);
    else return;
    event.preventDefault();
  }
}
