// The numbers that the texts of a column stand for: one reading for charts and profiles.

// Return the type of a column as charts and profiles need it: number, time or category.
export function typeOf(column) {
  if (column.number) return "number";
  return /^(date|timestamp)/.test(column.type) ? "time" : "category";
}

// Return the milliseconds of a date or time. A time without a zone is one of UTC, and fractions end with milliseconds.
function millisOf(text) {
  const whole = text.replace(" ", "T").replace(/(\.\d{3})\d+/, "$1");
  return Date.parse(/T[\d:.]+$/.test(whole) ? `${whole}Z` : whole);
}

// Return the number that a text stands for, or null: NULL and NaN have no place on an axis.
export function numberOf(text, type) {
  if (text === null) return null;
  const value = type === "time" ? millisOf(text) : Number(text);
  return Number.isFinite(value) ? value : null;
}

// Return how many numbers are in each of equal parts of their range.
export function histogram(numbers, bins) {
  const least = numbers.reduce((one, two) => Math.min(one, two), Infinity);
  const most = numbers.reduce((one, two) => Math.max(one, two), -Infinity);
  const found = new Array(bins).fill(0);
  for (const number of numbers) found[Math.min(bins - 1, Math.floor((bins * (number - least)) / (most - least || 1)))] += 1;
  return found;
}
