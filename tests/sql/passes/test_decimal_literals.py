"""Literals with a point beside decimals keep all digits, as in PostgreSQL."""

from collections.abc import Iterator
from decimal import Decimal
from difflib import SequenceMatcher

import pyarrow as pa
import pytest

from flightllm.errors import LimitExceededError
from flightllm.session.session import Session
from flightllm.sql import alignment
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.decimal_sizes import DecimalSizes
from flightllm.sql.passes.passes import edits
from tests.databases import ask

_BIG = "1234567890123456.78"


@pytest.fixture(scope="module")
def prices(session: Session) -> Iterator[Session]:
    """Make a table of decimals."""
    session.update("CREATE TABLE prices (k INT, n NUMERIC, x NUMERIC(20, 2), d DOUBLE PRECISION)")
    session.update(f"INSERT INTO prices VALUES (1, {_BIG}, {_BIG}, 0.5)")
    yield session
    session.update("DROP TABLE prices")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (f"{_BIG}::numeric(20, 2)", _BIG),
        ("CAST(-0.12345678901234567890 AS numeric(38, 20))", "-0.12345678901234567890"),
        ("123456789012345678901234::numeric(30, 2)", "123456789012345678901234.00"),
        ("x + 0.01", "1234567890123456.79"),
        ("(0.01 - x) * 2", "-2469135780246913.54"),
        ("n * 1.5", "1851851835185185.17"),
        ("x % 0.05", "0.03"),
        ("sum(x) + 0.005", "1234567890123456.785"),
        ("coalesce(nullif(x, x), 1234567890123456.789)", "1234567890123456.789"),
        ("CASE WHEN k > 1 THEN x ELSE 1234567890123456.71 END", "1234567890123456.71"),
        ("greatest(x, 1234567890123456.785)", "1234567890123456.785"),
    ],
)
def test_values(prices: Session, value: str, wanted: str) -> None:
    """A cast, an operator, a function and CASE give PostgreSQL's digits."""
    (found,) = ask(prices, f"SELECT {value} AS v FROM prices GROUP BY k, n, x").table.column("v").to_pylist()
    assert found == Decimal(wanted)


@pytest.mark.parametrize(
    "condition",
    [
        f"x = {_BIG}",
        "x > 1234567890123456.77 AND x < 1234567890123456.781",
        f"n IN (0.1, {_BIG})",
        f"x BETWEEN {_BIG} AND 1234567890123456.785",
        f"x IS NOT DISTINCT FROM {_BIG}",
        f"CASE x WHEN {_BIG} THEN true END",
        f"x = ANY (ARRAY[{_BIG}])",
    ],
)
def test_comparisons(prices: Session, condition: str) -> None:
    """A comparison with a literal of 18 digits finds the row that has this value, and not its neighbours."""
    assert ask(prices, f"SELECT k FROM prices WHERE {condition}").table.num_rows == 1
    assert (
        ask(
            prices, f"SELECT k FROM (SELECT k, n + 0.02 AS n, x + 0.02 AS x FROM prices) AS q WHERE {condition}"
        ).table.num_rows
        == 0
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("UPDATE prices SET x = x + 0.01", "1234567890123456.79"),
        ("UPDATE prices SET x = CASE WHEN k = 1 THEN 1234567890123456.71 ELSE 0 END", "1234567890123456.71"),
        ("UPDATE prices SET x = 1234567890123456.5 + k * 0.25", "1234567890123456.75"),
        ("UPDATE prices SET x = 123456789012345678.0", "123456789012345678.00"),
        ("UPDATE prices SET x = d * 0.5", "0.25"),
        ("INSERT INTO prices (k, x) VALUES (2, 1234567890123456.70 + 0.05)", "1234567890123456.75"),
        ("INSERT INTO prices (k, x) SELECT 2, 1234567890123456.73", "1234567890123456.73"),
        ("INSERT INTO prices (k, x) VALUES (2, coalesce(NULL, 1234567890123456.73))", "1234567890123456.73"),
    ],
)
def test_changes(prices: Session, change: str, wanted: str) -> None:
    """A column of decimals stores the digits that a statement writes."""
    try:
        prices.update(change)
        (found,) = ask(prices, "SELECT x FROM prices ORDER BY k DESC LIMIT 1").table.column("x").to_pylist()
        assert found == Decimal(wanted)
    finally:
        prices.update("DELETE FROM prices")
        prices.update(f"INSERT INTO prices VALUES (1, {_BIG}, {_BIG}, 0.5)")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("d + 0.1", 0.6),
        ("coalesce(d, 0.5)", 0.5),
        ("k + 0.5", 1.5),
        ("CAST(k AS NUMERIC(5, 2)) * 0.5 / 3 > 0.16666666666", True),
    ],
)
def test_doubles_stay(prices: Session, value: str, wanted: object) -> None:
    """A literal beside a double or a whole number stays a double, and a quotient keeps its digits."""
    assert ask(prices, f"SELECT {value} AS v FROM prices").table.to_pylist() == [{"v": wanted}]


@pytest.mark.parametrize(
    "condition",
    [
        "full + 0.12345678901 > 0",
        "full * 1.00000000 > 0",
        "full * 1e8 > 0",
        "full > 0.12",
        "plain > 0.123456789012345678",
        "plain * 1.123456789 > 0",
    ],
)
def test_room(session: Session, condition: str) -> None:
    """A literal that leaves no room for the other value's digits stays a double: a decimal would be an error."""
    rows = "SELECT 123456789012345678901234567890.12::numeric(38, 2) AS full, 123456789012345678901.5::numeric AS plain"
    assert ask(session, f"SELECT {condition} AS v FROM ({rows}) AS q").table.to_pylist() == [{"v": True}]


@pytest.mark.parametrize("column", ["x", "d"])
def test_long_chains(prices: Session, column: str) -> None:
    """A chain that the parser reads gives its sum; a longer one is a clear error."""
    chain = column + " + 0.01" * 400
    (found,) = ask(prices, f"SELECT {chain} AS v FROM prices").table.column("v").to_pylist()
    assert found == (Decimal("1234567890123460.78") if column == "x" else pytest.approx(4.5))
    prices.update(f"UPDATE prices SET x = {chain} WHERE false")
    with pytest.raises(LimitExceededError, match="too deep"):
        ask(prices, f"SELECT {column}{' + 0.01' * 2_000} AS v FROM prices")


@pytest.mark.parametrize("item", ["sum", "items"])
def test_steps_grow_with_the_length(monkeypatch: pytest.MonkeyPatch, item: str) -> None:
    """A text of double length needs no more than about twice the steps, in the pass and in the edits."""
    steps = dict[str, int]()
    size = DecimalSizes._size

    def counted(*given: object) -> object:
        steps["sizes"] += 1
        return size(*given)  # type: ignore[arg-type]

    def matcher(_: None, before: list[object], after: list[object], *, autojunk: bool) -> SequenceMatcher[object]:
        steps["pairs"] += len(before) * len(after)
        return SequenceMatcher(None, before, after, autojunk=autojunk)

    monkeypatch.setattr(DecimalSizes, "_size", counted)
    monkeypatch.setattr(alignment, "SequenceMatcher", matcher)

    def steps_for(count: int) -> dict[str, int]:
        steps.update(sizes=0, pairs=0)
        terms = "n" + " + 0.01" * count if item == "sum" else ", ".join(f"n + {number}.5" for number in range(count))
        columns = {"n": pa.decimal128(20, 2)}
        assert [*edits(ParsedText(f"SELECT {terms} FROM t"), lambda _: columns, lambda _: True)]
        return dict(steps)

    short, long = steps_for(200), steps_for(400)
    assert all(short[name] > 0 and long[name] <= 2.5 * short[name] for name in short)
