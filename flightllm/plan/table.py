"""EXPLAIN's figures as text for a terminal: one aligned table per AI operator, and a table of savings."""

from collections.abc import Sequence

from flightllm.llm.cost import ModelCosts, Work, Works
from flightllm.plan.figures import CallFigures, Explained, RuleSaving, Saved

_COLUMNS = (
    "",
    "rows",
    "prompts",
    "known",
    "repairs",
    "calls",
    "tokens in",
    "prefix hits",
    "tokens out",
    "seconds",
    "price",
)
_ORDERINGS = {
    "none": "in the order of the rows",
    "rows": "sorted, with the fields in the written order",
    "fixed": "sorted, with one order of fields for all rows",
    "greedy": "in groups of rows, each with its own order of fields",
    "rows, by DataFusion": "sorted by DataFusion, with the fields in the written order",
    "fixed, by DataFusion": "sorted by DataFusion, with one order of fields for all rows",
}
"""For each value of the note `ordering`: the text that says in which order prompts are sent."""
_LAYOUTS = {"instruction first": "each begins with the instruction", "fields first": "each begins with the fields"}
"""For each value of the note `layout`: the text that says how each prompt begins."""
_TEXT_WIDTH = 100
_SHOWN_ORDERS = 3


def tables(explained: Explained, costs: ModelCosts) -> list[tuple[str, str]]:
    """Return titles and texts: the calls of each operator, the total, the savings, and the limits of the prediction."""
    texts: dict[str, list[str]] = {}
    for call, actual in explained.pairs():
        texts.setdefault(call.operator, []).append(_call(call, actual, costs))
    lines = [(f"calls of {name}" if name else "calls", "\n\n".join(parts)) for name, parts in texts.items()]
    if explained.predicted is not None or explained.actual is not None:
        lines.append(("total", _total(explained, costs)))
    if explained.savings and explained.predicted:
        lines.append(("saved", _savings(explained.savings, explained.predicted.works, costs)))
    if explained.notes:
        lines.append(("notes", "\n".join(explained.notes)))
    return lines


def _call(call: CallFigures, actual: CallFigures | None, costs: ModelCosts) -> str:
    text = " ".join(call.text.split())
    lines = [text if len(text) <= _TEXT_WIDTH else f"{text[: _TEXT_WIDTH - 1]}…"]
    if call.model is not None:
        lines.append(f"model: {call.model}")
    if "ordering" in call.notes:
        lines.append(f"prompts: {_ORDERINGS[call.notes['ordering']]}; {_LAYOUTS[call.notes['layout']]}")
        if idle := call.notes.get("idle"):
            lines.append(f"no order of the prompts saves anything: {idle}")
    if actual is not None and (calibration := actual.notes.get("calibration")):
        lines.append(f"calibrated {calibration}")
    prompts = sum(count for _, count in call.orders)
    for order, count in call.orders[:_SHOWN_ORDERS]:
        lines.append(f"fields in order: {', '.join(order) or 'none'} ({_share(count / prompts)})")
    if len(call.orders) > _SHOWN_ORDERS:
        lines.append(f"and {len(call.orders) - _SHOWN_ORDERS:,} other orders of the fields")
    if call.counts["calls"]:
        lines.append("answers: assumed like earlier answers" if call.learned else "answers: all assumed equally likely")
    rows = [_row("predicted", call, _seconds(costs.seconds(call.works)), costs)]
    if actual is not None:  # calls run in parallel, so a single call has no time of its own
        name = "actual, estimated" if actual.counts["estimated"] else "actual"
        rows.append(_row(name, actual, "", costs))
    return "\n".join([*lines, *_aligned([_COLUMNS, *rows])])


def _row(name: str, call: CallFigures, seconds: str, costs: ModelCosts) -> list[str]:
    counts = [f"{call.counts[n]:,}" for n in ("rows", "distinct_prompts", "cache_hits")]
    repairs = f"{call.counts['repairs']:,}" if call.counts["repairs"] else ""
    return [name, *counts, repairs, *_work(call.work), seconds, _price(call.works, costs)]


def _work(work: Work) -> list[str]:
    return [f"{work.calls:,}", f"{work.prompt_tokens:,}", _share(work.hit_rate), f"{work.completion_tokens:,}"]


def _total(explained: Explained, costs: ModelCosts) -> str:
    rows: list[Sequence[str]] = [("", "rows", *_COLUMNS[5:])]
    given = []
    if explained.predicted is not None:
        given.append(("predicted", explained.predicted, costs.seconds(explained.predicted.works)))
    if explained.actual is not None:
        name = "actual, estimated" if explained.actual.estimated else "actual"
        given.append((name, explained.actual, explained.actual.seconds or 0.0))
    for name, figures, seconds in given:
        work = figures.work
        rows.append((name, f"{figures.rows:,}", *_work(work), _seconds(seconds), _price(figures.works, costs)))
    return "\n".join(_aligned(rows))


def _savings(savings: Sequence[RuleSaving], chosen: Works, costs: ModelCosts) -> str:
    rows: list[Sequence[str]] = [("", "calls", "tokens in", "computed", "seconds", "price")]
    for saving in savings:
        less = saving.without
        if less is None:
            rows.append((saving.name, "not tried", "", "", "", ""))
            continue
        saved = Saved.of(less, chosen, costs)
        counts = [f"{count:,}" for count in (saved.calls, saved.prompt_tokens, saved.computed_tokens)]
        rows.append(
            (saving.name, *counts, _seconds(saved.seconds), "" if saved.price is None else f"{saved.price:,.4g}")
        )
    return "\n".join(_aligned(rows))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, the first column left-aligned and the others right-aligned; empty columns are left out."""
    kept = [i for i in range(len(rows[0])) if i == 0 or any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in kept}
    return ["  ".join(row[i].rjust(widths[i]) if i else row[i].ljust(widths[i]) for i in kept).rstrip() for row in rows]


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.3g}" if abs(seconds) < 1_000 else f"{seconds:,.0f}"


def _price(works: Works, costs: ModelCosts) -> str:
    price = costs.price(works)
    return "" if price is None else f"{price:,.4g}"
