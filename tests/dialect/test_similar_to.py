"""SIMILAR TO: patterns of whole texts, as the SQL standard and PostgreSQL read them."""

import pytest

from flightllm.dialect import rewrite
from flightllm.errors import SqlError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask
from tests.dialect.places import EMPTY


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("good product", "'%good%'", True),
        ("abc", "'a_c'", True),
        ("abc", "'b'", False),
        ("abc", "'(a|x)%'", True),
        ("abc", "'a|abc'", True),
        ("abcd", "'a|abc'", False),
        ("a\nb\n", "'a_b%'", True),
        ("ab", "'a.'", False),
        ("a.", "'a.'", True),
        ("^a$", "'^a$'", True),
        ("aaa", "'a{2,3}'", True),
        ("aaaa", "'a{2,3}'", False),
        ("abab", "'(ab)+'", True),
        ("ac", "'ab?c'", True),
        ("a_c", r"'a\_c'", True),
        ("abc", r"'a\_c'", False),
        ("a*", "'a!*' ESCAPE '!'", True),
        (r"a\b", r"'a\b' ESCAPE ''", True),
        ("b2", "'[a-c][0-9]'", True),
        ("d2", "'[^a-c][[:digit:]]'", True),
        ("x[", "'x[[&^]'", True),
        ("]-%", "'[]a][a-]%'", True),
        ("a]", r"'a[\]]'", True),
        ("abc", "(('a%'))", True),
        ("abc", "N'a%'", True),
        ("abc", r"E'a\x25'", True),
        ("it's", "'it''_'", True),
        ("", "''", True),
        ("a", "''", False),
    ],
)
def test_values(session: Session, text: str, pattern: str, *, expected: bool) -> None:
    """A pattern matches as in PostgreSQL, for a constant and for a column, and NOT inverts it."""
    constant = text.replace("'", "''")
    for source in ("(VALUES (1)) AS o(n)", "people WHERE id <= 2 AND score > 0"):
        value = (
            f"concat('{constant}', substr('x', 1, 0))" if "VALUES" in source else f"'{constant}' || substr(note, 1, 0)"
        )
        sql = f"SELECT {value} SIMILAR TO {pattern} AS a, NOT {value} NOT SIMILAR TO {pattern} AS b FROM {source}"
        for row in ask(session, sql).rows:
            assert row == {"a": expected, "b": expected}


def test_rows(session: Session) -> None:
    """A condition keeps the rows that match; NULL is no match, and neither is NULL under NOT."""
    for condition, ids in (
        ("name SIMILAR TO '(A|E)%'", [1, 5, 7, 8]),
        ("name NOT SIMILAR TO '(A|E)%' AND id > 0", [2, 4, 9]),
        ("name SIMILAR TO '_n_' = flag", [1, 2, 5, 7, 8, 9]),
        ("name SIMILAR TO NULL IS NULL", list(range(1, 10))),
    ):
        found = ask(session, f"SELECT id FROM people WHERE {condition} ORDER BY id").rows
        assert [row["id"] for row in found] == ids, condition


def test_name(session: Session) -> None:
    """A column without an alias has the name that the client wrote."""
    (row,) = ask(session, "SELECT 'a' SIMILAR TO 'a%'").rows
    assert "~" not in next(iter(row))


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT name SIMILAR TO note FROM people", "SIMILAR TO at 1:13 takes a text literal as its pattern"),
        ("SELECT name SIMILAR TO 'a' || note FROM people", "takes a text literal"),
        ("SELECT name SIMILAR TO ('a' || note) FROM people", "takes a text literal"),
        ("SELECT name SIMILAR TO 'a' ESCAPE '!!' FROM people", "write one character after ESCAPE"),
        ("SELECT name SIMILAR TO 'a!' ESCAPE '!' FROM people", "the pattern ends in its escape character !"),
        ("SELECT name SIMILAR TO 'a[b' FROM people", r"a \[ in the pattern has no \]"),
    ],
)
def test_refused(session: Session, sql: str, said: str) -> None:
    """A pattern that is not a literal, or is malformed, is named with its place."""
    with pytest.raises(SqlError, match=said):
        session.execute(sql)


def test_leaves_alone() -> None:
    """Columns of the same names stay, and a rewritten text stays as it is."""
    sql = "SELECT similar, t.similar to FROM t"
    assert rewrite(ParsedText(sql), EMPTY).text == sql
    once = rewrite(ParsedText("SELECT a SIMILAR TO '%.'"), EMPTY).text
    assert once == r"SELECT a ~ '^(?s:.*\.)$'"
    assert rewrite(ParsedText(once), EMPTY).text == once
