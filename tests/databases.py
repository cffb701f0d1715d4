"""Databases for tests of the core: small tables made on the spot, samples, the fake engine, and what a query did."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import flightllm.demo
from flightllm.config import (
    CacheConfig,
    Config,
    EmbeddingConfig,
    EngineConfig,
    LimitsConfig,
    ModelsConfig,
    RecoveryConfig,
)
from flightllm.execution.bind import extract, plan_stubs
from flightllm.observe.query_record import QueryRecord
from flightllm.optimizer import rewrite
from flightllm.optimizer.rules import Rule
from flightllm.plan.nodes import AiMap, Node, Scan, children
from flightllm.plan.planner import PlannedQuery, plan_query
from flightllm.session.database import Database
from flightllm.session.reading import plan_statement
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText

SAMPLES = {
    path.stem: path for path in sorted((Path(flightllm.demo.__file__).parent / "data").glob("*.parquet"))
}  # fmt: skip
"""The packaged sample tables."""

SMALL = (
    """CREATE OR REPLACE TABLE people AS SELECT * FROM (VALUES
        (1, 'Ann', 'likes tea', 3.5, true, DATE '2024-01-02'), (2, 'Bob', 'likes tea', 1.0, false, DATE '2024-01-02'),
        (3, NULL, 'hates rain', 2.0, NULL, DATE '2023-05-06'), (4, 'Dan', NULL, NULL, true, NULL),
        (5, 'Eve', 'owns a cat', 3.5, false, DATE '2022-07-08'), (6, NULL, NULL, NULL, NULL, NULL),
        (7, 'Ann', 'owns a cat', 4.0, true, DATE '2024-01-02'), (8, 'Ann', 'likes tea', 3.5, true, DATE '2024-01-02'),
        (9, 'Fay', '', 0.0, false, DATE '2021-09-10')) AS v(id, name, note, score, flag, day)""",
    """CREATE OR REPLACE TABLE likes AS SELECT * FROM (VALUES
        (1, 'tea', 2), (1, 'cats', NULL), (2, 'tea', 1), (3, NULL, 5), (NULL, 'rain', 4), (7, 'cats', 2),
        (7, 'cats', 2), (12, 'snow', 9)) AS v(person_id, thing, weight)""",
    "CREATE OR REPLACE TABLE nothing AS SELECT * FROM people WHERE id < 0",
)
"""Two tables with NULLs and duplicates, and an empty one."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A query that ran to its end: its rows, its record, and the rules its plan says fired."""

    table: pa.Table
    record: QueryRecord

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    @property
    def calls(self) -> int:
        """Return how many prompts the engine was sent."""
        return int(self.record.row()["calls"])

    @property
    def cache_hits(self) -> int:
        """Return how many answers were known already."""
        return int(self.record.row()["cache_hits"])


def open_database(
    folder: Path,
    engine: Mapping[str, object] | None = None,
    *,
    window: int = 128,
    limits: LimitsConfig | None = None,
    cache: CacheConfig | None = None,
    recovery: RecoveryConfig | None = None,
    tables: Mapping[str, Path] | None = None,
    models: ModelsConfig | None = None,
    embedding: EmbeddingConfig | None = None,
    price: float | None = None,
) -> Database:
    """Open a database on the fake engine whose data folder is `folder`; `engine` are options of the engine.

    `price` is that of a million tokens of its prompts.
    """
    config = Config(
        engine=EngineConfig("fake", "demo", window, engine or {}, price_input=price),
        tables=tables or {},
        limits=limits or LimitsConfig(),
        cache=cache or CacheConfig(),
        recovery=recovery or RecoveryConfig(),
        models=models or ModelsConfig(),
        embedding=embedding or EmbeddingConfig(),
        data_folder=folder,
    )
    return Database.open(config)


def small_database(folder: Path, engine: Mapping[str, object] | None = None, **options: Any) -> Database:
    """Open a database that has the small tables."""
    database = open_database(folder, engine, **options)
    session = database.session()
    for statement in SMALL:
        session.update(statement)
    return database


def ask(session: Session, sql: str, parameters: pa.RecordBatch | None = None, **settings: str) -> Ran:
    """Run a query to its end under settings for it alone."""
    result = session.execute(sql, parameters, settings)
    return Ran(pa.Table.from_batches(list(result.batches), result.schema), result.query)


def rows(session: Session, sql: str) -> list[dict[str, Any]]:
    """Run a query and return its rows."""
    return ask(session, sql).rows


def explained(session: Session, sql: str, parameters: pa.RecordBatch | None = None) -> dict[str, str]:
    """Return what EXPLAIN says of a query, by title."""
    lines = ask(session, f"EXPLAIN {sql}", parameters).rows
    return {line["plan_type"]: line["plan"] for line in lines}


def plan_lines(session: Session, sql: str, parameters: pa.RecordBatch | None = None) -> dict[str, str]:
    """Return the plan of a query by title, as EXPLAIN shows it, but without predictions: they take most of its time."""
    statement = session._reader.bound(sql, session._settings, parameters)
    return dict(plan_statement(statement, session._services, session._settings).explain())


def fired(session: Session, sql: str) -> list[str]:
    """Return the rules that fired on a query."""
    text = plan_lines(session, sql)["rules"]
    return [] if text == "none fired" else text.split(", ")


def ask_both(session: Session, sql: str) -> tuple[Ran, Ran]:
    """Run a query with the optimizer on and off; both must return the same rows."""
    on, off = (ask(session, sql, optimizer=optimizer, cache="off") for optimizer in ("on", "off"))
    assert on.table.schema == off.table.schema
    assert canonical(on.table) == canonical(off.table)
    return on, off


def plan_of(database: Database, sql: str, *, folds: bool = False) -> PlannedQuery:
    """Return a query's plan before any rule."""
    services = database._services
    extracted, _ = extract(services.catalog.inline_views(ParsedText(sql)), services)
    found = plan_stubs(services, extracted)
    return plan_query(found.context, found.frame, extracted.calls, folds=folds)


def planned(database: Database, sql: str, *rules: Rule) -> tuple[str, str, tuple[str, ...]]:
    """Return the sketches of a query's plan before and after `rules`, and the names of those that fired."""
    plan = plan_of(database, sql)
    after, fired_rules = rewrite(plan.root, plan.functions, rules)
    return sketch(plan.root), sketch(after), fired_rules


def sketch(node: Node) -> str:
    """Return the kinds of a plan's nodes in a line: `Filter(AiMap[ai_gen](people))`; `?` marks a guarded call."""
    name = type(node).__name__
    if isinstance(node, Scan):
        return str(node.rel.named_table.names[-1]) if node.rel.HasField("named_table") else "rows"
    if isinstance(node, AiMap):
        name += f"[{', '.join(call.ai.function + ('?' if call.when is not None else '') for call in node.calls)}]"
    return f"{name}({', '.join(map(sketch, children(node)))})"


def canonical(table: pa.Table) -> list[str]:
    """Return the rows as text in an order of their own, for comparing what has no order; doubles to 9 digits."""
    return sorted(repr([_rounded(v) for v in row.values()]) for row in _unique(table).to_pylist())


def in_order(table: pa.Table) -> list[str]:
    """Return the rows as text in the table's order."""
    return [repr([_rounded(v) for v in row.values()]) for row in _unique(table).to_pylist()]


def _unique(table: pa.Table) -> pa.Table:
    return table.rename_columns([str(i) for i in range(table.num_columns)])


def _rounded(value: Any) -> Any:
    """Return sums of doubles equal whatever the order in which they were added."""
    return float(f"{value:.9g}") if isinstance(value, float) else value
