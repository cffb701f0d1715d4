// The place in a statement that an error means.

import { meant, tokens } from "./tokens.js";

const LINE = [/ at Line: (\d+), Column: (\d+)/, / at (\d+):(\d+)\b/];
const NAMED = [/No field named (.+?)\.(?:\s|$)/, /table '([^']+)' not found/, /there is no \w+ '([^']+)'/i,
  /Invalid function '([^']+)'/, /no statement starts with '([^']+)'/];

// Return where a line and a column are, which both begin with 1 and count letters, not UTF-16 units.
function placeOf(sql, line, column) {
  const lines = sql.split("\n");
  if (line > lines.length) return sql.length;
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + [...lines[line - 1]].slice(0, column - 1).join("").length;
}

// Return [begin, end] of what an error means, or null if the error tells no place.
export function errorPlace(message, sql) {
  const found = tokens(sql);
  const numbers = LINE.map((pattern) => pattern.exec(message)).find(Boolean);
  if (numbers) {
    const at = Math.min(placeOf(sql, Number(numbers[1]), Number(numbers[2])), Math.max(0, sql.length - 1));
    const token = found.find((one) => one.at <= at && at < one.at + one.text.length);
    return [at, token ? token.at + token.text.length : at + 1];
  }
  if (/found: EOF/.test(message)) {
    const end = sql.trimEnd().length;
    return [Math.max(0, end - 1), end];
  }
  const name = NAMED.map((pattern) => pattern.exec(message)).find(Boolean)?.[1];
  if (!name) return null;
  const last = tokens(name).at(-1);
  const wanted = last && meant(last).toLowerCase();
  const token = found.find((one) => !["comment", "text", "number"].includes(one.kind) && meant(one).toLowerCase() === wanted);
  return token ? [token.at, token.at + token.text.length] : null;
}
