"""The texts of TRUNCATE."""

import pytest

from flightllm.common.names import TableName
from flightllm.errors import FlightLLMError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


@pytest.mark.parametrize(
    ("sql", "names", "cascade"),
    [
        ("TRUNCATE t", ["t"], False),
        ("truncate table t;", ["t"], False),
        ("TRUNCATE ONLY t, only s.u RESTRICT", ["t", "s.u"], False),
        ('TRUNCATE TABLE "T", t, t CASCADE', ["T", "t"], True),
        ("TRUNCATE t RESTART IDENTITY", ["t"], False),
        ("TRUNCATE t CONTINUE IDENTITY RESTRICT -- all", ["t"], False),
        ("TRUNCATE t, u RESTART IDENTITY CASCADE", ["t", "u"], True),
    ],
)
def test_forms(sql: str, names: list[str], cascade: bool) -> None:
    """Each table is named once, and CASCADE is noted."""
    statement = classify(ParsedText(sql))
    assert statement.kind == "truncate"
    assert [name.display for name in statement.dropped] == names
    assert (statement.target, statement.cascade) == (statement.dropped[0], cascade)


def test_the_answer_cache() -> None:
    """Its name stands alone, and is no table to empty."""
    statement = classify(ParsedText("TRUNCATE TABLE system.cache"))
    assert (statement.target, statement.dropped) == (TableName("system", "cache"), ())


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("TRUNCATE", "name of a table was expected: write TRUNCATE"),
        ("TRUNCATE TABLE t,", "name of a table was expected"),
        ("TRUNCATE t WHERE a = 1", "'WHERE' was not expected: write TRUNCATE"),
        ("TRUNCATE t CASCADE RESTART IDENTITY", "'RESTART' was not expected"),
        ("TRUNCATE t RESTART", "'RESTART' was not expected"),
        ("TRUNCATE t u", "'u' was not expected"),
        ("TRUNCATE TABLE system.cache CASCADE", "'CASCADE' was not expected: TRUNCATE TABLE system.cache takes"),
        ("TRUNCATE t, system.cache", "truncate it in a statement of its own"),
        ("EXPLAIN TRUNCATE t", "EXPLAIN works only for queries"),
    ],
)
def test_errors(sql: str, message: str) -> None:
    """An error says what TRUNCATE takes."""
    with pytest.raises(FlightLLMError, match=message):
        classify(ParsedText(sql))
