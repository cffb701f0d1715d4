"""EXPLAIN's figures as text for a terminal: one aligned table per AI operator, and a table of savings."""

from collections.abc import Mapping, Sequence
from typing import Any

from flightllm.access.store import DEFAULT_MODEL
from flightllm.llm.cost import ModelCosts, Work, Works
from flightllm.plan.cache_texts import bills
from flightllm.plan.figures import CallFigures, Explained, RuleSaving, Saved, steps

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
    if explained.caches and explained.predicted:
        rules = [f"cache of {engine}: {text}" for engine, text in explained.caches.items()]
        lines.append(("cache", "\n".join(filter(None, [*rules, bills(explained.predicted.works, costs)]))))
    if explained.savings and explained.predicted:
        lines.append(("saved", _savings(explained.savings, explained.predicted.works, costs)))
    if explained.notes:
        lines.append(("notes", "\n".join(explained.notes)))
    return lines


def _call(call: CallFigures, actual: CallFigures | None, costs: ModelCosts) -> str:
    text = " ".join(call.text.split())
    lines = [text if len(text) <= _TEXT_WIDTH else f"{text[: _TEXT_WIDTH - 1]}…"]
    if call.model is not None or call.notes.get("role"):
        role = ", the proxy" if call.notes.get("role") == "proxy" else ""
        lines.append(f"model: {call.model or DEFAULT_MODEL}{role}")
    if "ordering" in call.notes:
        lines.append(f"prompts: {_ORDERINGS[call.notes['ordering']]}; {_LAYOUTS[call.notes['layout']]}")
        reasons = (("layout_why", "the layout is"), ("idle", "no order of the prompts saves anything:"))
        lines += [f"{said} {call.notes[name]}" for name, said in reasons if call.notes.get(name)]
    lines += [*_rows_per_request(call, actual), *_questions_per_request(call, actual)]
    lines += [f"steps: {told}" for told in filter(None, [steps(call, actual)])]
    if actual is not None and (calibration := actual.notes.get("calibration")):
        lines.append(f"calibrated {calibration}")
    if told := (actual or call).notes.get("join"):
        lines.append(f"join: {told}")
    prompts = sum(count for _, count in call.orders)
    for order, count in call.orders[:_SHOWN_ORDERS]:
        lines.append(f"fields in order: {', '.join(order) or 'none'} ({_share(count / prompts)})")
    if len(call.orders) > _SHOWN_ORDERS:
        lines.append(f"and {len(call.orders) - _SHOWN_ORDERS:,} other orders of the fields")
    if call.counts["calls"]:
        lines.append("answers: assumed like earlier answers" if call.learned else "answers: all assumed equally likely")
    if call.promise is not None and (share := call.predicted_share) is not None:
        why = "as in the last run" if call.promise["learned"] else "assumed, because no earlier run tells it"
        lines.append(f"share of the prompts that the model gets: {_share(share)}, {why}")
    rows = [_row("predicted", call, _seconds(costs.seconds(call.works)), costs)]
    if actual is not None:  # calls run in parallel, so a single call has no time of its own
        name = "actual, estimated" if actual.counts["estimated"] else "actual"
        rows.append(_row(name, actual, "", costs))
    promise = [] if actual is None or actual.promise is None else _promise(actual.promise)
    return "\n".join([*lines, *_aligned([_COLUMNS, *rows]), *promise])


def _rows_per_request(call: CallFigures, actual: CallFigures | None) -> list[str]:
    """Return a line about how many rows each request can have, and has on average, where anybody wishes several."""
    shown = actual or call
    if not (together := shown.notes.get("together")):
        return []
    calls, packed = shown.counts["calls"], shown.counts["packed"]
    mean = f"; each answers {1 + packed / calls:.1f} rows on average" if calls and packed else ""
    return [f"requests: {together}{mean}"]


def _questions_per_request(call: CallFigures, actual: CallFigures | None) -> list[str]:
    """Return a line about how many questions about one row each request can have, where anybody wishes several."""
    shown = actual or call
    if not (told := shown.notes.get("questions")):
        return []
    packed = shown.counts["packed"] if not shown.notes.get("together") else 0
    here = f"; {packed:,} answers came in requests of other calls" if packed else ""
    if packed == 1:
        here = "; 1 answer came in the request of another call"
    return [f"questions: {told}{here}"]


def _promise(found: Mapping[str, Any]) -> list[str]:
    """Return what is certified about the answers of a call, in lines."""
    if found.get("rows") is None:
        return [f"promise {'held' if found['held'] else 'not held'} ({found['targets']}). {found['reason']}"]
    certain = [(name, found.get(name)) for name in ("recall", "precision", "accuracy")]
    bounds = ", ".join(f"{name} {value:.4f}" for name, value in certain if value is not None)
    state = "held" if found["held"] else "not held"
    share = _share(found["asked"] / max(1, found["rows"]))
    sides = ""
    errors = f"found {found['errors']:,}, unseen at most {found['unseen_errors']:,} rows"
    if found.get("accepted") is not None:
        sides = f", accepted {found['accepted']:,}, rejected {found['rejected']:,}"
        seen = f"found {found['false_rejects']:,} false rejects and {found['false_accepts']:,} false accepts"
        unseen = f"{found['unseen_false_rejects']:,} and {found['unseen_false_accepts']:,} rows"
        errors = f"{seen}; unseen at most {unseen}"
    known = f"known before {found['known']:,}, without an answer {found['unanswered']:,}{sides}"
    taught = f", taught {found['taught_prompts']:,}" if found.get("taught_prompts") else ""
    sent = f"asked {found['asked_prompts']:,}, sampled {found['sampled_prompts']:,}"
    return [
        f"promise {state} ({found['targets']}), by the proxy {found['proxy']}: {found['reason']}",
        f"certain with probability {1 - found['delta']:g}: at least {bounds}",
        f"rows: {found['rows']:,}, of them asked {found['asked']:,} ({share}), {known}",
        f"{_units(found)}: {found['prompts']:,}, of them {sent}{taught}",
        f"errors of the proxy: {errors}",
    ]


def _units(found: Mapping[str, Any]) -> str:
    return "prompts" if found.get("filters", 1) == 1 else "tuples of one prompt for each filter"


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
        price = "" if saved.price is None else f"{saved.price:,.4g}"
        rows.append((saving.name, *map(_saved, (*counts, _seconds(saved.seconds), price))))
    return "\n".join(_aligned(rows))


def _saved(number: str) -> str:
    """Return a saving as text; a negative one is work that the rule adds."""
    return f"{number[1:]} more" if number.startswith("-") else number


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
