// The tables and columns that the user can see, beside the SQL box: a click inserts a name.

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { written } from "./tokens.js";

export class Names {
  constructor(editor) {
    this.editor = editor;
    this.list = h("div", {});
    this.element = h("aside", { class: "names", "aria-label": "Tables" }, h("h2", {}, "Tables"), this.list);
  }

  // Ask the server again: a statement can have changed the tables.
  async refresh() {
    let found;
    try {
      found = await get("/api/objects");
    } catch {
      return; // keep the shown names
    }
    const tables = found.tables.filter((table) => table.type !== "SYSTEM TABLE");
    const name = (table) => (table.schema === "public" || table.temporary ? written(table.name) : `${written(table.schema)}.${written(table.name)}`);
    const text = JSON.stringify([tables, found.functions]);
    if (text === this.shown) return;
    this.shown = text;
    this.editor.names = {
      functions: found.functions,
      tables: tables.map((table) => ({
        name: table.name,
        schema: table.schema,
        own: written(table.name),
        written: name(table),
        what: table.type === "VIEW" ? "view" : table.temporary ? "temporary table" : "table",
        columns: table.columns.map((column) => ({ written: written(column.name), what: `${column.type}, column of ${table.name}` })),
      })),
    };
    const open = new Set([...this.list.querySelectorAll("details[open]")].map((one) => one.dataset.name));
    replace(this.list, tables.length ? tables.map((table) => this.table(table, name(table), open)) : h("p", { class: "hint" },
      "No tables yet. Upload a file, run CREATE EXTERNAL TABLE, or start the server with a file."));
  }

  table(table, name, open) {
    const columns = table.columns.map((column) => h("li", {}, this.writes(written(column.name), column.name),
      h("span", { class: "hint" }, column.type)));
    const details = h("details", { "data-name": name, open: open.has(name) },
      h("summary", {}, h("span", {}, name), table.temporary && h("span", { class: "hint" }, " temporary")), h("ul", {}, h("li", {}, this.writes(name, "insert this name")), columns));
    return details;
  }

  writes(text, label) {
    return h("button", { type: "button", class: "cell", onclick: () => this.editor.insert(text) }, label);
  }
}
