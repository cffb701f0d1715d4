// SQL text as coloured parts and as words.

export const KEYWORDS = `ALL ALTER ANALYZE AND AS ASC BETWEEN BY CASE CAST COMMENT CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP
  ELSE END EXCEPT EXISTS EXPLAIN EXTERNAL FALSE FILTER FROM FULL GRANT GROUP HAVING ILIKE IN INNER INSERT INTERSECT INTO IS
  JOIN LEFT LIKE LIMIT MERGE NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER PARTITION QUALIFY REVOKE RIGHT SELECT SET SHOW
  TABLE THEN TRUE UNION UPDATE USING VALUES VIEW WHEN WHERE WITH`.split(/\s+/);
const TOKEN = /(--[^\n]*|\/\*[^]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|("(?:[^"]|"")*(?:"|$))|(\b\d[\w.]*)|(\w+)(\s*\()?/gu;
const KINDS = ["comment", "text", "name", "number"];

// Return the comments, texts, names, numbers and words of a text as {text, kind, at}; other signs are left out.
export function tokens(sql) {
  return [...sql.matchAll(TOKEN)].map((match) => {
    const word = match[5];
    if (!word) return { text: match[0], kind: KINDS[match.slice(1, 5).findIndex((group) => group !== undefined)], at: match.index };
    const kind = KEYWORDS.includes(word.toUpperCase()) ? "keyword" : match[6] ? "function" : "word";
    return { text: word, kind, at: match.index };
  });
}

// Return a name as SQL text: quoted if it is a keyword, or has other characters than a-z, 0-9 and _.
export function written(name) {
  return /^[a-z_][a-z0-9_]*$/.test(name) && !KEYWORDS.includes(name.toUpperCase()) ? name : `"${name.replaceAll('"', '""')}"`;
}

// Return the name that a word or a quoted name stands for.
export function meant({ text, kind }) {
  return kind === "name" ? text.slice(1, text.endsWith('"') && text.length > 1 ? -1 : undefined).replaceAll('""', '"') : text;
}
