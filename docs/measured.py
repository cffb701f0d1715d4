"""Tables of `bench/README.md` from records of benchmarks that no page has."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from docs.answers import ablation_tables, percent
from docs.generate import table
from docs.steps import Figures, left_out


def streaming(figures: Figures) -> str:
    """Return the speeds of the four servers, their ratios, and whether these reach their targets."""
    servers = ("memory", "scan", "decoding", "flightllm")
    ratios = ("ratio", "memory_ratio", "first_memory_ratio")
    head = ("MiB/s: rows in memory", "DataFusion's scan", "FlightLLM, decoding", "FlightLLM, read again")
    speeds = (f"{figures[f'{name}_mib_per_second']:,.0f}" for name in servers)
    row = (*speeds, *(f"{figures[name]:.2f}" for name in ratios))
    shown = table((*head, *(f"`{name}`" for name in ratios)), [row])
    told = (
        f"`{name}` {target:g} ({_outcome(is_reached=figures[name] >= target)})"
        for name, target in zip(ratios, (0.9, 0.8, 0.6), strict=True)
    )
    return f"{shown}\nThe result has {figures['bytes'] / 2**20:,.0f} MiB. The targets are {', '.join(told)}.\n"


def _outcome(*, is_reached: bool) -> str:
    return "reached" if is_reached else "missed"


def planning(figures: Figures) -> str:
    """Return the milliseconds to plan each query, and the CPU milliseconds of the largest one by phase."""
    names = {
        "first_plan": "join of six tables, the first plan of the process",
        "six_way_join": "join of six tables",
        "in_subquery": "AI call in an IN subquery, GROUP BY, HAVING, ORDER BY, LIMIT",
        "projection": "projection over a join",
        "filter": "AI and plain filter over a join",
        "multi_call": "three calls over a join",
        "average": "average score by group over a join",
        "no_ai": "no AI call",
    }
    shown = table(("query", "ms to plan"), [(words, f"{figures[f'{name}_ms']:.1f}") for name, words in names.items()])
    start = "six_way_join_cpu_ms, "
    phases = [(name.removeprefix(start), f"{ms:.2f}") for name, ms in figures.items() if name.startswith(start)]
    told = f"The target is less than 60 ms ({_outcome(is_reached=figures['six_way_join_ms'] < 60)})."
    return f"{shown}\n{told}\n\n{table(('phase of the join of six tables', 'CPU ms'), phases)}"


def operator(figures: Figures) -> str:
    """Return the speed and the memory of the operator by its cache, and whether both reach the target."""
    names = {"persistent": "across queries, in a new file", "off": "for the query only"}
    rows = [
        (
            words, f"{figures[f'cache_{name}_prompts_per_second']:,}", f"{figures[f'cache_{name}_seconds']:.2f}",
            f"{figures[f'cache_{name}_peak_mib']:,}",
        )
        for name, words in names.items()
    ]  # fmt: skip
    is_reached = all(
        figures[f"cache_{name}_prompts_per_second"] >= 15_000 and figures[f"cache_{name}_peak_mib"] < 1_536
        for name in names
    )
    shown = table(("answers cached", "prompts/s", "seconds", "peak MiB"), rows)
    return f"{shown}\nThe target is 15,000 prompts/s in less than 1,536 MiB ({_outcome(is_reached=is_reached)}).\n"


def frontend(figures: Figures) -> str:
    """Return the CPU milliseconds of a prompt by path."""
    kinds = {name: one for name, one in figures.items() if isinstance(one, dict) and "flightllm_ms" in one}
    paths = ("vllm", "earlier", "flightllm")
    rows = [
        (kind, *(f"{one[f'{path}_ms']:.2f}" for path in paths), *(f"{one[f'{path}_ratio']:.1f}" for path in paths[:2]))
        for kind, one in kinds.items()
    ]
    head = (
        *("answer", "vLLM as it is", "earlier engine", "FlightLLM"),
        *("vLLM ÷ FlightLLM", "earlier ÷ FlightLLM"),
    )
    return table(head, rows)


def ordering(figures: Figures) -> str:
    """Return what one ordering found, and what it took."""
    shown: Mapping[str, Callable[[Any], str]] = {
        "rows": "{:,}".format, "distinct": "{:,}".format, "field_orders": "{:,}".format,
        "unlimited_percent": "{:.2f}".format, "lru_percent": "{:.2f}".format, "seconds": "{:.1f}".format,
        "cpu_seconds": "{:.1f}".format, "peak_mib": "{:,}".format,
    }  # fmt: skip
    head = (name.replace("_percent", " %").replace("_mib", " MiB").replace("_", " ") for name in shown)
    return table(head, [[show(figures[name]) for name, show in shown.items()]])


def rag(figures: Figures) -> str:
    """Return the counts of each step beside its bounds; a step without the bound over any order has an empty cell."""
    rows = [
        (
            step, *(f"{one['q5'][name]:,}" for name in ("prompt_tokens", "computed_tokens", "least_tokens")),
            _count(one["q5"].get("any_order_tokens")), percent(one["q5"]["hit_rate"]),
        )
        for step, one in figures["queries"].items()
    ]  # fmt: skip
    shown = table(("step", "prompt tokens", "computed", "least", "least, any field order", "hit rate"), rows)
    return f"{shown}{left_out(list(figures['queries'].values())[-1]['q5'])}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def ablations_counts(figures: Figures) -> str:
    """Return the counts of each measurement."""
    return "\n".join(ablation_tables(figures).values())


def gpu(figures: Figures) -> str:
    """Return the seconds and computed tokens of each step, and the seconds by the place of the model's filter."""
    (steps,) = figures["queries"].values()
    names = list(next(iter(steps.values())))
    rows = []
    for step, queries in steps.items():
        ran = [queries.get(name) for name in names]
        cells = [cell for one in ran for cell in _of_gpu(one)]
        rows.append((step, *cells))
    heads = [head for name in names for head in (f"{name}: seconds", f"{name}: computed tokens")]
    shown = table(("step", *heads), rows)
    place = figures["measurements"]["place"]
    variants = list(next(iter(place.values())))
    heads = [head for name in variants for head in (f"{name}: calls", f"{name}: seconds")]
    rows = [
        (share, *(cell for one in of.values() for cell in (f"{one['calls']:,}", f"{one['seconds']:.1f}")))
        for share, of in place.items()
    ]
    return f"{shown}\n{table(('share that passes a plain condition', *heads), rows)}"


def _of_gpu(one: Figures | None) -> tuple[str, str]:
    """Return the cells of a query; they are empty if the query did not run."""
    return (f"{one['seconds']:.1f}", f"{one['computed_tokens']:,}") if one else ("", "")


def messy(figures: Figures) -> str:
    """Return how the files of each family were read by each system; a count of zero is an empty cell."""
    outcomes = {
        "right": "right",
        "noted": "texts, with a note",
        "silent": "texts",
        "refused": "refused",
        "wrong": "wrong",
    }
    families = figures["families"]
    systems = {"flightllm": "FlightLLM", "duckdb": f"DuckDB {figures.get('duckdb', '')}".rstrip()}
    shown = [
        (system, how)
        for system in next(iter(families.values()))
        for how in outcomes
        if any(found[system][how] for found in families.values())
    ]
    rows = [
        (family, f"{sum(found['flightllm'].values())}", *(f"{found[system][how] or ''}" for system, how in shown))
        for family, found in families.items()
    ]
    sums = [sum(found[system][how] for found in families.values()) for system, how in shown]
    files = sum(sum(found["flightllm"].values()) for found in families.values())
    heads = (f"{systems[system]}: {outcomes[how]}" for system, how in shown)
    return table(("family", "files", *heads), [*rows, ("all", f"{files}", *map(str, sums))])


def start(figures: Figures) -> str:
    """Return the CPU seconds of each step by system."""
    steps = [name.removesuffix("_flightllm_cpu_seconds") for name in figures if name.endswith("_flightllm_cpu_seconds")]
    systems = [name for name in ("flightllm", "duckdb") if f"version_{name}_cpu_seconds" in figures]
    rows = [(f"`{step}`", *(f"{figures[f'{step}_{name}_cpu_seconds']:.2f}" for name in systems)) for step in steps]
    return table(("CPU seconds of", *("FlightLLM" if name == "flightllm" else "DuckDB" for name in systems)), rows)


MEASURED: Final[Mapping[str, Callable[[Figures], str]]] = {
    "streaming": streaming,
    "planning": planning,
    "operator": operator,
    "frontend": frontend,
    "ordering": ordering,
    "rag": rag,
    "ablations_counts": ablations_counts,
    "gpu": gpu,
    "messy": messy,
    "start": start,
}
"""The function that makes the table of each record."""
