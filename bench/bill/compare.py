"""Compare the bills of each query at one provider: without a cache, by layout, and the least that a search finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from bench.bill.best import least
from bench.bill.measure import BEFORE, CHOSEN, Run, has_native, opened, run
from bench.bill.pieces import FIELDS, INSTRUCTION, take_apart
from bench.bill.prices import prices
from bench.bill.provider import Provider
from bench.bill.providers import PROVIDERS
from bench.bill.queries import Query, queries
from bench.bill.server import Endpoint, serving
from bench.bill.tables import PARTS

Files: TypeAlias = Mapping[str, Path]
Found: TypeAlias = dict[str, dict[str, Any]]


def of_provider(title: str, asked: Sequence[str], large: Files, tiny: Files) -> tuple[Found, Found]:
    """Return the figures of each query over the large tables, and over the small ones, at the provider of a title."""
    [provider] = [one for one in PROVIDERS if one.title == title]
    found, small = Found(), Found()
    with serving(provider) as (endpoint, url):
        for query in (one for one in queries() if one.name in asked):
            found[query.name] = _compare(provider, endpoint, url, query, large)
            small[query.name] = _compare_small(provider, endpoint, url, query, tiny)
            print(f"# {provider.title}, {query.name}: {_brief(found[query.name])}", flush=True)
    return found, small


def _brief(cell: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {cell[name]:.6f}" for name in ("none", "before", "bill", "possible"))


def _compare(provider: Provider, endpoint: Endpoint, url: str, query: Query, files: Files) -> dict[str, Any]:
    """Return the bills of one query, and how far EXPLAIN was off."""
    before = _runs(provider, endpoint, url, query, files, BEFORE)
    chosen = _runs(provider, endpoint, url, query, files, CHOSEN, native=has_native(provider), explained=True)
    fields = _runs(provider, endpoint, url, query, files, {**BEFORE, "layout": FIELDS}, parts=PARTS[:1])
    cold, warm = chosen
    return {
        "kind": query.kind,
        "none": sum(one.none for one in before),
        "before": sum(one.bill for one in before),
        "bill": sum(one.bill for one in chosen),
        "possible": _least(provider, before, fields, files),
        "cold_error": cold.error,
        "warm_error": warm.error,
        "cold": cold.figures(),
        "warm": warm.figures(),
    }


def _compare_small(provider: Provider, endpoint: Endpoint, url: str, query: Query, files: Files) -> dict[str, Any]:
    """Return the bill of one query over a small table while all is cold, and the least bill of any layout."""
    before, fields = (
        _runs(provider, endpoint, url, query, files, {**BEFORE, "layout": layout}, parts=PARTS[:1])
        for layout in (INSTRUCTION, FIELDS)
    )
    [chosen] = _runs(provider, endpoint, url, query, files, CHOSEN, native=has_native(provider), parts=PARTS[:1])
    return {
        "bill": chosen.bill,
        "before": before[0].bill,
        "best": _least(provider, before, fields, files),
        "requests": len(chosen.ledger.usages),
    }


def _runs(  # noqa: PLR0913 - what a run needs
    provider: Provider,
    endpoint: Endpoint,
    url: str,
    query: Query,
    files: Files,
    settings: Mapping[str, str],
    *,
    native: bool = False,
    parts: Sequence[int] = PARTS,
    explained: bool = False,
) -> list[Run]:
    """Run a query over the parts of the tables in a new database; the first run finds nothing in the cache."""
    with opened(provider, url, files, native=native) as database:
        return [
            run(database, endpoint, query, part, settings, cold=part == parts[0], explained=explained) for part in parts
        ]


def _least(provider: Provider, before: Sequence[Run], fields: Sequence[Run], files: Files) -> float:
    """Return the least bill that the search finds for the requests of runs, which were sent in both layouts."""
    names = dict.fromkeys(column for path in files.values() for column in pq.read_schema(path).names)
    sent = {INSTRUCTION: before, FIELDS: fields}
    bodies = {layout: [body for one in runs for body in one.ledger.bodies] for layout, runs in sent.items()}
    output = sum(usage.output for one in before for usage in one.ledger.usages)
    return least(take_apart(bodies, provider, names), output, provider, prices(provider))
