"""Whole statements of Snowflake have the rows of its documentation."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database
from tests.dialect.functions.snowflake_statements import EMPLOYEES, STATEMENTS
from tests.dialect.functions.tables import is_same

_READS = re.compile(r"(select|with|values)\b", re.IGNORECASE)
_FEW: Sequence[tuple[list[str], Any]] = [
    (["SELECT $1, v.$2 FROM VALUES (1, 'a'), (2, 'b') AS v ORDER BY $1 DESC"], [(2, "b"), (1, "a")]),
    (['SELECT t.$1 AS a FROM (VALUES (1)) AS t ("X")'], [(1,)]),
    (["SELECT FILTER([1, NULL, 3], x INT -> x > 1) AS a, TRANSFORM([1, 2], x -> x * 2) AS b"], [([3], [2, 4])]),
    (
        ['SELECT k, v FROM (SELECT 1 AS q1, 2 AS "q2") UNPIVOT (v FOR k IN (q1, "q2")) ORDER BY k'],
        [("Q1", 1), ("q2", 2)],
    ),
    (["TRUNCATE TABLE IF EXISTS nothere", "TRUNCATE TABLE IF EXISTS emp", "SELECT COUNT(*) AS n FROM emp"], [(0,)]),
]
"""Texts whose rows changed with one rule each."""
_REFUSED = [
    ("SELECT COUNT(*) AS n FROM mydb.public.emp", "there is no catalog 'mydb', only 'flightllm': write public.emp"),
    ("INSERT INTO mydb.public.emp SELECT * FROM emp", "there is no catalog 'mydb', only 'flightllm': write SCHEMA"),
    ("USE SCHEMA mydb.public", "there is no catalog 'mydb', only 'flightllm': write USE public"),
    ("INSERT OVERWRITE INTO emp SELECT * FROM emp", "write DELETE FROM the table and then INSERT INTO"),
    ("CREATE TABLE c CLONE emp", "write CREATE TABLE c AS SELECT * FROM emp"),
    ("CREATE TABLE c LIKE emp", "write CREATE TABLE c AS SELECT * FROM emp LIMIT 0"),
    ("CALL p()", "write the procedure's statements one by one"),
    ("BEGIN LET x := 1; RETURN x; END", "write each statement on its own"),
    ("DECLARE x INT; BEGIN x := 1; END", "write each statement on its own"),
    ("CREATE STAGE s", "write CREATE EXTERNAL TABLE"),
    ("PUT file://a @s", "write CREATE EXTERNAL TABLE"),
    ("SELECT $1 FROM @s/a.csv", "write CREATE EXTERNAL TABLE"),
    ("SELECT * FROM TABLE(RESULT_SCAN(LAST_QUERY_ID()))", "write CREATE TEMP TABLE t AS SELECT"),
    ("SELECT CONDITIONAL_CHANGE_EVENT(id) OVER (ORDER BY id) AS c FROM emp", "write lag"),
    ("SELECT SNOWFLAKE.CORTEX.SPLIT_TEXT_RECURSIVE_CHARACTER(name, 'none', 5) FROM emp", "split it in a client"),
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Open the table that the statements read and change."""
    database = small_database(tmp_path)
    session = database.session()
    for text in EMPLOYEES:
        session.update(text, settings={"dialect": "snowflake"})
    yield session
    database.close()


def _rows(session: Session, texts: Sequence[str]) -> list[tuple[Any, ...]]:
    """Run texts, and return the rows of the last one."""
    rows: list[tuple[Any, ...]] = []
    for text in texts:
        if _READS.match(text):
            rows = [tuple(row.values()) for row in ask(session, text, dialect="snowflake").rows]
        else:
            session.update(text, settings={"dialect": "snowflake"})
    return rows


def _alike(found: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> bool:
    return len(found) == len(expected) and all(map(is_same, map(list, found), map(list, expected)))


def test_few_rows(session: Session) -> None:
    """These statements have the rows of Snowflake."""
    for texts, expected in _FEW:
        assert _alike(found := _rows(session, texts), expected), (texts, found)


def test_says_what_to_write(session: Session) -> None:
    """The error of a statement without a counterpart has the text to write."""
    for text, said in _REFUSED:
        with pytest.raises(FlightLLMError, match=re.escape(said)):
            _rows(session, [text])


@pytest.mark.slow
@pytest.mark.parametrize(("texts", "expected"), STATEMENTS)
def test_rows(session: Session, texts: list[str], expected: Any) -> None:
    """A statement has the rows of Snowflake, or says what to write."""
    said = ""
    try:
        found = _rows(session, texts)
    except FlightLLMError as error:
        said = str(error)
    else:
        assert expected != "!", found
        assert _alike(found, expected), found
    assert not said or re.search(r"write|leave|keep|join on", said), said
