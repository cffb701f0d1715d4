"""No text computes a random value twice."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import pytest
from sqlglot import exp

from flightllm.dialect.generator.calls import Table, vendor_call
from flightllm.dialect.generator.ours import write
from flightllm.dialect.generator.random_values import checked_once
from flightllm.dialect.generator.tables import table_of
from flightllm.dialect.generator.tables.duckdb import DUCKDB
from flightllm.dialect.generator.tables.postgres import POSTGRES
from flightllm.dialect.transpiling import transpile
from flightllm.errors import UnsupportedError
from tests.dialect.places import EMPTY

DIALECTS = ("snowflake", "bigquery", "databricks", "spark", "duckdb", "postgres")


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("bigquery", "SELECT SUBSTR('random()', CAST(RAND() AS INT64) + 1)"),
        ("bigquery", "SELECT IF(RAND() < 2, 'it''s random()', 'x')"),
        ("snowflake", "SELECT NVL2(RANDOM(), 'random()', 'x')"),
    ],
)
def test_literals_are_no_calls(dialect: str, sql: str) -> None:
    """A literal beside a random value can have the name of a random function."""
    assert transpile(sql, dialect, EMPTY).text.lower().replace("'random()'", "").count("random()") <= 2


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("bigquery", "SELECT APPROX_QUANTILES(RAND(), 2) FROM t"),
        ("bigquery", "SELECT SOUNDEX(GENERATE_UUID())"),
        ("bigquery", "SELECT SOUNDEX((SELECT UPPER(GENERATE_UUID())))"),
        ("bigquery", "SELECT LEAST(RAND() * a, b) FROM t"),
        ("snowflake", "SELECT ADD_MONTHS(d, RANDOM() % 3) FROM t"),
        ("snowflake", "SELECT TO_BOOLEAN(UUID_STRING())"),
        ("spark", "SELECT format_string('%s', uuid())"),
        ("databricks", "SELECT format_number(rand(), 2)"),
        ("spark", "SELECT regexp_extract(uuid(), '(a)')"),
        ("duckdb", "SELECT unicode(gen_random_uuid())"),
    ],
)
def test_refuses_a_second_value(dialect: str, sql: str) -> None:
    """A call whose text would have its random argument twice says to compute it in a subquery."""
    with pytest.raises(UnsupportedError, match=r"random argument twice, .*: write the random value as a column x"):
        transpile(sql, dialect, EMPTY)


@pytest.mark.parametrize(
    ("sql", "times"),
    [
        ("SELECT RAND(), RAND()", 2),
        ("SELECT RAND() + RAND()", 2),
        ("SELECT GREATEST(RAND(), RAND(), 0.5)", 2),
        ("SELECT CAST(FLOOR(RAND() * 10) AS INT64)", 1),
        ("SELECT IF(RAND() < 0.5, 'a', 'b')", 1),
        ("SELECT x FROM (SELECT RAND() AS x) WHERE SOUNDEX('a') = SOUNDEX(CAST(x AS STRING))", 1),
        ("SELECT SAFE_DIVIDE(a, RAND()) FROM t", 1),
    ],
)
def test_keeps_each_value(sql: str, times: int) -> None:
    """Each random call of a text stands in the written text once."""
    assert transpile(sql, "bigquery", EMPTY).text.lower().count("random()") == times


def test_writes_each_call_once() -> None:
    """The parts around a random call compare its written text, and do not write the call again."""
    call = exp.Rand()
    generator = SimpleNamespace(random_texts={}, read_from="bigquery")
    assert checked_once(generator, call, "random()") == "random()"
    assert checked_once(generator, exp.Upper(this=call), "upper(random())") == "upper(random())"
    with pytest.raises(UnsupportedError, match="write the random value as a column x"):
        checked_once(generator, exp.Upper(this=call), "random() + random()")


def _calls(name: str) -> Iterator[exp.Expression]:
    """Yield a call with a random value at each place, beside columns, and beside units and numbers."""
    column, unit, number = exp.column("b"), exp.Literal.string("month"), exp.Literal.number(2)
    for others in ([column] * 4, [unit, number, number, number], [number, unit, number, number]):
        for count in range(1, 5):
            for place in range(count):
                given: list[exp.Expression] = [one.copy() for one in others[:count]]
                given[place] = exp.Anonymous(this="f", expressions=[exp.Anonymous(this="uuid")])
                yield vendor_call()(this=name, expressions=given)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_rules(dialect: str) -> None:
    """No rule of a dialect writes a random argument twice."""
    written = 0
    own: Mapping[str, Table] = {"duckdb": DUCKDB, "postgres": POSTGRES}  # the other rules keep the text
    for name in own.get(dialect, table_of(dialect)):
        for call in _calls(name):
            try:
                text = write(exp.select(call), dialect)
            except UnsupportedError:
                continue
            written += 1
            assert text.lower().count("uuid()") <= 1, text
    assert written > 20
