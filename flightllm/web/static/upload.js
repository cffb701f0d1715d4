// Files of the user as temporary tables: by a button, or dropped on the SQL box.

import { upload } from "./api.js";
import { alert, h, replace } from "./dom.js";
import { counted } from "./format.js";

export class Uploads {
  // `made` is called with the names of the tables of each file.
  constructor(made) {
    this.made = made;
    this.picker = h("input", { type: "file", id: "file", multiple: true, hidden: true, onchange: () => this.take([...this.picker.files]) });
    this.button = h("button", { type: "button", title: "Or drop files here. They become temporary tables, which end when you sign out.",
      onclick: () => this.picker.click() }, "Upload files");
    this.shown = h("div", { "aria-live": "polite" });
  }

  // Take the files that are dropped on an element.
  listen(element) {
    const files = (event) => [...(event.dataTransfer?.items ?? [])].some((item) => item.kind === "file");
    element.addEventListener("dragover", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      element.classList.add("drop");
    });
    element.addEventListener("dragleave", (event) => {
      if (!element.contains(event.relatedTarget)) element.classList.remove("drop");
    });
    element.addEventListener("drop", (event) => {
      element.classList.remove("drop");
      if (!files(event)) return;
      event.preventDefault();
      this.take([...event.dataTransfer.files]);
    });
  }

  async take(files) {
    this.picker.value = "";
    replace(this.shown);
    this.button.disabled = true;
    for (const file of files) {
      const line = h("p", { class: "line" }, `Uploading ${file.name} …`);
      this.shown.append(line);
      try {
        const { tables } = await upload(file);
        line.replaceWith(...tables.flatMap((table) => this.told(file, table)));
        this.made(tables.map((table) => table.name));
      } catch (error) {
        line.replaceWith(alert(`${file.name}: ${error.message}`));
      }
    }
    this.button.disabled = false;
  }

  told(file, table) {
    return [h("p", { class: "line" }, h("span", {}, `${file.name} is the temporary table `, h("strong", {}, table.name), `: ${counted(table.rows, "row")}, until you sign out.`)),
      ...table.notes.map((note) => h("p", { class: "hint" }, `Note: ${note}`))];
  }
}
