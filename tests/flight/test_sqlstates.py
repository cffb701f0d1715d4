"""Every error of the tree has a code."""

import re
from pathlib import Path

import pytest

from flightllm import errors
from flightllm.flight.sqlstates import INTERNAL, sqlstate
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from tests.databases import open_database


def test_every_class_has_a_code() -> None:
    """A class added to the tree gets the code of its parent; only defects have that of an internal error."""
    classes: list[type[errors.FlightLLMError]] = [errors.FlightLLMError]
    for kind in classes:
        classes.extend(one for one in kind.__subclasses__() if one.__module__ == errors.__name__)
    codes = {kind: sqlstate(kind.__new__(kind, "the message")) for kind in set(classes[1:])}
    assert all(re.fullmatch("[0-9A-Z]{5}", code) for code in codes.values())
    assert {kind for kind, code in codes.items() if code == INTERNAL} == {errors.InternalError, errors.UnansweredError}
    assert codes[errors.UnauthenticatedError] == "28000"
    assert codes[errors.PermissionDeniedError] == "42501"
    assert codes[errors.CancelledError] == "57014"
    assert codes[errors.BudgetExceededError] == "53400"
    assert codes[errors.EngineUnavailableError] == "08006"


def test_a_defect_has_the_code_of_one() -> None:
    """Whatever is not of our tree is a defect."""
    assert sqlstate(ValueError("x")) == INTERNAL


def test_long_messages() -> None:
    """What a message quotes is searched once, not from each of its words to its end."""
    assert sqlstate(errors.SqlError("parameters " * 200_000)) == "42000"
    assert sqlstate(errors.SqlError("the statement takes 2 parameters, but 1 are bound")) == "07001"


@pytest.mark.parametrize("sql", ["FROB 1", "CREATE VIEW v", "DROP TABLE IF a", "DROP TABLE a b", "SHOW MODELS x"])
def test_malformed_statements(sql: str) -> None:
    """A statement with a missing word, or with a word too much, has the code of a syntax error."""
    with pytest.raises(errors.SqlError) as raised:
        classify(ParsedText(sql))
    assert sqlstate(raised.value) == "42601"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("INSERT INTO t VALUES (NULL, 1)", "23502"),
        ("UPDATE t SET a = NULL", "23502"),
        ("INSERT INTO t VALUES (99999999999, 1)", "22003"),
        ("INSERT INTO t VALUES (1, 12345)", "22003"),
        ("SELECT a, count(*) FROM t", "42803"),
        ("SELECT 'x'::int", "22P02"),
    ],
)
def test_wrong_values(tmp_path: Path, sql: str, code: str) -> None:
    """Errors about values and groups have PostgreSQL's codes."""
    database = open_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE t (a int NOT NULL, b decimal(4, 2))")
    session.update("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(errors.FlightLLMError) as raised:
        _ = session.update(sql) if session.is_update(sql) else list(session.execute(sql).batches)
    database.close()
    assert sqlstate(raised.value) == code, raised.value


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ('SELECT "T".nope FROM t AS "T"', "42703"),
        ('SELECT "a.b".nope FROM t AS "a.b"', "42703"),
        ('SELECT "a""b".nope FROM t AS "a""b"', "42703"),
        ("SELECT public.t.nope FROM t", "42703"),
        ("SELECT flightllm.public.t.nope FROM t", "42703"),
        ("SELECT flightllm.s.u.nope FROM s.u", "42703"),
        ("SELECT u.nope FROM s.u", "42703"),
        ("SELECT nope FROM t", "42703"),
        ("SELECT x.nope FROM t", "42P01"),
        ('SELECT "T".nope FROM t', "42P01"),
        ('SELECT x."no pe" FROM t AS "a x"', "42P01"),
        ("SELECT x.t.nope FROM t", "42P01"),
        ("SELECT q.nope FROM t", "42P01"),
    ],
)
def test_columns_of_missing_tables(tmp_path: Path, sql: str, code: str) -> None:
    """A column that a table of FROM lacks, and a table that FROM lacks, have PostgreSQL's two codes."""
    database = open_database(tmp_path)
    session = database.session()
    session.update('CREATE TABLE t (a int, "q.r" int)')
    session.update("CREATE SCHEMA s")
    session.update("CREATE TABLE s.u (a int)")
    with pytest.raises(errors.SqlError) as raised:
        list(session.execute(sql).batches)
    database.close()
    assert sqlstate(raised.value) == code, raised.value


def test_long_names() -> None:
    """The time for a long list of columns grows with its length alone."""
    fields = ", ".join(f'"t{place}".a' for place in range(100_000))
    assert sqlstate(errors.SqlError(f"No field named x.a. Valid fields are {fields}.")) == "42P01"
    assert (
        sqlstate(errors.SqlError(f"No field named x.{chr(34) * 200_001}. Valid fields are {'.' * 200_000}")) == "42703"
    )
