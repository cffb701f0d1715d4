"""Values of two types that become one column have one type, as in PostgreSQL 15."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import ask, rows

_DAY, _SEEN = "date '2024-01-01'", "timestamptz '2024-01-02 00:00+00'"


@pytest.fixture(scope="module")
def prices(session: Session) -> Iterator[Session]:
    """Return a session with a table of decimals and doubles."""
    session.update("CREATE TABLE prices (k int, p numeric(10, 2), d double)")
    session.update("INSERT INTO prices VALUES (1, 1.10, 1e16), (2, NULL, 0.1)")
    yield session
    session.update("DROP TABLE prices")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("coalesce(p, d)", [1.1, 0.1]),
        ("coalesce(p, d * 0.5)", [1.1, 0.05]),
        ("coalesce(p * 0.5, d)", [0.55, 0.1]),
        ("CASE WHEN p IS NULL THEN d ELSE p END", [1.1, 0.1]),
        ("greatest(p, d)", [1e16, 0.1]),
        ("greatest(p, d * 0.5)", [5e15, 0.05]),
        ("nullif(p, 1.1::float8)", [None, None]),
        ("nullif(p, d)", [Decimal("1.10"), None]),
        ("nullif(d, p)", [1e16, 0.1]),
        ("coalesce(p, 0.5)", [Decimal("1.10"), Decimal("0.50")]),
    ],
)
def test_numbers(prices: Session, value: str, wanted: list[object]) -> None:
    """Functions and CASE read the decimal as a double; beside a literal it stays a decimal."""
    assert [row["v"] for row in rows(prices, f"SELECT {value} AS v FROM prices ORDER BY prices.k")] == wanted


def test_asked_once(session: Session) -> None:
    """Nullif computes a value that changes from call to call once."""
    value = "nullif(CAST(random() AS DECIMAL(1, 0)), 1::float8)"
    assert (
        rows(session, f"SELECT count(*) AS n FROM (SELECT {value} AS v FROM generate_series(1, 200)) q WHERE v = 1")[0][
            "n"
        ]
        == 0
    )


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT p AS v FROM prices WHERE k = 1 UNION ALL SELECT d FROM prices", [0.1, 1.1, 1e16]),
        ("SELECT p AS v FROM prices UNION ALL SELECT p FROM prices UNION ALL SELECT d FROM prices", None),
        ("SELECT d AS v FROM prices UNION ALL SELECT p FROM prices UNION ALL SELECT p FROM prices", None),
        ("SELECT d AS v FROM prices UNION ALL (SELECT p FROM prices UNION ALL SELECT p FROM prices)", None),
        ("SELECT d AS v FROM prices UNION (SELECT p FROM prices ORDER BY p LIMIT 1)", [0.1, 1.1, 1e16]),
        ("(SELECT p AS v FROM prices WHERE k = 1) UNION (SELECT d FROM prices)", [0.1, 1.1, 1e16]),
        ("SELECT d AS v FROM prices UNION ALL VALUES (1.25::numeric)", [0.1, 1.25, 1e16]),
        ("SELECT d AS v FROM prices UNION ALL SELECT * FROM (SELECT p FROM prices WHERE k = 1) q", [0.1, 1.1, 1e16]),
        ("SELECT p AS v FROM prices EXCEPT SELECT p FROM prices EXCEPT SELECT d FROM prices", []),
    ],
)
def test_set_operations(prices: Session, query: str, wanted: list[float] | None) -> None:
    """The columns of chains, queries in parentheses, VALUES and stars are doubles, with the name of the first."""
    found = ask(prices, query).table
    assert found.schema.field("v").type == pa.float64()
    kept = sorted(one for one in found["v"].to_pylist() if one is not None)
    assert kept == ([0.1, 1.1, 1.1, 1e16] if wanted is None else wanted)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT coalesce({_DAY}, {_SEEN}) AS r", ["2024-01-01 00:00:00+00"]),
        (f"SELECT greatest({_DAY}, NULL, {_SEEN}) AS r", ["2024-01-02 00:00:00+00"]),
        (f"SELECT CASE WHEN true THEN {_DAY} ELSE {_SEEN} END AS r", ["2024-01-01 00:00:00+00"]),
        (f"SELECT CASE WHEN true THEN {_DAY} WHEN false THEN {_SEEN} END AS r", ["2024-01-01 00:00:00+00"]),
        (f"SELECT {_DAY} AS r UNION SELECT {_SEEN}", ["2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"]),
        (
            f"SELECT {_DAY} AS r UNION SELECT {_DAY} UNION SELECT {_SEEN}",
            ["2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"],
        ),
        (f"SELECT r FROM (SELECT {_DAY} AS r) q EXCEPT ALL SELECT {_SEEN}", ["2024-01-01 00:00:00+00"]),
        (f"SELECT unnest(ARRAY[{_DAY}, {_SEEN}]) AS r", ["2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"]),
    ],
)
def test_zones(session: Session, sql: str, wanted: list[str]) -> None:
    """The column is a timestamp with a time zone, and so is its text."""
    kind = ask(session, sql).table.schema.field("r").type
    assert pa.types.is_timestamp(kind)
    assert kind.tz is not None
    found = ask(session, f"SELECT r::text AS r FROM ({sql}) q ORDER BY 1").table.to_pylist()
    assert [row["r"] for row in found] == wanted


def test_plain_times_stay(session: Session) -> None:
    """A date that meets a plain timestamp becomes a plain timestamp."""
    found = ask(session, f"SELECT coalesce({_DAY}, timestamp '2024-01-02') AS r").table
    assert found.schema.field("r").type.tz is None


def test_long_chain() -> None:
    """Each table of a long chain is looked up a few times, and not once for each operation around it."""
    asked = list[str]()

    def columns_of(parts: Sequence[str]) -> Mapping[str, pa.DataType]:
        asked.append(parts[-1])
        return {"a": pa.int64()}

    text = ParsedText(" UNION ALL ".join(f"SELECT a FROM t{number}" for number in range(60)))
    assert not list(edits(text, columns_of, lambda _: False))
    assert max(map(asked.count, asked)) <= 20
