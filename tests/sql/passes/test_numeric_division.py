"""Quotients of decimals have 16 digits after the point."""

from decimal import Decimal

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import rows


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("10 / CAST(3 AS numeric)", "3.3333333333333333"),
        ("CAST('20.00' AS numeric(12, 2)) / 3", "6.6666666666666667"),
        ("CAST('1' AS numeric(5, 3)) / CAST('8' AS numeric(5, 3))", "0.125"),
        ("-1 / CAST('100' AS numeric(9, 2))", "-0.01"),
    ],
)
def test_values(session: Session, value: str, wanted: str) -> None:
    """A quotient is rounded, and has more digits than DataFusion's."""
    assert rows(session, f"SELECT {value} AS v") == [{"v": Decimal(wanted)}]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("100 * count(*) / sum(n)", "7.1428571428571429"),
        ("(SELECT sum(n) FROM counted) * 100 / (SELECT count(*) FROM counted)", "1400"),
        ("-sum(n) / 4", "-10.5"),
        ("round(sum(n + 1) * 10 / 9, 2)", "50.00"),
    ],
)
def test_sums_of_long_numbers(session: Session, value: str, wanted: str) -> None:
    """A sum of BIGINT is a decimal, and so is what is computed with it."""
    session.update("CREATE OR REPLACE TABLE counted AS SELECT CAST(id + 9 AS bigint) AS n FROM people WHERE id < 4")
    session.update("DELETE FROM counted WHERE n = 12")
    session.update("INSERT INTO counted VALUES (21)")
    assert rows(session, f"SELECT {value} AS v FROM counted LIMIT 1") == [{"v": Decimal(wanted)}]


@pytest.mark.parametrize("sql", ["SELECT 7 / 2", "SELECT d / 3 FROM t", "SELECT CAST(1 AS double) / 3::numeric"])
def test_other_texts_stay(sql: str) -> None:
    """A quotient of whole numbers or doubles stays, and so does one of unknown types."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))


@pytest.mark.parametrize(
    "value",
    [
        "1.5 / 0",
        "5.5 % 0",
        "id / 0.0",
        "1.5 / (id - id)",
        "CAST(id AS double precision) / (id - id)",
        "CAST(id AS real) / CAST(id - id AS real)",
        "100.0 * count(*) OVER () / (id - id)",
    ],
)
def test_zero_below_doubles(session: Session, value: str) -> None:
    """A division of doubles by zero is an error, as in PostgreSQL."""
    with pytest.raises(FlightLLMError, match="division by zero: write nullif"):
        rows(session, f"SELECT {value} AS v FROM people WHERE id < 3")


@pytest.mark.parametrize("value", ["a / b", "a % b", "CAST(2 AS numeric) / b", "2 / 0e0"])
def test_zero_among_literals(session: Session, value: str) -> None:
    """A literal with an exponent is no whole number, and a column of such literals can have a zero."""
    with pytest.raises(FlightLLMError, match="division by zero: write nullif"):
        rows(session, f"SELECT {value} AS v FROM (VALUES (1.5e0, 0e0)) AS v(a, b)")
    found = rows(session, f"SELECT {value} AS v FROM (VALUES (1.5e0, 0.5)) AS v(a, b)".replace("0e0", "5e-1"))
    assert float(found[0]["v"]) in {3.0, 4.0, 0.0}


def test_doubles_without_zero(session: Session) -> None:
    """Other divisors keep values and types, and `nullif` and CASE keep a zero away."""
    sql = """SELECT 5.5 % 2 AS a, 7 / 2 AS b, 7 / 2.5 AS c, d / nullif(z, 0) AS e, CASE WHEN z > 0 THEN d / z END AS f,
        arrow_typeof(CAST(d AS real) / CAST(n AS real)) AS g, d / n AS h
        FROM (VALUES (CAST(3 AS double precision), 0, 2)) AS v(d, z, n)"""
    wanted = {"a": 1.5, "b": 3, "c": 2.8, "e": None, "f": None, "g": "Float32", "h": 1.5}
    assert rows(session, sql) == [wanted]


@pytest.mark.parametrize(
    ("rest", "wanted"),
    [
        ("FROM v WHERE z > 0 AND d / z > 0.3", [4]),
        ("FROM v WHERE z = 0 OR d / z > 0.3", [0, 4]),
        ("FROM (SELECT * FROM v WHERE z <> 0) AS t WHERE d / z > 0", [4]),
        ("FROM v GROUP BY z HAVING z > 0 AND max(d) / z > 0", [4]),
        ("FROM v JOIN people ON id = 1 AND z > 0 AND d / z > 0", [4]),
    ],
)
def test_conditions_that_rule_out_zero(session: Session, rest: str, wanted: list[int]) -> None:
    """A condition keeps the zeros from another one, as in PostgreSQL."""
    values = "WITH v AS (SELECT d, CAST(z AS double precision) AS z FROM (VALUES (1.5e0, 0), (2.5e0, 4)) AS w(d, z))"
    assert [row["z"] for row in rows(session, f"{values} SELECT z {rest} ORDER BY z")] == wanted
