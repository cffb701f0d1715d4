// The figures of a plan's AI operators: sums of their calls, and which of them cost most.

const SUMMED = ["distinct_prompts", "cache_hits", "calls", "prompt_tokens", "cached_tokens", "completion_tokens", "failed_rows"];

// Return the sums of some counts of calls; `price` and `seconds` are null where a call has none.
export function sums(counts) {
  const found = counts.filter(Boolean);
  if (!found.length) return null;
  const sum = (name) => found.reduce((all, one) => all + (one[name] ?? 0), 0);
  const known = (name) => (found.every((one) => typeof one[name] === "number") ? sum(name) : null);
  return { ...Object.fromEntries(SUMMED.map((name) => [name, sum(name)])), price: known("price"), seconds: known("seconds") };
}

// Give each call of a document the counts of the running query's call of the same operator, function and text.
export function withActual(document, calls) {
  const left = [...calls];
  const taken = (operator, call) => {
    const at = left.findIndex((one) => one.operator === operator && one.function === call.function && one.text === call.text);
    return at < 0 ? null : left.splice(at, 1)[0];
  };
  const operators = document.operators.map((one) => ({
    ...one, calls: one.calls.map((call) => ({ ...call, actual: taken(one.operator, call) ?? call.actual })),
  }));
  return { ...document, operators };
}

// Return each operator's share of the whole cost by its name. The cost is that of the real tokens once there are any;
// before, it is the predicted price, or the predicted seconds where no price is known.
export function shares(operators) {
  const of = (which) => operators.map((one) => sums(one.calls.map((call) => call[which])));
  const [predicted, actual] = [of("predicted"), of("actual")];
  const priced = predicted.every((one) => one === null || one.price !== null) && predicted.some((one) => one?.price > 0);
  const ways = [
    ["real tokens", actual.map((one) => (one ? one.prompt_tokens - one.cached_tokens + one.completion_tokens : 0))],
    [priced ? "predicted price" : "predicted time", predicted.map((one) => one?.[priced ? "price" : "seconds"] ?? 0)],
  ];
  const total = (costs) => costs.reduce((sum, cost) => sum + cost, 0);
  const [name, costs] = ways.find(([, each]) => total(each) > 0) ?? ways[1];
  const all = total(costs);
  return { of: name, shares: new Map(operators.map((one, at) => [one.operator, all ? costs[at] / all : 0])) };
}
