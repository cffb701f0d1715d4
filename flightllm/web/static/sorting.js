// The order of rows by a column.

const words = new Intl.Collator("en", { numeric: false });

// NaN is no number and comes after all of them, as in PostgreSQL. "inf" is none for JavaScript, so it is translated.
function number(text) {
  return Number(text.replace(/^([+-]?)inf$/i, "$1Infinity"));
}

function byNumber(one, two) {
  const [left, right] = [number(one), number(two)];
  if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(left)) - Number(Number.isNaN(right));
  if (left === right && !Number.isFinite(left)) return 0; // their difference is NaN
  return left - right || (/^-?\d+$/.test(one) && /^-?\d+$/.test(two) ? Number(BigInt(one) - BigInt(two)) : 0);
}

// Return a comparison of texts of a column; it needs no NULLs. Times have a form whose order as texts is their own.
export function comparison(column) {
  return column.number ? byNumber : words.compare;
}

// Return the numbers of the rows, sorted by a column; NULLs come last, and equal rows keep their order.
export function sorted(rows, at, column, direction) {
  const sign = direction === "descending" ? -1 : 1;
  const compare = comparison(column);
  const value = (number) => rows[number][at];
  return rows.map((_, number) => number).sort((one, two) => {
    if (value(one) === null || value(two) === null) return Number(value(one) === null) - Number(value(two) === null);
    return sign * compare(value(one), value(two));
  });
}
