# ruff: noqa: ISC004 - long statements go over two lines
"""Run queries that need a part of their input only, and compare their calls with the fewest that can do.

    python -m bench.fewest_calls [--json] [--quick]

Each query runs with one prompt in flight and with the default window, and with `--repeats` instructions. About half,
most or few of the rows pass its filters. The fewest calls are those of the best strategy that sends one prompt at
a time and does not know the answers. They are computed from all answers, as the mean over all orders of the rows where
the query prescribes no order. Ratios are calls / fewest. `fake` answers at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bench.common import parse_options, read_to_end, report
from bench.setting import announce, open_database
from flightllm.config import EngineConfig
from flightllm.session.session import Session

ROWS, QUICK_ROWS, GROUPS = 2_000, 400, 40
WINDOWS: Final = (1, 128)
FILTERS: Final = {
    "half": "ai_filter('{p}', body)",
    "most": "ai_score('{p}', body) > 0",
    "few": "ai_score('{p}', body) > 9",
}
Said = Mapping[Any, Sequence[bool]]
"""The filter's answers for the rows of each group, in their order."""
Need = Callable[[Sequence[bool], int], float]


def in_order(said: Sequence[bool], count: int) -> float:
    """Return how many rows are asked about in their order until `count` pass; all rows if fewer pass."""
    passed = 0
    for asked, one in enumerate(said, start=1):
        passed += one
        if passed == count:
            return asked
    return len(said)


def in_any_order(said: Sequence[bool], count: int) -> float:
    """Return the mean of `in_order` over all orders of the rows."""
    passing = sum(said)
    return len(said) if passing < count else count * (len(said) + 1) / (passing + 1)


def nothing(said: Sequence[bool], count: int) -> float:
    """Return the need of a query that no row decides."""
    del said, count
    return 0


QUERIES: Final[Mapping[str, tuple[str, str, str, Need, int]]] = {
    "EXISTS": ("SELECT id FROM keys WHERE EXISTS (SELECT 1 FROM goods WHERE grp = keys.id AND {f})",
               "grp", "id", in_any_order, 1),
    "NOT EXISTS": ("SELECT id FROM keys WHERE NOT EXISTS (SELECT 1 FROM goods WHERE grp = keys.id AND {f})",
                   "grp", "id", in_any_order, 1),
    "EXISTS LIMIT 5": ("SELECT id FROM keys WHERE EXISTS (SELECT 1 FROM goods WHERE grp = keys.id AND {f}) LIMIT 5",
                       "1", "id", in_any_order, 5),
    "DISTINCT": ("SELECT DISTINCT grp FROM goods WHERE {f}", "grp", "id", in_any_order, 1),
    "max": ("SELECT max(price) FROM goods WHERE {f}", "1", "price DESC", in_order, 1),
    "min per group": ("SELECT grp, min(price) FROM goods WHERE {f} GROUP BY grp", "grp", "price", in_order, 1),
    "bool_or": ("SELECT grp, bool_or({f}) FROM goods GROUP BY grp", "grp", "id", in_any_order, 1),
    "HAVING count(*) > 2": ("SELECT grp FROM goods WHERE {f} GROUP BY grp HAVING count(*) > 2",
                            "grp", "id", in_any_order, 3),
    "row_number() = 1": ("SELECT id FROM goods WHERE {f} "
                         "QUALIFY row_number() OVER (PARTITION BY grp ORDER BY price) = 1",
                         "grp", "price", in_order, 1),
    "rank() <= 2": ("SELECT id FROM goods WHERE {f} QUALIFY rank() OVER (PARTITION BY grp ORDER BY price) <= 2",
                    "grp", "price", in_order, 2),
    "LIMIT 1": ("SELECT id FROM goods WHERE {f} LIMIT 1", "1", "id", in_any_order, 1),
    "LIMIT 10": ("SELECT id FROM goods WHERE {f} LIMIT 10", "1", "id", in_any_order, 10),
    "UNION ALL LIMIT 10": ("SELECT id FROM goods WHERE {f} UNION ALL SELECT -id FROM goods WHERE {f} LIMIT 10",
                           "1", "id", in_any_order, 10),
    "ORDER BY LIMIT 10": ("SELECT id FROM goods WHERE {f} ORDER BY price LIMIT 10", "1", "price", in_order, 10),
    "HAVING count(*) > all": ("SELECT grp, avg(ai_score('{p}', body)) FROM goods GROUP BY grp HAVING count(*) > 9999",
                              "1", "id", nothing, 0),
    "nothing EXCEPT ALL": ("SELECT id FROM goods WHERE id < 0 EXCEPT ALL SELECT id FROM goods WHERE {f}",
                           "1", "id", nothing, 0),
}  # fmt: skip
"""Each query with the keys and the order of the rows that it asks about, its need, and how many rows must pass."""


def calls(session: Session, sql: str, optimizer: str) -> int:
    """Run a query to its end and return its calls."""
    result = session.execute(sql, settings={"optimizer": optimizer, "cache": "off"})
    read_to_end(result.batches)
    return int(result.query.row()["calls"])


def answers(session: Session, condition: str, key: str, order: str) -> Said:
    """Return what a filter says of the rows of each group."""
    sql = f"SELECT {key} AS k, coalesce({condition}, false) AS a FROM goods ORDER BY {order}"
    found: dict[Any, list[bool]] = {}
    for batch in session.execute(sql, settings={"cache": "off"}).batches:
        for k, a in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            found.setdefault(k, []).append(a)
    return found


def compare(session: Session, name: str, kind: str, repeats: int) -> dict[str, float]:
    """Return the mean calls of a query with the optimizer on and off, and the fewest that can do."""
    sql, key, order, need, count = QUERIES[name]
    on = off = fewest = 0.0
    for number in range(repeats):
        condition = FILTERS[kind].format(p=f"p{number}")
        text = sql.format(f=condition, p=f"p{number}")
        on += calls(session, text, "on") / repeats
        off += calls(session, text, "off") / repeats
        said = answers(session, condition, key, order)
        fewest += sum(need(one, count) for one in said.values()) / repeats
    figures = {"on": round(on, 1), "off": round(off, 1), "fewest": round(fewest, 1)}
    return {**figures, "ratio": round(on / fewest, 2)} if fewest else figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    options = parse_options("Calls of queries that need a part of their input, and the fewest.", arguments)
    announce("fewest_calls", arguments)
    rows = QUICK_ROWS if options.quick else ROWS
    figures: dict[str, Any] = {"rows": rows}
    for window in WINDOWS:
        with open_database(EngineConfig("fake", "demo", window, {}), {}) as database:
            session = database.session()
            session.update(
                f"CREATE TABLE goods AS SELECT v.value AS id, v.value % {GROUPS} AS grp, 'good ' || v.value AS body, "
                f"(v.value * 7919) % 10007 AS price FROM generate_series(1, {rows}) AS v"
            )
            session.update(f"CREATE TABLE keys AS SELECT v.value AS id FROM generate_series(0, {GROUPS - 1}) AS v")
            for kind in FILTERS:
                for name in QUERIES:
                    found = compare(session, name, kind, options.repeats)
                    print(f"window {window:3}, {kind}, {name:24} {found}", flush=True)
                    figures[f"window {window}, {kind}, {name}"] = found
    report("fewest_calls", options, figures)


if __name__ == "__main__":
    main()
