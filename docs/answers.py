"""Answers to the questions of `docs/benchmarks` from records of benchmarks: sentences, tables and bars."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.peers.routing import PEERS
from bench.promises import HEADS
from bench.sembench.forms import BEST
from bench.sembench.published import MODEL
from docs.bars import Bars
from docs.generate import table
from docs.steps import DEFAULTS, SORTED, Figures, gains, held, left_out, lost, spread


@dataclass(frozen=True, slots=True)
class Part:
    """A record's answer to a question: one sentence, a table, and a picture of the table.

    The table's text can show further pictures, `more`, in files whose names end with `-` and the picture's name.
    """

    answer: str
    table: str
    bars: Bars | None = None
    more: Mapping[str, Bars] = field(default_factory=dict)


def percent(share: float, places: int = 1) -> str:
    """Return a share as text."""
    return f"{100 * share:.{places}f} %"


def _less(before: float, after: float) -> str:
    """Return the share by which a figure has fallen."""
    return percent(1 - after / before, 0)


RULES: Final = {"two": "two AI filters", "latest": "filter, projection, LIMIT 20"}
"""Descriptions of the queries of `bench.suite`, by name."""


def sql_rules(figures: Figures) -> Part:
    """How many calls do queries make with the rules off and on?"""
    rows, bars, saved = [], {}, {}
    for topic, steps in figures["queries"].items():
        off, on = steps[SORTED], steps[DEFAULTS]
        for query, words in RULES.items():
            pair = off[query], on[query]
            saved[topic, query] = _less(pair[0]["calls"], pair[1]["calls"])
            bars[f"{topic}: {words}"] = pair[0]["calls"], pair[1]["calls"]
            counts = (one[name] for name in ("calls", "computed_tokens") for one in pair)
            rows.append((f"{topic}: {words}", *(f"{count:,}" for count in counts), saved[topic, query]))
    two, latest = ([saved[topic, query] for topic in figures["queries"]] for query in RULES)
    answer = f"The rules avoid {_range(two)} of the calls of two AI filters, and {_range(latest)} with LIMIT 20."
    head = ("query", "calls, rules off", "on", "computed tokens, rules off", "on", "calls avoided")
    return Part(answer, table(head, rows), Bars("Calls", ("rules off", "rules on"), bars))


def _range(values: list[str]) -> str:
    low, high = min(values), max(values)
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def prompt_order(figures: Figures) -> Part:
    """How long does a model take for the paper's queries, and how many tokens does it compute, step by step?"""
    steps = figures["whole"]
    without, original, *_ = steps.values()
    after = steps[DEFAULTS]
    rows = [
        (
            name, f"{one['seconds']:,.0f}", f"{one['least_seconds']:,.0f} to {one['most_seconds']:,.0f}",
            f"{one['cpu_seconds']:,.0f}",
            *(f"{one[key]:,}" for key in ("calls", "computed_tokens", "least_tokens")), percent(one["hit_rate"]),
        )
        for name, one in steps.items()
    ]  # fmt: skip
    head = (
        *("step", "seconds", "least to most", "CPU seconds", "calls", "computed tokens"),
        *("least for these prompts", "prefix hits"),
    )
    answer = (
        f"With {held(figures)}, `{figures['model']}` takes {after['seconds']:,.0f} s for all queries "
        f"with the default settings; "
        f"without a prefix cache, {without['seconds'] / after['seconds']:.1f} times as long; "
        f"with one and prompts in their original order, {original['seconds'] / after['seconds']:.1f} times."
    )
    bars = {name: (one["seconds"],) for name, one in steps.items()}
    title = f"Seconds for all queries, {figures['model']}, {figures['rows']} rows of each table"
    drawn = Bars(title, ("seconds",), bars, highlighted=tuple(bars)[2:])
    words = f"{gains(steps)} {spread(figures)}\n\n{lost(figures)}\n"
    undivided = left_out(after)
    tables = f"{table(head, rows)}\n{words}\nBy table:\n\n{_by_topic(figures['totals'], figures['caches'])}{undivided}"
    return Part(answer, tables, drawn)


def _by_topic(totals: Figures, caches: Figures) -> str:
    """Return a table of each topic's seconds without and with a prefix cache, and of the bounds beside all steps."""
    rows = []
    for topic, steps in totals.items():
        without, original, *_ = steps.values()
        after = steps[DEFAULTS]
        seconds = (f"{one['seconds']:,.1f}" for one in (without, original, after))
        counts = (f"{after[key]:,}" for key in ("computed_tokens", "least_block_tokens", "any_order_tokens"))
        ratios = (f"{one['seconds'] / after['seconds']:.1f}" for one in (without, original))
        cached = f"{caches[topic]['cache_tokens']:,}"
        rows.append((topic, *seconds, *ratios, cached, f"{original['computed_tokens']:,}", *counts))
    head = (
        *(
            "table",
            "no prefix cache, s",
            "original order, s",
            "defaults, s",
            "no cache ÷ defaults",
            "original ÷ defaults",
        ),
        *("cache, tokens", "computed, original order", "computed, defaults"),
        *("least, in blocks", "least, any field order"),
    )
    return table(head, rows)


def forecasts(figures: Figures) -> Part:
    """How far is the share of hits that EXPLAIN predicts from the one that the engine finds?"""
    steps: dict[str, dict[str, Figures]] = {}
    for topic, found in figures["queries"].items():
        for step, queries in list(found.items())[1:]:  # the first one has no prefix cache
            steps.setdefault(step, {}).update({f"{topic} {name}": one for name, one in queries.items()})
    errors = [
        max(abs(one["predicted_hit_rate"] - one["hit_rate"]) for one in queries.values()) for queries in steps.values()
    ]
    place = list(steps).index(SORTED)
    answer = (
        f"Once prompts were ordered, the forecast was off by {100 * max(errors[place:]):.1f} points at most; "
        f"for prompts in random order, by {100 * max(errors[:place]):.1f}."
    )
    names = list(next(iter(steps.values())))
    rows = [(name, *(_forecast(queries[name]) for queries in steps.values())) for name in names]
    last = steps[DEFAULTS]
    bars = {name: (100 * one["predicted_hit_rate"], 100 * one["hit_rate"]) for name, one in last.items()}
    drawn = Bars(
        "Prefix hits with the default settings, %", ("predicted by EXPLAIN", "found by the engine"), bars, "{:.1f}"
    )
    return Part(answer, table(("predicted / found", *steps), rows), drawn)


def _forecast(one: Figures) -> str:
    return f"{percent(one['predicted_hit_rate'])} / {percent(one['hit_rate'])}"


def cascades(figures: Figures) -> Part:
    """How often do cascades miss what a user asks for, and which share of rows do they ask?"""
    sources = figures["sources"]
    methods = list(next(iter(sources.values())))
    worst = {name: max(one[name]["missed"] for one in sources.values()) for name in methods}
    ours, *others = methods
    share = {name: sum(one[name]["share"] for one in sources.values()) / len(sources) for name in methods}
    allowed = percent(1 - figures["confidence"], 0)
    kept = [name for name in others if worst[name] <= 1 - figures["confidence"]]
    answer = (
        f"`{ours}` misses a target in at most {percent(worst[ours], 0)} of the runs of a source, where {allowed} are "
        f"allowed, and asks {percent(share[ours], 0)} of the rows in the mean. Of the others, "
        f"{' and '.join(f'`{name}`' for name in kept) or 'no method'} keep within what is allowed"
        + (f", and ask {' and '.join(percent(share[name], 0) for name in kept)}." if kept else ".")
    )
    cells = [
        (
            f"`{name}`",
            *(f"{percent(one[name]['missed'], 0)} · {percent(one[name]['share'])}" for one in sources.values()),
        )
        for name in methods
    ]
    head = ("runs that miss a target · rows asked", *sources)
    bars = {name: tuple(100 * one[method]["share"] for method in (ours, *kept)) for name, one in sources.items()}
    return Part(answer, table(head, cells), Bars("Rows asked, %", (ours, *kept), bars, "{:.0f}"))


def promises(figures: Figures) -> Part:
    """How many calls do counts over reviews save with a promise and a proxy, and are the promises kept?"""
    queries = figures["queries"]
    worst = max(one["misses"] for one in queries.values())
    fewer = [one["times_fewer"] for one in queries.values()]
    answer = (
        f"With a promise, queries make {min(fewer):.1f} to {max(fewer):.1f} times fewer calls: the more rows, the more "
        f"they save. At most {percent(worst, 0)} of the runs of a query miss a target, where "
        f"{percent(1 - figures['confidence'], 0)} are allowed."
    )
    rows = [
        (
            name,
            *(f"{one[key]:,.0f}" for key in ("rows", "positive", "calls_without", "calls")),
            f"{one['times_fewer']:.1f}",
            *(percent(one[key], places) for key, places in (("misses", 0), ("recall", 1), ("precision", 1))),
        )
        for name, one in queries.items()
    ]
    bars = {name: (one["calls_without"], one["calls"]) for name, one in queries.items()}
    return Part(
        answer,
        table(("query", *HEADS.values()), rows),
        Bars("Calls of the dear model", ("without a promise", "with a promise"), bars, "{:,.0f}"),
    )


_ABLATIONS: Final = {
    "columns": "the order of the columns",
    "place": "the share of rows that pass a plain condition",
    "repeats": "how often the table has each row",
}
_SHORT: Final = {"deduplication off": "as they are", "deduplication on": "deduplicated"}


def ablations(figures: Figures) -> Part:
    """How do the order of columns, the place of the filter and the repetition of rows change the savings?"""
    form = "{:,.0f}"
    pictures = {}
    for name, found in figures["measurements"].items():
        kinds = (_shortened(one) for one in next(iter(found.values())))
        values = {case: tuple(one["computed_tokens"] for one in of.values()) for case, of in found.items()}
        title = f"Computed tokens by {_ABLATIONS[name]}, {figures['rows']} rows"
        pictures[name] = Bars(title, tuple(kinds), values, form)
    original, greedy = (_spread(values, form) for values in zip(*pictures["columns"].rows.values(), strict=True))
    answer = (
        f"In {len(pictures['columns'].rows)} orders of the columns, the original order needs {original} "
        f"computed tokens, and the greedy order {greedy}."
    )
    first, *others = ablation_tables(figures).items()
    shown = [first[1]]
    for name, text in others:
        shown += [f"![{pictures[name].title}](ablations-{name}.svg)\n", text]
    return Part(answer, "\n".join(shown), pictures.pop("columns"), pictures)


def ablation_tables(figures: Figures) -> dict[str, str]:
    """Return a table of each measurement: calls and computed tokens. The seconds of one short run mean too little."""
    keys = {"calls": "{:,}", "computed_tokens": "{:,}"}
    made = {}
    for name, found in figures["measurements"].items():
        variants = next(iter(found.values()))
        head = (_ABLATIONS[name], *(f"{_shortened(one)}: {key.replace('_', ' ')}" for one in variants for key in keys))
        rows = [
            (case, *(form.format(one[key]) for one in of.values() for key, form in keys.items()))
            for case, of in found.items()
        ]
        made[name] = table(head, rows)
    return made


def _shortened(variant: str) -> str:
    """Return the name of a variant, short enough for a legend with four of them."""
    order, comma, dedup = variant.partition(", ")
    return f"{order.removesuffix(' order')}{comma}{_SHORT[dedup]}" if dedup else variant


def _spread(values: tuple[float, ...], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def eviction(figures: Figures) -> Part:
    """Which share of blocks does each policy find?"""
    ((name, sizes),) = figures["hits"].items()
    policies = [one for one in next(iter(sizes.values())) if one not in ("ideal", "belady")]
    rows = [
        (f"`{policy}`" if policy in policies else "the optimum", *(percent(one[policy], 2) for one in sizes.values()))
        for policy in (*policies, "belady")
    ]
    means = {policy: statistics.mean(one[policy] for one in sizes.values()) for policy in policies}
    most = max(means, key=lambda policy: means[policy])
    closed = [(one[most] - one["lru"]) / (one["belady"] - one["lru"]) for one in sizes.values()]
    always = all(one[most] == max(one[policy] for policy in policies) for one in sizes.values())
    answer = (
        f"`{most}` finds the most {'at each size' if always else 'on average'}. "
        f"It closes {percent(min(closed), 0)} or more of the gap between LRU and the optimum."
    )
    size, found = list(sizes.items())[len(sizes) // 2]
    shown = {("the optimum" if one == "belady" else one): (100 * found[one],) for one in (*policies, "belady")}
    low = min(value for (value,) in shown.values())
    drawn = Bars(
        f"Blocks found in a cache of {int(size):,}, %", (name,), shown, "{:.1f}", start=int(low) - 1.0,
        highlighted=(most,),
    )  # fmt: skip
    head = (f"policy, {name}", *(f"{int(size):,} blocks" for size in sizes))
    return Part(answer, table(head, rows), drawn)


def eviction_traces(figures: Figures) -> str:
    """Return how far `workload_aware` is above the best classical policy of each workload and size, in points."""
    classical, ours = ("lru", "2q", "gdsf", "arc", "s3_fifo"), "workload_aware"
    rows, above = list[tuple[str, ...]](), list[float]()
    for name, sizes in figures["hits"].items():
        row = [name]
        for found in sizes.values():
            best = max(classical, key=lambda policy: found[policy])
            above.append(100 * (found[ours] - found[best]))
            row.append(f"{above[-1]:+.2f} (`{best}`)")
        rows.append(tuple(row))
    head = (f"`{ours}` above the best of {len(classical)}, points", *(percent(part, 0) for part in figures["parts"]))
    answer = (
        f"**In {len(above)} cases, `{ours}` is {statistics.mean(above):+.2f} points above the best classical policy on "
        f"average, and {min(above):+.2f} at worst. Cases with a loss of more than 0.2 points: "
        f"{sum(points < -0.2 for points in above)}.**"
    )
    return f"{answer}\n\n{table(head, rows)}"


def kv_quality(figures: Figures) -> Part:
    """What does a codec cost in answers?"""
    outcomes = figures["outcomes"]
    plain, kept = outcomes["raw"], outcomes["cachegen-2"]
    answer = (
        f"The default codec takes {kept['bits']:.1f} instead of {plain['bits']:.0f} bits a number. The perplexity of "
        f"right answers is {kept['perplexity']:.2f}, with exact numbers {plain['perplexity']:.2f} "
        "(a small run: so small a difference is chance)."
    )
    rows = [
        (
            f"{name} (default)" if one is kept else name,
            f"{one['bits']:.2f}", percent(one["needle"]), percent(one["filter"]), f"{one['perplexity']:.3f}",
        )
        for name, one in outcomes.items()
    ]  # fmt: skip
    bars = {name: (one["bits"],) for name, one in outcomes.items() if name != "raw"}
    head = ("codec", "bits a number", "facts found", "yes or no right", "perplexity of the right answer")
    drawn = Bars("Bits a number", ("bits",), bars, "{:.2f}", highlighted=("cachegen-2",))
    return Part(answer, table(head, rows), drawn)


def kv_codec(figures: Figures) -> Part:
    """How small are the codecs' bitstreams, and how fast are they coded?"""
    shape = "8 layers, 8 heads of 128"
    rows = []
    for name in ("raw", "int8", "fast", "cachegen-2"):
        encode, decode, beside = figures[f"{shape}, {name}"]
        bits = 16.0 if name == "raw" else figures[f"sample tables, {name}, bits"]
        error = 0.0 if name == "raw" else figures[f"sample tables, {name}, error"]
        rows.append((name, f"{bits:.2f}", f"{error:.3f}", *(f"{one:,.0f}" for one in (encode, decode, beside))))
    bits, speed = ({name: one[place] for name, *one in rows} for place in (0, 3))
    answer = (
        f"`fast` decodes {speed['fast']} MB of 16-bit numbers a second, and takes {bits['fast']} bits a number; "
        f"`cachegen-2` decodes {speed['cachegen-2']} MB, and takes {bits['cachegen-2']} bits. "
        f"So `fast` decodes {figures[f'{shape}, fast'][1] / figures[f'{shape}, cachegen-2'][1]:.1f} times as fast."
    )
    head = ("codec", "bits a number", "relative error", "encode, MB/s", "decode, MB/s", "beside two busy processes")
    bars = {name: (figures[f"{shape}, {name}"][1],) for name, *_ in rows}
    drawn = Bars("Decoded, MB/s", ("MB/s",), bars, "{:,.0f}", highlighted=("fast",))
    return Part(answer, table(head, rows), drawn)


def kv_in_time(figures: Figures) -> Part:
    """How often do KV caches arrive later than a limit, with adaptation and with each fixed choice?"""
    cases = {name: one for name, one in figures.items() if isinstance(one, dict) and "shapes" in one}
    rows, gaps = [], []
    for name, case in cases.items():
        fixed = {codec: one["late"] for codec, one in case["policies"].items() if not codec.startswith("adaptive")}
        best = min(fixed, key=lambda codec: fixed[codec])
        shape, most = max(case["shapes"].items(), key=lambda one: one[1]["above"])
        gaps.append(100 * most["above"])
        late = (case["policies"][one]["late"] for one in ("adaptive", "adaptive, engine cannot return"))
        told = f"{100 * most['above']:+.1f} ({shape})"
        rows.append((name, *(percent(one) for one in (*late, fixed[best])), best, told))
    above = sum(gap > 0 for gap in gaps)
    answer = (
        f"In {len(cases)} settings of decoding and time limit, the adaptive policy is late at most {max(gaps):.1f} "
        "points more often than the best fixed choice for a shape of link. "
        f"In {len(cases) - above} of them, it is never late more often."
    )
    head = (
        *("decoding, limit", "adaptive: late", "engine cannot return", "best fixed choice for all links", "which"),
        "most above the best for a shape, points",
    )
    name, case = list(cases.items())[len(cases) // 2]
    bars = {policy: (100 * one["late"],) for policy, one in case["policies"].items()}
    drawn = Bars(f"Late, %: {name}", ("late",), bars, "{:.1f}", highlighted=("adaptive",))
    return Part(answer, table(head, rows), drawn)


def routing(figures: Figures) -> Part:
    """How soon do answers arrive, compared with the best rule of another project?"""
    best = figures["best peer"]
    rows, bars = [], {}
    for name, one in best.items():
        ours = figures[name]["e2_batch"]
        bars[name] = one["mean"], one["p99"]
        cells = [
            cell
            for figure in ("mean", "p99")
            for cell in (
                f"{ours[figure]:.2f}", f"{one[figure]:.2f} ({one[f'{figure}_peer']})", f"{one[f'{figure}_bound']:.2f}"
            )
        ]  # fmt: skip
        rows.append((name, percent(one["hit_ratio"]), *cells, f"{one['decisions_per_second']:,.0f}"))
    means, lasts = ([one[figure] for one in best.values()] for figure in ("mean", "p99"))
    answer = (
        f"The best of {len(PEERS)} rules of other projects takes {min(means):.2f} to {max(means):.2f} times as long as "
        f"`e2_batch` in the mean, and {min(lasts):.2f} to {max(lasts):.2f} times in the 99th percentile."
    )
    head = (
        *("workload", "cached", "mean, s", "best peer", "any replica", "p99, s", "best peer", "any replica"),
        "decisions/s",
    )
    drawn = Bars("Time of the best peer by that of e2_batch", ("mean", "99th percentile"), bars, "{:.2f}")
    return Part(answer, table(head, rows), drawn)


def hostile(figures: Figures) -> Part:
    """How do hostile statements affect another connection?"""
    answer = (
        f"Beside {figures['hostile']} hostile statements, another connection's queries waited "
        f"{1000 * figures['p99']:.0f} ms in the 99th percentile, and {1000 * figures['max']:.0f} ms at most. "
        f"{figures['failures']} of {figures['answers']:,} failed."
    )
    rows = [
        ("hostile statements", f"{figures['hostile']}"),
        ("statements that their client had to cancel", f"{figures['stalled']}"),
        ("small queries of another connection beside them", f"{figures['answers']:,}"),
        ("failures of these", f"{figures['failures']}"),
        ("wait for these: median, ms", f"{1000 * figures['p50']:.0f}"),
        ("99th percentile, ms", f"{1000 * figures['p99']:.0f}"),
        ("most, ms", f"{1000 * figures['max']:.0f}"),
        ("deaths of the server's process", f"{figures['deaths']}"),
        ("most memory of the server's process, MiB", f"{figures['peak_mib']:,.0f}"),
        ("most memory of its isolated processes, MiB", f"{figures['isolated_peak_mib']:,.0f}"),
        ("statements that broke a limit of this benchmark", ", ".join(figures["harmful"]) or "0"),
    ]
    worst = sorted(figures["statements"], key=lambda one: one["worst"], reverse=True)[:6]
    bars = {f"{one['name']}, {one.get('connections', 1)} at once": (1000 * one["worst"],) for one in worst}
    drawn = Bars("The six kinds that delay others most: the longest wait, ms", ("ms",), bars)
    return Part(answer, table(("what", "figure"), rows), drawn)


def prompt_formats(figures: Figures) -> Part:
    """How often does a model answer right, by the form of the prompt?"""
    found: dict[tuple[str, str], dict[str, Figures]] = {}
    for one in figures["results"]:
        if _is_common(one, figures["results"]):
            found.setdefault((one["function"], one["format"]), {})[one["task"]] = one
    means = {key: _mean(of, "accuracy") for key, of in found.items()}
    formats = list(dict.fromkeys(name for _, name in found))
    overall = {name: statistics.mean(mean for (_, other), mean in means.items() if other == name) for name in formats}
    most = max(overall, key=lambda name: overall[name])
    answer = (
        f"`{most}` has the best mean over all functions, {percent(overall[most])} right; "
        f"`plain` has {percent(overall['plain'])}."
    )
    tasks = list(next(iter(found.values())))
    rows = [
        (
            function, f"`{name}`", *(f"{of[task]['accuracy']:.2f}" for task in tasks), f"{means[function, name]:.3f}",
            f"{_mean(of, 'tokens'):.0f}", _turned(of),
        )
        for (function, name), of in found.items()
    ]  # fmt: skip
    drawn = Bars(
        "Right answers, %, mean over functions and tasks", ("%",),
        {name: (100 * share,) for name, share in overall.items()}, "{:.1f}", start=50.0, highlighted=(most,),
    )  # fmt: skip
    return Part(answer, table(("function", "format", *tasks, "mean", "tokens", "turned"), rows), drawn)


def examples(figures: Figures) -> Part:
    """How much better does a model answer with a few examples?"""
    found: list[Figures] = figures["results"]
    filters = [one for one in found if one["raw"]["area"] is not None]
    gains = [one["examples"]["gain"][0] for one in found]
    mean = statistics.mean(one["examples"]["gain"][0] for one in filters)
    better = sum(gain > 0 for gain in gains)
    answer = (
        f"With {figures['examples']} examples, {better} of {len(found)} measurements gain up to {100 * max(gains):.0f}"
        f" points of right answers; the least gain is {100 * min(gains):.0f}."
        f" The {len(filters)} with yes/no questions gain {100 * mean:.1f} points in the mean."
    )
    shown = {
        "raw": "no examples",
        "examples": "examples",
        "batch": "`calibrate => 'batch'`",
        "plain": "a person's prompt",
    }
    rows = [
        (
            one["model"], one["task"], name, _interval(one[way]["accuracy"]), _interval(one[way]["gain"]),
            _interval(one[way]["area"]), _interval(one[way]["error"]), one["how"] if way == "examples" else "",
        )
        for one in found
        for way, name in shown.items()
    ]  # fmt: skip
    means = {name: statistics.mean(one[way]["accuracy"][0] for one in found) for way, name in shown.items()}
    drawn = Bars(
        "Right answers, %, mean over models and tasks", ("%",),
        {name.replace("`", ""): (100 * share,) for name, share in means.items()}, "{:.1f}", start=30.0,
        highlighted=("examples",),
    )  # fmt: skip
    return Part(
        answer, table(("model", "task", "way", "right", "gain", "area", "calibration error", "examples"), rows), drawn
    )


def _mean(tasks: Mapping[str, Figures], name: str) -> float:
    return float(statistics.mean(one[name] for one in tasks.values()))


def _interval(figure: list[float] | None) -> str:
    return "" if figure is None else f"{figure[0]:.2f} ({figure[1]:.2f} to {figure[2]:.2f})"


def _turned(tasks: Mapping[str, Figures]) -> str:
    shares = [one["flipped"] for one in tasks.values() if one["flipped"] is not None]
    return percent(statistics.mean(shares), 0) if shares else ""


def _is_common(one: Figures, results: list[Figures]) -> bool:
    """Return whether every format was measured on this many rows of a task."""
    formats = {other["format"] for other in results}
    same = {other["format"] for other in results if all(other[key] == one[key] for key in ("function", "task", "rows"))}
    return same == formats


def vector(figures: Figures) -> Part:
    """How long does a search in SQL take, compared with faiss itself?"""
    types = figures["types"]
    rows = [
        (f"`{name}`", f"{one['queries_per_second']:,}", f"{one['seconds']:.3f}",
         f"{one['faiss_seconds']:.3f}", f"{one['ratio']:.2f}", percent(one["ours_recall"]),
         percent(one["faiss_recall"]), f"{one['build_ratio']:.2f}")
        for name, one in types.items()
    ]  # fmt: skip
    quickest = max(types, key=lambda name: types[name]["queries_per_second"])
    answer = (
        f"`{quickest}` answers {types[quickest]['queries_per_second']:,} searches a second, "
        f"sent as one statement, among {figures['vectors']:,} vectors, "
        f"with {percent(types[quickest]['ours_recall'])} of the true neighbors."
    )
    bars = {name: (one["queries_per_second"],) for name, one in types.items()}
    head = ("type", "searches a second", "SQL, s", "faiss, s", "ratio", "recall, SQL", "faiss", "building, ratio")
    return Part(answer, table(head, rows), Bars("Searches a second, in SQL", ("searches",), bars))


def recovery(figures: Figures) -> Part:
    """How long until a query is answered again?"""
    answer = (
        f"A query is answered again {figures['seconds']:.2f} s after the process was killed, "
        f"in the median of {figures['kills']} kills."
    )
    rows = [
        ("kills", f"{figures['kills']}"),
        ("median, s", f"{figures['seconds']:.2f}"),
        ("longest, s", f"{figures['most_seconds']:.2f}"),
    ]
    return Part(answer, table(("what", "figure"), rows))


def endpoints(figures: Figures) -> Part:
    """What do queries lose at HTTP endpoints that misbehave?"""
    kinds: Mapping[str, Figures] = figures["kinds"]
    answered, null, lost = (sum(one[name] for one in kinds.values()) for name in ("answered", "null", "lost"))
    most = max(one["requests_a_row"] for one in kinds.values())
    answer = (
        f"{answered + null - lost:,} rows can have an answer, and {answered:,} rows get one. A row takes at most"
        f" {most:.2f} HTTP requests."
    )
    rows = [
        (
            name, f"{one['answered']}", f"{one['null']}", f"{one['requests_a_row']:.2f}", f"{one['seconds']:.1f}",
            f"{one['best_seconds']:.1f}", f"{one['other_p99']:.1f}",
        )
        for name, one in kinds.items()
    ]  # fmt: skip
    head = (
        "endpoint",
        "rows answered",
        "NULL",
        "requests a row",
        "seconds",
        "least seconds",
        "the other user's p99, s",
    )
    bars = {name: (one["requests_a_row"],) for name, one in kinds.items()}
    return Part(answer, table(head, rows), Bars("Requests for each row", ("requests",), bars, "{:.2f}"))


def bill(figures: Figures) -> Part:
    """What do queries cost at hosted models?"""
    providers: Mapping[str, Mapping[str, Figures]] = figures["providers"]
    rows, bars = [], {}
    for provider, found in providers.items():
        every, small = list(found.values()), list(figures["small"][provider].values())
        ratios = [
            statistics.geometric_mean(cell[name] / cell["none"] for cell in every)
            for name in ("before", "bill", "possible")
        ]
        near = statistics.geometric_mean(cell["bill"] / cell["best"] for cell in small)
        off = [
            statistics.median(abs(cell[name]) for cell in every if cell[name] is not None)
            for name in ("cold_error", "warm_error")
        ]
        bars[provider] = tuple(100 * ratio for ratio in ratios)
        rows.append((provider, *map(percent, ratios), f"{near:.2f}", *map(percent, off)))
    goals: Mapping[str, Figures] = figures["goals"]
    cases = sum(map(len, providers.values()))
    safe = goals["never dearer than no cache"]["reached"]
    answer = (
        f"At {len(providers)} providers, {cases - safe} of {cases} bills are dearer than without a cache. The mean bill"
        f" is {min(one[1] for one in bars.values()):.0f} to {max(one[1] for one in bars.values()):.0f} % of that"
        " without a cache, by provider."
    )
    head = (
        *("provider", "earlier layout", "now", "good layout", "small tables: ÷ least"),
        *("EXPLAIN off, cold", "EXPLAIN off, warm"),
    )
    reached = [(name, f"{goal['reached']} of {goal['cases']}") for name, goal in goals.items()]
    drawn = Bars("Bill, % of that without a cache", ("earlier layout", "now", "good layout"), bars, "{:.0f}")
    return Part(answer, f"{table(head, rows)}\n{table(('goal', 'reached'), reached)}", drawn)


def sembench(figures: Figures) -> Part:
    """What do SemBench's questions about films cost, and how good can the answers be?"""
    percents = sorted(figures["errors"], key=float)
    of = {percent: figures["errors"][percent]["cold"] for percent in percents}
    exact, ceilings = of["0"], figures["labels"]["ceilings"]
    rows = [
        (
            f"{name} {form}",
            *(f"{one[key]:,}" for key in ("calls", "prompt_tokens", "completion_tokens")),
            f"{one['dollars']:.4f}",
            *(_score(of[percent][name].get(form)) for percent in percents),
            f"{ceilings[name]:.3f}",
        )
        for name, forms in exact.items()
        for form, one in forms.items()
    ]
    scores = (f"score, {percent} % errors" for percent in percents)
    head = ("question, form", "calls", "tokens in", "tokens out", "dollars", *scores, "ceiling")
    best = {name: exact[name][form] for name, form in BEST.items()}
    published = {f"{system}, published": some for system, some in figures["published"].items()}
    common = [name for name in best if all(name in some for some in published.values())]
    systems = {"FlightLLM, from labels": best, **published}
    cells = [(name, *(_tokens_and_score(some.get(name)) for some in systems.values())) for name in best]
    goals = [
        (name, f"{goal['value']:,}", f"{goal['goal']:,}", "reached" if goal["reached"] else "missed")
        for name, goal in figures["goals"].items()
        if not name.endswith("score")
    ]
    calls, kept = sum(one["calls"] for one in best.values()), figures["errors"]["0"]["kept"]["calls"]
    answer = (
        f"All ten questions take {calls:,} calls in their best forms, and {kept:,} in one database that keeps answers. "
        f"Q7 takes {exact['Q7']['map']['calls']:,} calls as a map and a join, and {exact['Q7']['natural']['calls']:,} "
        "as a question about pairs."
    )
    spent = {system: (sum(some[name]["dollars"] for name in common),) for system, some in systems.items()}
    shown = (
        table(head, rows),
        table((f"tokens / score; published ones with {MODEL}", *systems), cells),
        table(("goal", "figure", "goal", "outcome"), goals),
    )
    title = f"Dollars for {common[0]} to {common[-1]}"
    return Part(answer, "\n".join(shown), Bars(title, ("dollars",), spent, "{:.3f}", highlighted=tuple(systems)[:1]))


def _score(one: Figures | None) -> str:
    return "" if one is None else f"{one['score']:.3f}"


def _tokens_and_score(one: Figures | None) -> str:
    return "–" if one is None else f"{one['tokens']:,} / {one['score']:.2f}"


def finite_cache(figures: Figures) -> Part:
    """How many tokens does each order compute in a cache that holds a part of the prompts?"""
    tables = figures["tables"]
    parts, kinds = list(next(iter(tables.values()))["computed"]["after"]), ("at once", "after")
    rows, less = list[tuple[str, ...]](), dict[str, list[float]]()
    for name, one in tables.items():
        for kind in kinds:
            sizes = one["computed"][kind]
            for method in sizes[parts[0]]:
                seconds = f"{one['seconds'][method]:.2f}"
                rows.append((name, kind, f"`{method}`", *(f"{sizes[part][method]:,}" for part in parts), seconds))
            own = [1 - sizes[part]["greedy"] / min(sizes[part][peer] for peer in ("ggr", "solo")) for part in parts]
            less.setdefault(kind, []).extend(own)
        least = "" if one["least"] is None else f"{one['least']:,}"
        rows.append((name, "", "no order computes less", *(least for _ in parts), ""))
    spans = {kind: f"{percent(min(own))} to {percent(max(own))}" for kind, own in less.items()}
    answer = (
        f"`greedy` computes {spans['at once']} fewer tokens than the best of the peers `ggr` and `solo` where running "
        f"prompts share what they compute, and {spans['after']} fewer where they do not."
    )
    shown = {
        f"{name}, {method}": tuple(
            100 * one["computed"][kind][parts[0]][method] / one["prompt_tokens"] for kind in kinds
        )
        for name, one in tables.items()
        for method in ("greedy", *figures["peers"])
    }
    title = f"Computed tokens, % of all, in a cache of {percent(float(parts[0]), 0)}"
    head = ("table", "running prompts share", "order", *(f"cache of {percent(float(part), 0)}" for part in parts))
    rules = table(("peer", "rule"), [(f"`{peer}`", rule) for peer, rule in figures["peers"].items()])
    return Part(answer, f"{table((*head, 'seconds to plan'), rows)}\n{rules}", Bars(title, kinds, shown, "{:.1f}"))


MORE_ANSWERS: Final[Mapping[str, Mapping[str, Callable[[Figures], str]]]] = {
    "eviction": {"eviction_traces": eviction_traces},
}
"""Further records of a page, and the function that makes the text of each. The part has the record's name."""
ANSWERS: Final[Mapping[str, tuple[str, Callable[[Figures], Part]]]] = {
    "sql-rules": ("sql_rules", sql_rules),
    "prompt-order": ("prompt_order", prompt_order),
    "finite-cache": ("finite_cache", finite_cache),
    "ablations": ("ablations", ablations),
    "forecasts": ("prompt_order", forecasts),
    "prompt-formats": ("prompt_formats", prompt_formats),
    "examples": ("examples", examples),
    "cascades": ("cascades", cascades),
    "promises": ("promises", promises),
    "eviction": ("eviction", eviction),
    "kv-quality": ("kv_quality", kv_quality),
    "kv-codec": ("kv_codec", kv_codec),
    "kv-in-time": ("kv_adaptation", kv_in_time),
    "routing": ("routing", routing),
    "vector-search": ("vector", vector),
    "hostile-statements": ("hostile", hostile),
    "recovery": ("recovery", recovery),
    "endpoints": ("endpoints", endpoints),
    "bill": ("bill", bill),
    "sembench": ("sembench", sembench),
}
"""Each page's record, and the function that makes its part."""
