// A plan as a graph: its stages and AI operators, with what they cost. It is drawn from the JSON document of EXPLAIN.

import { figures, h, replace, table } from "./dom.js";
import { shares, sums, withActual } from "./figures.js";
import { count, seconds, share } from "./format.js";
import { layout } from "./layout.js";

const WIDTH = 232;
const GAP = 24;
const LINE = 18;
const DEAR = 0.5; // the share of the cost from which an operator stands out
const SVG = "http://www.w3.org/2000/svg";
const ORDERINGS = {
  none: "in the order of the rows",
  rows: "sorted, with the fields in the written order",
  fixed: "sorted, with one order of fields for all rows",
  greedy: "in groups of rows, each with its own order of fields",
  "rows, by DataFusion": "sorted by DataFusion, with the fields in the written order",
  "fixed, by DataFusion": "sorted by DataFusion, with one order of fields for all rows",
};
const LAYOUTS = { "instruction first": "each begins with the instruction", "fields first": "each begins with the fields" };

export function price(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(3))) : "–";
}

// Return the document that a text is, or null if it is another text.
export function planDocument(text) {
  try {
    const found = JSON.parse(text);
    return Array.isArray(found?.parts) && Array.isArray(found.operators) && found.total ? found : null;
  } catch {
    return null;
  }
}

function svg(tag, properties) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  return element;
}

// Return "predicted; real" of a count, where both are known.
function both(predicted, actual, text = count) {
  const known = (value) => value !== null && value !== undefined;
  if (known(actual)) return known(predicted) ? `${text(predicted)} predicted, ${text(actual)} real` : `${text(actual)} real`;
  return known(predicted) ? `${text(predicted)} predicted` : "–";
}

// Return the title of a part; the names of relational operators are numbers, which say nothing.
function titleOf({ kind, name }) {
  return name && !/^\d+$/.test(name) ? `${kind} ${name}` : kind;
}

export class Plan {
  constructor(found) {
    this.found = found;
    this.again = false; // whether the prediction is for a query that has run already
    this.chosen = null;
    this.graph = h("div", { class: "graph", role: "group", "aria-label": "Plan as a graph", onkeydown: (event) => this.key(event) });
    this.details = h("section", { class: "part", "aria-live": "polite", "aria-label": "Details of the part", hidden: true });
    this.totals = h("div", {});
    this.element = h("div", { class: "planned" }, this.totals,
      h("h3", {}, "Plan"), h("p", { class: "hint" }, "Rows go from the bottom to the top. Choose a part to see its details; the arrow keys go from part to part."),
      h("div", { class: "scroll drawing", tabindex: "0", role: "region", "aria-label": "Drawing of the plan" }, this.graph),
      this.details, this.savings(), this.notes(), this.text());
    this.draw();
  }

  // Show the counts of a query that runs or ran: those of its calls and parts, and its rows and seconds.
  setActual(query) {
    const parts = this.found.parts.map((part) => ({ ...part, rows: { ...part.rows, actual: query.parts[part.name] ?? part.rows.actual } }));
    const total = { ...this.found.total, actual: { ...query, price: query.cost } };
    const rows = { ...this.found.rows, actual: query.rows };
    this.again = true;
    this.found = { ...withActual(this.found, query.ai_calls), parts, total, rows };
    this.draw();
  }

  rowsOf(part) {
    return this.found.parts[0] === part && part.rows.predicted === null && part.rows.actual === null ? this.found.rows : part.rows;
  }

  operatorOf(part) {
    return this.found.operators.find((one) => one.operator === part.name && (part.name || part.kind === "batch functions"));
  }

  draw() {
    this.drawTotals();
    const focused = this.graph.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    const { parts } = this.found;
    const cost = shares(this.found.operators);
    const { places, columns, levels } = layout(parts);
    const texts = new Map(parts.map((part) => [part.name, this.linesOf(part, cost)]));
    const high = (part) => (texts.get(part.name).length + 1) * LINE + 18;
    const tops = [];
    for (let level = 0, top = 2; level < levels; level += 1) {
      tops.push(top);
      top += Math.max(...parts.filter((part) => places.get(part.name).level === level).map(high)) + 2 * GAP;
    }
    const box = (part) => {
      const { column, level } = places.get(part.name);
      return { left: 2 + column * (WIDTH + GAP), top: tops[level], height: high(part) };
    };
    const whole = { width: columns * (WIDTH + GAP) - GAP + 4, height: Math.max(...parts.map((part) => box(part).top + box(part).height), 0) + 4 };
    const lines = svg("svg", { width: whole.width, height: whole.height, "aria-hidden": "true" });
    const byName = new Map(parts.map((part) => [part.name, part]));
    for (const part of parts) {
      for (const input of part.inputs.map((name) => byName.get(name)).filter(Boolean)) lines.append(...this.edge(box(part), box(input), input));
    }
    this.buttons = parts.map((part) => this.node(part, texts.get(part.name), cost, box(part)));
    this.graph.style.width = `${whole.width}px`;
    this.graph.style.height = `${whole.height}px`;
    replace(this.graph, lines, this.buttons);
    if (focused !== null) this.buttons.find((one) => one.dataset.name === focused)?.focus({ preventScroll: true });
    if (this.chosen !== null) this.show(this.chosen);
  }

  // Return the line from a part to an input, with the number of rows that go along it.
  edge(above, below, input) {
    const [x, y] = [below.left + WIDTH / 2, below.top];
    const [to, end] = [above.left + WIDTH / 2, above.top + above.height];
    const middle = y - GAP;
    const path = svg("path", { d: `M${x} ${y}V${middle}H${to}V${end + 7}`, class: "edge" });
    const tip = svg("path", { d: `M${to - 4} ${end + 8}L${to} ${end + 1}L${to + 4} ${end + 8}Z`, class: "tip" });
    const { predicted, actual } = this.rowsOf(input);
    const rows = actual ?? predicted;
    if (rows === null || rows === undefined) return [path, tip];
    const label = svg("text", { x: x + 6, y: y - 7 });
    label.textContent = `${count(rows)}${actual === null || actual === undefined ? " (predicted)" : ""}`;
    return [path, tip, label];
  }

  // Return the lines of a part's box below its title.
  linesOf(part, cost) {
    const rows = this.rowsOf(part);
    const into = part.inputs.map((name) => this.found.parts.find((one) => one.name === name)).filter(Boolean).map((one) => this.rowsOf(one));
    const sum = (name) => (into.length && into.every((one) => typeof one[name] === "number") ? into.reduce((all, one) => all + one[name], 0) : null);
    const which = typeof rows.actual === "number" ? "actual" : "predicted";
    const lines = [];
    const operator = this.operatorOf(part);
    if (operator) lines.push(operator.calls.map((call) => call.function).join(", "));
    else if (part.operators.length) lines.push(part.operators.join(" ← "));
    else if (/^\d+$/.test(part.name)) lines.push(part.text.replace(/^\w+:\s*/, ""));
    if (typeof rows[which] === "number") lines.push(`rows: ${sum(which) === null ? "" : `${count(sum(which))} in, `}${count(rows[which])} out${which === "predicted" ? " (predicted)" : ""}`);
    if (!operator) return lines;
    const predicted = sums(operator.calls.map((call) => call.predicted));
    const actual = sums(operator.calls.map((call) => call.actual));
    const now = actual ?? predicted;
    lines.push(`calls: ${both(predicted?.calls, actual?.calls)}`);
    lines.push(`known answers: ${share(now.cache_hits, now.distinct_prompts)}`);
    lines.push(`prefix hits: ${share(now.cached_tokens, now.prompt_tokens)}`);
    lines.push(`tokens: ${count(now.prompt_tokens)} in, ${count(now.completion_tokens)} out`);
    lines.push(`price: ${price(actual?.price ?? predicted?.price)}, time: ${seconds(predicted?.seconds)} predicted`);
    const own = cost.shares.get(operator.operator) ?? 0;
    if (own > 0) lines.push(`${own >= DEAR ? "▲ " : ""}${Math.round(100 * own)} % of the ${cost.of}`);
    return lines;
  }

  node(part, lines, cost, { left, top, height }) {
    const operator = this.operatorOf(part);
    const dear = operator && (cost.shares.get(operator.operator) ?? 0) >= DEAR;
    const title = titleOf(part);
    const button = h("button", { type: "button", class: ["node", operator && "asks", dear && "dear"].filter(Boolean).join(" "),
      "aria-expanded": String(this.chosen === part.name), "aria-label": [title, ...lines].join("; "), "data-name": part.name,
      title: lines[0] ?? title, onclick: () => this.choose(part.name) },
      h("strong", {}, title), lines.map((line) => h("span", {}, line)));
    Object.assign(button.style, { left: `${left}px`, top: `${top}px`, width: `${WIDTH}px`, height: `${height}px` });
    return button;
  }

  choose(name) {
    this.chosen = this.chosen === name ? null : name;
    for (const button of this.buttons) button.setAttribute("aria-expanded", String(button.dataset.name === this.chosen));
    this.details.hidden = this.chosen === null;
    if (this.chosen !== null) this.show(name);
  }

  // Go along the lines with the arrow keys: up to the reader of a part, down to its first input, aside to its neighbours.
  key(event) {
    const name = event.target.dataset?.name;
    if (name === undefined) return;
    const { parts } = this.found;
    const part = parts.find((one) => one.name === name);
    const readers = parts.filter((one) => one.inputs.includes(name));
    const beside = readers[0]?.inputs ?? [];
    const next = {
      ArrowUp: readers[0]?.name, ArrowDown: part.inputs[0],
      ArrowLeft: beside[beside.indexOf(name) - 1], ArrowRight: beside[beside.indexOf(name) + 1],
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.buttons.find((one) => one.dataset.name === next)?.focus();
  }

  show(name) {
    const part = this.found.parts.find((one) => one.name === name);
    const calls = this.operatorOf(part)?.calls ?? [];
    replace(this.details, h("h3", {}, titleOf(part)), calls.flatMap(callDetails), h("pre", { tabindex: "0" }, part.text),
      h("p", { class: "actions" }, h("button", { type: "button", onclick: () => {
        this.choose(name);
        this.buttons.find((one) => one.dataset.name === name)?.focus();
      } }, "Close the details")));
  }

  drawTotals() {
    const { predicted, actual } = this.found.total;
    const group = (title, work, rows) => (work ? [h("h3", {}, title), figures([
      ["rows", count(rows)], ["calls", count(work.calls)], ["tokens in", count(work.prompt_tokens)],
      ["prefix hits", share(work.cached_tokens, work.prompt_tokens)], ["tokens out", count(work.completion_tokens)],
      ["seconds", seconds(work.seconds)], ["price", price(work.price)]])] : []);
    replace(this.totals, group(this.again ? "In total, as predicted for the next run" : "In total, as predicted", predicted, this.found.rows.predicted), group("In total, as it ran", actual, this.found.rows.actual));
  }

  savings() {
    const rows = this.found.savings.map(({ name, saved }) => h("tr", {}, h("td", {}, name),
      [saved?.calls, saved?.prompt_tokens, saved?.completion_tokens].map((value) => h("td", { class: "number" }, count(value))),
      h("td", { class: "number" }, seconds(saved?.seconds)), h("td", { class: "number" }, price(saved?.price))));
    return rows.length ? [h("h3", {}, "Saved by rules"), table("Saved by rules", ["Rule", ["Calls", "number"], ["Tokens in", "number"],
      ["Tokens out", "number"], ["Time", "number"], ["Price", "number"]], h("tbody", {}, rows))] : [];
  }

  notes() {
    return this.found.notes.map((note) => h("p", { class: "hint" }, `Note: ${note}`));
  }

  text() {
    const parts = this.found.plan.flatMap(({ title, text }) => [h("h3", {}, title), h("pre", { tabindex: "0" }, text)]);
    return h("details", { class: "plan" }, h("summary", {}, "Plan as text"), parts);
  }
}

function callDetails(call) {
  const orders = call.field_orders.map(({ fields, prompts }) => `${fields.join(", ") || "none"} (${count(prompts)} prompts)`).join("; ");
  const facts = [["Model", call.model ?? "the server's own"], ["Prompts", ORDERINGS[call.ordering] ?? call.ordering],
    ["Layout", LAYOUTS[call.layout] ?? call.layout], ["Fields in order", orders], ["Answers", call.answers === "learned" ? "assumed like earlier answers" : "all assumed equally likely"],
    ["No order saves anything", call.no_saving], ["Steps", call.steps]].filter(([, value]) => value);
  const rows = [["Rows", "rows"], ["Prompts", "distinct_prompts"], ["Known answers", "cache_hits"], ["Calls", "calls"], ["Repairs", "repairs"],
    ["Tokens in", "prompt_tokens"], ["of them prefix hits", "cached_tokens"], ["Tokens out", "completion_tokens"], ["Rows without answer", "failed_rows"]];
  const cells = (of) => [call.predicted, call.actual].map((counts) => h("td", { class: "number" }, of(counts)));
  return [h("p", {}, h("code", {}, call.text)), figures(facts, "figures wide"),
    table(`Figures of ${call.function}`, ["", ["Predicted", "number"], ["Real", "number"]], h("tbody", {},
      rows.map(([name, key]) => h("tr", {}, h("th", { scope: "row" }, name), cells((counts) => count(counts?.[key])))),
      h("tr", {}, h("th", { scope: "row" }, "Price"), cells((counts) => price(counts?.price)))))];
}
