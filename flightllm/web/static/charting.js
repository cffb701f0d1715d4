// What a chart of rows shows: which kind suits the columns, and the numbers to draw.

import { histogram, numberOf, typeOf } from "./numbers.js";

export const KINDS = ["bar", "line", "scatter", "pie", "histogram"];
export const AGGREGATES = ["none", "sum", "avg", "count"];
const FEW = 12; // values of a column from which series are made
const MOST_LABELS = 200;
const SLICES = 12;
const BINS = 20;

function distinct(rows, at) {
  return new Set(rows.map((row) => row[at])).size;
}

// Return {kind, x, ys, series, aggregate} that suits the columns; columns are numbers, and -1 stands for no column.
export function choose(columns, rows) {
  const of = (type) => columns.flatMap((column, at) => (typeOf(column) === type ? [at] : []));
  const [numbers, times, categories] = [of("number"), of("time"), of("category")];
  const few = (not) => categories.find((at) => at !== not && distinct(rows, at) > 1 && distinct(rows, at) <= FEW) ?? -1;
  const repeats = (keys) => new Set(rows.map((row) => JSON.stringify(keys.map((at) => row[at])))).size < rows.length;
  if (times.length) {
    const series = few(-1);
    const again = repeats(series < 0 ? [times[0]] : [times[0], series]);
    const aggregate = numbers.length ? (again ? "avg" : "none") : "count";
    return { kind: "line", x: times[0], ys: numbers.slice(0, 1), series, aggregate };
  }
  if (categories.length) {
    const aggregate = numbers.length ? (repeats([categories[0]]) ? "sum" : "none") : "count";
    return { kind: "bar", x: categories[0], ys: numbers.slice(0, 1), series: -1, aggregate };
  }
  if (numbers.length > 1) return { kind: "scatter", x: numbers[0], ys: [numbers[1]], series: -1, aggregate: "none" };
  return { kind: "histogram", x: numbers[0] ?? 0, ys: [], series: -1, aggregate: "count" };
}

function aggregated(values, aggregate, rows) {
  if (aggregate === "count") return rows;
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  const sum = known.reduce((one, two) => one + two, 0);
  return aggregate === "avg" ? sum / known.length : sum;
}

// Return the series as [{name, columns (of y), rows}, …].
function seriesOf(columns, rows, { ys, series, aggregate }) {
  const groups = new Map();
  for (const row of rows) {
    const key = series < 0 ? "" : row[series] ?? "NULL";
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const values = aggregate === "count" || !ys.length ? [-1] : ys;
  return [...groups].flatMap(([key, own]) => values.map((y) => {
    const name = y < 0 ? "count" : aggregate === "none" ? columns[y].name : `${aggregate} of ${columns[y].name}`;
    return { name: !key ? name : values.length > 1 ? `${key}, ${name}` : key, y, rows: own };
  }));
}

// Return {labels, sets: [{name, values}], notes} for the choice. `labels` is null where x is an axis of numbers or times,
// and then each value is a pair [x, y]; a label has one value or null in each set.
export function drawn(columns, rows, choice) {
  const type = typeOf(columns[choice.x]);
  if (choice.kind === "histogram") {
    const numbers = rows.map((row) => numberOf(row[choice.x], type)).filter((value) => value !== null);
    const [least, most] = numbers.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    const bins = least === most ? 1 : BINS;
    const width = (most - least) / bins;
    const shown = (value) => (type === "time" ? new Date(value).toISOString().slice(0, 10) : String(Number(value.toPrecision(4))));
    const labels = numbers.length ? Array.from({ length: bins }, (_, at) => (bins === 1 ? shown(least) : `${shown(least + at * width)} – ${shown(least + (at + 1) * width)}`)) : [];
    return { labels, sets: [{ name: "count", values: numbers.length ? histogram(numbers, bins) : [] }], notes: left(rows.length - numbers.length) };
  }
  const series = seriesOf(columns, rows, choice.kind === "pie" ? { ...choice, series: -1, ys: choice.ys.slice(0, 1) } : choice);
  if (choice.kind === "scatter" || (choice.kind === "line" && type !== "category")) return pairs(series, rows, choice, type);
  const labels = [...new Set(rows.map((row) => row[choice.x] ?? "NULL"))];
  const sets = series.map(({ name, y, rows: own }) => {
    const groups = new Map(labels.map((label) => [label, []]));
    for (const row of own) groups.get(row[choice.x] ?? "NULL").push(row);
    return { name, values: labels.map((label) => valueOf(groups.get(label), y, choice.aggregate)) };
  });
  const found = choice.kind === "pie" ? slices(labels, sets[0]) : first(labels, sets);
  const repeated = choice.aggregate === "none" && series.some((one) => new Set(one.rows.map((row) => row[choice.x])).size < one.rows.length);
  return repeated ? { ...found, notes: [...found.notes, "Several rows have the same x, and only the last of them is drawn: choose an aggregate."] } : found;
}

// Return the value of a group of rows; without an aggregate the last row's value counts.
function valueOf(rows, y, aggregate) {
  if (!rows.length) return null;
  if (y < 0) return rows.length;
  const values = rows.map((row) => numberOf(row[y], "number"));
  return aggregate === "none" ? values.at(-1) : aggregated(values, aggregate, rows.length);
}

function pairs(series, rows, { x, aggregate, kind }, type) {
  let missing = 0;
  const sets = series.map(({ name, y, rows: own }) => {
    const groups = new Map();
    const values = [];
    for (const row of own) {
      const at = numberOf(row[x], type);
      if (at === null) missing += 1;
      else if (aggregate === "none") values.push([at, y < 0 ? 1 : numberOf(row[y], "number")]);
      else if (groups.has(at)) groups.get(at).push(row);
      else groups.set(at, [row]);
    }
    for (const [at, found] of groups) values.push([at, valueOf(found, y, aggregate)]);
    const there = values.filter(([, value]) => value !== null);
    if (aggregate === "none") missing += values.length - there.length;
    return { name, values: kind === "line" ? there.sort(([one], [two]) => one - two) : there };
  });
  return { labels: null, sets, notes: left(missing) };
}

function first(labels, sets) {
  if (labels.length <= MOST_LABELS) return { labels, sets, notes: [] };
  const notes = [`Only the first ${MOST_LABELS} of ${labels.length} values of x are drawn.`];
  return { labels: labels.slice(0, MOST_LABELS), sets: sets.map(({ name, values }) => ({ name, values: values.slice(0, MOST_LABELS) })), notes };
}

// Return the largest slices, and the rest as one; a slice cannot be negative.
function slices(labels, { name, values }) {
  const all = labels.map((label, at) => [label, values[at]]).filter(([, value]) => value > 0).sort(([, one], [, two]) => two - one);
  const rest = all.slice(SLICES).reduce((sum, [, value]) => sum + value, 0);
  const shown = all.length > SLICES ? [...all.slice(0, SLICES), [`${all.length - SLICES} others`, rest]] : all;
  const without = labels.length - all.length;
  return { labels: shown.map(([label]) => label), sets: [{ name, values: shown.map(([, value]) => value) }],
    notes: without ? [`${without} values that are not above 0 have no slice.`] : [] };
}

function left(rows) {
  return rows ? [`${rows} rows without a number are left out.`] : [];
}
