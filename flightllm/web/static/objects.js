// Tables, views, indexes, models and prompts.

import { get } from "./api.js";
import { alert, h, replace, table } from "./dom.js";
import { bytes, count, when } from "./format.js";
import { put } from "./sql.js";

const TYPES = { "BASE TABLE": "table", VIEW: "view", "SYSTEM TABLE": "system table" };

function tableOf(info) {
  const rows = info.columns.map((column) => h("tr", {}, h("td", {}, column.name), h("td", {}, h("code", {}, column.type)),
    h("td", {}, column.nullable ? "" : "not null")));
  const open = h("button", { type: "button", "aria-label": `Show rows of ${info.name}`, onclick: () => {
    put(`SELECT * FROM ${info.sql} LIMIT 100`);
    location.hash = "#/sql";
  } }, "Rows in SQL");
  return h("details", {},
    h("summary", {}, h("strong", {}, info.name), h("span", { class: "hint" },
      ` ${TYPES[info.type] ?? info.type}, ${count(info.columns.length)} columns`)),
    h("p", { class: "actions" }, open),
    table(`Columns of ${info.name}`, ["Column", "Type", "Constraint"], h("tbody", {}, rows)));
}

function list(title, rows, columns) {
  const heads = columns.map(([name, , style]) => [name, style]);
  const body = rows.map((row) => h("tr", {}, columns.map(([, of, style]) => h("td", { class: style }, of(row) ?? "–"))));
  return [h("h2", {}, title), rows.length ? table(title, heads, h("tbody", {}, body)) : h("p", { class: "hint" }, "None.")];
}

export function show(main) {
  const place = h("div", {}, h("p", { class: "hint" }, "Loading …"));
  replace(main, h("h1", { tabindex: "-1" }, "Tables and models"), place);
  get("/api/objects").then((found) => {
    const schemas = found.schemas.map((schema) => {
      const tables = found.tables.filter((info) => info.schema === schema);
      return [h("h2", {}, `Schema ${schema}`), tables.length ? tables.map(tableOf) : h("p", { class: "hint" }, "No tables.")];
    });
    replace(place, schemas.flat(2),
      list("Models", found.models, [
        ["Name", (row) => row.name], ["Engine", (row) => row.engine], ["Model", (row) => row.model],
        ["State", (row) => row.error ?? (row.loaded ? "loaded" : "not loaded")], ["Owner", (row) => row.owner],
        ["Options", (row) => row.options, "sql"]]),
      list("Prompts", found.prompts, [
        ["Name", (row) => row.name], ["Version", (row) => count(row.version), "number"], ["Owner", (row) => row.owner],
        ["Created", (row) => when(row.created)], ["Text", (row) => row.text, "sql"]]),
      list("Vector indexes", found.vector_indexes, [
        ["Name", (row) => row.name], ["Table", (row) => row.table], ["Column", (row) => row.column],
        ["Type", (row) => row.type], ["Model", (row) => row.model], ["Status", (row) => row.status],
        ["Rows", (row) => count(row.rows), "number"], ["Size", (row) => bytes(row.bytes), "number"]]));
  }, (error) => replace(place, alert(error)));
  return () => {};
}
