// A table of rows. Only the cells near the visible part are in the document, so the number of rows costs nothing.

import { h, replace } from "./dom.js";
import { count } from "./format.js";
import { mark } from "./label.js";
import { cell, short } from "./value.js";

const HEIGHT = 28; // of a row, as in style.css
const AROUND = 8; // rows above and below the visible ones
const NARROW = 56;
const WIDE = 360;
const PADDING = 22;
const BUTTONS = 48; // the room for the arrow and the profile's button
const SAMPLE = 100; // rows of each batch whose texts decide how wide a column is
const MARKS = { ascending: " ▲", descending: " ▼" };

const pen = document.createElement("canvas").getContext("2d");

function widthOf(text) {
  return pen.measureText(text).width;
}

export class Rows {
  // `sort` and `profile` are called with the number of a column whose button was pressed. `answers` are the columns with
  // answers of models, or null; `why` is called with a row, its number, one of these columns, or -1 for the row, and the
  // button. `verdict` returns the label of a cell, or null.
  constructor(columns, sort, profile, answers = null, why = null, verdict = () => null) {
    this.verdict = verdict;
    this.columns = columns;
    this.answers = answers && new Set(answers);
    this.why = why;
    this.rows = [];
    this.order = null; // the numbers of the rows as they are shown, or null for their own order
    this.drawn = new Map(); // row elements by their place
    this.above = h("tr", { class: "space", "aria-hidden": "true" }, h("td", {})); // as high as the rows that are not drawn
    this.below = this.above.cloneNode(true);
    this.body = h("tbody", {}, this.above, this.below);
    this.cols = [h("col", {}), ...columns.map(() => h("col", {}))];
    this.heads = columns.map((column, at) => this.head(column, sort, profile, at));
    this.table = h("table", { "aria-colcount": String(columns.length + 1) }, h("caption", { class: "hidden" }, "Rows"),
      h("colgroup", {}, this.cols),
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number at" }, h("span", { class: "hidden" }, "Row")), this.heads)),
      this.body);
    this.element = h("div", { class: "scroll grid", tabindex: "0", role: "region", "aria-label": "Rows",
      onscroll: () => this.draw() }, this.table);
    new ResizeObserver(() => this.draw()).observe(this.element);
    pen.font = `600 ${getComputedStyle(document.body).font.replace(/^\d+ /, "")}`;
    this.widths = columns.map((column) => Math.min(WIDE, Math.max(NARROW, widthOf(column.name) + PADDING + BUTTONS)));
    this.measure([]);
  }

  head(column, sort, profile, at) {
    const mark = h("span", { "aria-hidden": "true" });
    const name = h("button", { type: "button", class: "sort", title: `${column.type}; sort by this column`,
      onclick: () => sort(at) }, column.name);
    const open = h("button", { type: "button", class: "look", title: "Profile of this column",
      "aria-label": `Profile of ${column.name}`, onclick: () => profile(at) }, "Σ");
    return h("th", { scope: "col", class: column.number ? "number" : null }, h("div", {}, name, mark, open));
  }

  // Make columns wider where new rows need it.
  measure(rows) {
    pen.font = getComputedStyle(document.body).font;
    for (const row of rows.slice(0, SAMPLE)) {
      row.forEach((text, at) => {
        const room = this.widths[at];
        if (text === null || room >= WIDE) return;
        this.widths[at] = Math.min(WIDE, Math.max(room, widthOf(short(text)) + PADDING));
      });
    }
    const first = 24 + widthOf(count(this.rows.length));
    let left = Math.max(NARROW, first);
    this.cols[0].style.width = `${left}px`;
    this.lefts = this.widths.map((width, at) => {
      this.cols[at + 1].style.width = `${width}px`;
      left += width;
      return left - width;
    });
    this.lefts.push(left);
    this.table.style.width = `${left}px`;
    this.element.classList.toggle("tall", (this.rows.length + 1) * HEIGHT > 0.7 * window.innerHeight);
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
  }

  add(rows) {
    for (const row of rows) this.rows.push(row);
    this.measure(rows);
    this.draw();
  }

  // Show the rows in another order; `sorted` is the number of a column, `direction` ascending or descending.
  arrange(order, sorted, direction) {
    this.order = order;
    this.heads.forEach((head, at) => {
      const is = order && at === sorted;
      if (is) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
      head.querySelector("span").textContent = is ? MARKS[direction] : "";
    });
    this.forget();
    this.draw();
  }

  // Return the rows as they are shown.
  shown() {
    return this.order ? this.order.map((at) => this.rows[at]) : this.rows;
  }

  forget() {
    this.drawn.clear();
    replace(this.body, this.above, this.below);
  }

  draw() {
    const { scrollTop, scrollLeft, clientHeight, clientWidth } = this.element;
    const high = clientHeight || window.innerHeight; // 0 before the table is in the document
    const first = Math.max(0, Math.floor(scrollTop / HEIGHT) - AROUND);
    const end = Math.min(this.rows.length, Math.ceil((scrollTop + high) / HEIGHT) + AROUND);
    const right = scrollLeft + (clientWidth || window.innerWidth);
    let from = this.lefts.findIndex((left, at) => at === this.columns.length || this.lefts[at + 1] > scrollLeft);
    let to = this.lefts.findIndex((left, at) => at === this.columns.length || left >= right);
    from = Math.max(0, from - 2);
    to = Math.min(this.columns.length, to + 2);
    if (from !== this.from || to !== this.to) this.forget();
    this.from = from;
    this.to = to;
    for (const [at, element] of this.drawn) {
      if (at >= first && at < end) continue;
      element.remove();
      this.drawn.delete(at);
    }
    this.above.firstChild.style.height = `${first * HEIGHT}px`;
    this.below.firstChild.style.height = `${(this.rows.length - end) * HEIGHT}px`;
    let before = this.above;
    for (let at = first; at < end; at += 1) {
      const element = this.drawn.get(at) ?? this.row(at);
      if (!this.drawn.has(at)) before.after(element);
      this.drawn.set(at, element);
      before = element;
    }
  }

  row(at) {
    const number = this.order ? this.order[at] : at;
    const row = this.rows[number];
    const left = this.from ? h("td", { class: "space", colspan: String(this.from), "aria-hidden": "true" }) : null;
    const rest = this.columns.length - this.to;
    const cells = this.columns.slice(this.from, this.to).map((column, index) => {
      const place = this.from + index;
      const made = cell(row[place], column, this.answers?.has(place) ? (button) => this.why(row, number + 1, place, button) : null);
      const verdict = this.answers?.has(place) ? this.verdict(row, place) : null;
      if (verdict) mark(made.firstChild, verdict);
      made.setAttribute("aria-colindex", String(this.from + index + 2));
      return made;
    });
    const label = this.answers ? h("button", { type: "button", class: "cell", title: "Why is this row here?",
      "aria-label": `Row ${count(number + 1)}; why is it here?`, onclick: () => this.why(row, number + 1, -1) }, count(number + 1)) : count(number + 1);
    return h("tr", { "aria-rowindex": String(at + 2) }, h("td", { class: "number at", "aria-colindex": "1" }, label),
      left, cells, rest ? h("td", { class: "space", colspan: String(rest), "aria-hidden": "true" }) : null);
  }
}
