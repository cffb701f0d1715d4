// Which names fit before the caret.

import { KEYWORDS, meant, tokens } from "./tokens.js";

const BEFORE_TABLE = ["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE"];

// Return the tables that a statement reads, by the names under which it reads them, in lower case.
export function tablesIn(sql, tables) {
  const found = tokens(sql).filter((one) => one.kind !== "comment" && one.kind !== "text");
  const known = new Map();
  let reads = false; // whether a name here is a table's
  found.forEach((token, at) => {
    const upper = token.kind === "keyword" ? token.text.toUpperCase() : "";
    const between = at ? sql.slice(found[at - 1].at + found[at - 1].text.length, token.at) : "";
    if (upper && upper !== "AS") reads = BEFORE_TABLE.includes(upper);
    if (!reads || upper) return;
    const before = found[at - 1]?.text.toUpperCase();
    const starts = BEFORE_TABLE.includes(before) || between.includes(",") || between.trim() === ".";
    const table = starts && tables.find((one) => one.name.toLowerCase() === meant(token).toLowerCase());
    if (!table) return;
    known.set(table.name.toLowerCase(), table);
    const next = found[at + 1]?.text.toUpperCase() === "AS" ? found[at + 2] : found[at + 1];
    const gap = next ? sql.slice(token.at + token.text.length, next.at) : ",";
    if (next && next.kind !== "keyword" && !/[,.()]/.test(gap)) known.set(meant(next).toLowerCase(), table);
  });
  return known;
}

// Return the statement around a place, by semicolons that are not in a text, a name or a comment.
function statementAt(sql, caret) {
  const hidden = tokens(sql).filter((one) => ["comment", "text", "name"].includes(one.kind));
  const ends = [...sql.matchAll(/;/g)].map((match) => match.index)
    .filter((at) => !hidden.some((one) => one.at <= at && at < one.at + one.text.length));
  return sql.slice((ends.filter((at) => at < caret).at(-1) ?? -1) + 1, ends.find((at) => at >= caret));
}

// Return [[text, what it is], …] for the word before the caret, and this word; no choices below `least` letters.
// `names` has `tables` of {name, written, what, columns: [{written, what}]}, and `functions`.
export function choicesAt(sql, caret, names, least) {
  const before = sql.slice(0, caret);
  const [all, table, word] = /(?:(\w+|"[^"]*")\.)?("?\w*)$/u.exec(before);
  if (!table && word.length < least) return { word, choices: [] };
  const wanted = word.replace('"', "").toLowerCase();
  const fits = ([text]) => text.replace(/^"/, "").toLowerCase().startsWith(wanted) && text !== word;
  const columnsOf = (one) => one.columns.map((column) => [column.written, column.what]);
  const read = tablesIn(statementAt(sql, caret), names.tables);
  if (table) {
    const name = table.replaceAll('"', "").toLowerCase();
    const one = read.get(name) ?? names.tables.find((other) => other.name.toLowerCase() === name);
    const inside = names.tables.filter((other) => other.schema.toLowerCase() === name).map((other) => [other.own, other.what]);
    return { word, choices: (one ? columnsOf(one) : inside).filter(fits) };
  }
  const tables = names.tables.map((one) => [one.written, one.what]);
  const last = /(\w+)\s*$/u.exec(before.slice(0, before.length - all.length))?.[1].toUpperCase();
  if (BEFORE_TABLE.includes(last)) return { word, choices: tables.filter(fits) };
  const columns = [...new Set(read.values())].flatMap(columnsOf);
  const choices = [...columns, ...tables, ...names.functions.map((name) => [`${name}(`, "AI function"]), ...KEYWORDS.map((name) => [name, ""])];
  const seen = new Set();
  return { word, choices: choices.filter((one) => fits(one) && !seen.has(one[0]) && seen.add(one[0])) };
}
