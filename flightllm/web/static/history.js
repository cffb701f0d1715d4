// The statements that were run in this browser, and those that the user saved. They stay in this browser's storage.

import { h, replace } from "./dom.js";
import { count, oneLine, when } from "./format.js";
import { openDialog } from "./value.js";

const MOST = 500;
const LONGEST = 20_000; // letters of a statement that is kept

export class History {
  constructor(user) {
    this.key = `flightllm.history.${user}`;
    this.entries = []; // {sql, at, name}, the newest first; a saved one has a name
    try {
      const found = JSON.parse(localStorage.getItem(this.key) ?? "[]");
      if (Array.isArray(found)) this.entries = found.filter((one) => typeof one?.sql === "string");
    } catch { /* a browser can forbid the storage: the statements of this page are kept all the same */ }
  }

  // Keep a statement; an equal one before it goes, and so do the oldest ones of too many.
  add(sql, name = "") {
    const text = sql.trim();
    if (!text || text.length > LONGEST) return;
    const same = (one) => (one.name ?? "") === name && (name || one.sql === text);
    const others = this.entries.filter((one) => !same(one));
    this.keep([{ sql: text, at: new Date().toISOString(), name }, ...others]);
  }

  remove(entry) {
    this.keep(this.entries.filter((one) => one !== entry));
  }

  keep(entries) {
    let run = 0;
    this.entries = entries.filter((one) => one.name || (run += 1) <= MOST);
    try {
      localStorage.setItem(this.key, JSON.stringify(this.entries));
    } catch { /* full or forbidden: as above */ }
  }

  // Open the list; `put` gets the text of the entry that is chosen, and `current` is the text that can be saved.
  open(current, put) {
    const list = h("ul", { class: "entries" });
    const found = h("p", { class: "hint", role: "status" });
    const search = h("input", { type: "search", id: "history-search", placeholder: "Search", "aria-label": "Search", oninput: () => fill() });
    const name = h("input", { id: "save-name", placeholder: "Name", "aria-label": "Name of the statement", maxlength: "100" });
    const save = h("form", { class: "actions", onsubmit: (event) => {
      event.preventDefault();
      if (name.value.trim()) this.add(current, name.value.trim());
      name.value = "";
      fill();
    } }, name, h("button", { type: "submit" }, "Save the statement in the box"));
    const clear = h("button", { type: "button", onclick: () => {
      this.keep(this.entries.filter((one) => one.name));
      fill();
    } }, "Delete all that are not saved");
    const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
    const item = (entry) => h("li", {},
      h("button", { type: "button", class: "entry", title: entry.sql.slice(0, 2_000), onclick: () => {
        dialog.close();
        put(entry.sql);
      } }, entry.name ? h("strong", {}, entry.name) : h("span", { class: "hint" }, when(entry.at)), h("code", {}, oneLine(entry.sql).slice(0, 200))),
      h("button", { type: "button", "aria-label": `Delete ${entry.name || oneLine(entry.sql).slice(0, 80)}`, onclick: () => {
        this.remove(entry);
        fill();
      } }, "✕"));
    const fill = () => {
      const wanted = search.value.trim().toLowerCase();
      const fits = this.entries.filter((one) => `${one.name ?? ""}\n${one.sql}`.toLowerCase().includes(wanted));
      replace(list, [...fits.filter((one) => one.name), ...fits.filter((one) => !one.name)].map(item));
      found.textContent = `${count(fits.length)} of ${count(this.entries.length)} statements`;
    };
    const dialog = openDialog("Statements", "Earlier and saved statements", search, found, list, current.trim() ? save : null,
      h("p", { class: "hint" }, "They are kept in this browser, for this user, and stay there after you sign out."),
      h("p", { class: "actions" }, close, clear));
    fill();
    search.focus();
  }
}
