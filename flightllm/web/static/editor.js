// A text area for SQL with syntax colours, and with completion of table, column and function names.
// The coloured text is behind the text area, letter for letter; the letters of the text area are transparent.

import { choicesAt } from "./completion.js";
import { h, replace } from "./dom.js";
import { tokens } from "./tokens.js";

const MOST = 9;

export class Editor {
  // `run` is called for Ctrl+Enter, and with true for Ctrl+Shift+Enter.
  constructor(run) {
    this.run = run;
    this.names = { tables: [], functions: [] };
    this.wrong = null; // [begin, end] of what an error means
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

  // Show a part of the text as wrong until the text changes; null shows none.
  mark(place) {
    this.wrong = place;
    this.wrongText = this.text.value;
    this.colour();
  }

  colour() {
    const sql = `${this.text.value}\n`;
    const [begin, end] = this.text.value === this.wrongText ? this.wrong ?? [0, 0] : [0, 0];
    const coloured = [];
    let at = 0;
    const add = (to, kind) => {
      for (const [from, until, wrong] of [[at, begin, false], [Math.max(at, begin), end, true], [Math.max(at, end), to, false]]) {
        const text = sql.slice(from, Math.min(to, until));
        const style = [kind, wrong && "wrong"].filter(Boolean).join(" ");
        if (from < Math.min(to, until)) coloured.push(style ? h("span", { class: style }, text) : text);
      }
      at = to;
    };
    for (const token of tokens(sql)) {
      add(token.at, null);
      add(token.at + token.text.length, token.kind === "word" || token.kind === "name" ? null : token.kind);
    }
    add(sql.length, null);
    replace(this.colours, coloured);
    this.scroll();
  }

  scroll() {
    this.colours.scrollTop = this.text.scrollTop;
    this.colours.scrollLeft = this.text.scrollLeft;
  }

  // Offer names for the word before the caret, if it has at least `least` characters or follows a dot.
  complete(least) {
    const { word, choices } = choicesAt(this.text.value, this.text.selectionStart, this.names, least);
    this.word = word;
    this.offer(choices.slice(0, MOST));
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
    const left = Math.min(mark.offsetLeft, this.element.clientWidth - this.list.offsetWidth);
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
    if (key === "Enter" && (event.ctrlKey || event.metaKey)) this.run(event.shiftKey);
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
