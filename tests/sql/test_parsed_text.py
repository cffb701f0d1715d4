"""A parsed text: what it finds, and how often a statement's text is split into tokens."""

from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.sql import parsed_text
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, tokenize
from tests.databases import SMALL, open_database


def test_one_text_is_one_object() -> None:
    """A text that a step leaves as it is stays the same object, and a statement carries it."""
    text = ParsedText("SELECT 1")
    assert text.replaced("SELECT 1") is text
    assert text.replaced("SELECT 2").sql == "SELECT 2"
    assert classify(text).whole is text
    assert classify(text).parsed_query is text
    assert classify(ParsedText("EXPLAIN SELECT 1 -- one")).parsed_query.sql == "SELECT 1"


def test_names_and_mentions() -> None:
    """Names leave out literals and comments; mentions are all words, and the empty one for names without words."""
    text = ParsedText("""SELECT A, 'b' FROM "my T" -- c""")
    assert text.names == {"select", "a", "from", "my t"}
    assert text.mentions == {"", "select", "a", "b", "from", "my", "t", "c"}


def test_unreadable_text() -> None:
    """An unclosed string is an error when tokens are asked for, not before."""
    text = ParsedText("SELECT 'a")
    with pytest.raises(SqlError, match="at 1:8"):
        _ = text.tokens


def test_marks() -> None:
    """Marks are symbols, neighbouring symbols joined, and the prefixes of literals."""
    assert ParsedText("f((a), N'x')").marks == {"(", "((", ")", ",", "),", "n'"}
    assert ParsedText("SELECT '(('").marks == frozenset()


@pytest.mark.parametrize(
    ("sql", "leads"),
    [
        ("SELECT a FROM t", False),
        ("SELECT (SELECT max(b) FROM u), c FROM t", False),
        ("FROM t", True),
        ("SELECT a FROM t UNION FROM u", True),
        ("DELETE FROM t", True),
    ],
)
def test_leading_from(sql: str, leads: bool) -> None:
    """A FROM leads where it follows the items of no SELECT."""
    assert ParsedText(sql).has_leading_from() == leads


@pytest.mark.parametrize(
    ("sql", "similar"),
    [
        ("SELECT a, b FROM t", False),
        ("SELECT * FROM t", False),
        ("SELECT a, A FROM t", True),
        ("SELECT a, *, b FROM t", True),
        ("SELECT a FROM t UNION SELECT a FROM u", False),
        ("FROM t |> SELECT a, b |> EXTEND b AS c", False),
        ("FROM t |> SELECT a, a |> EXTEND b AS c", True),
    ],
)
def test_similar_items(sql: str, similar: bool) -> None:
    """Items of one SELECT are similar where their last tokens are one name, or a star stands among them."""
    assert ParsedText(sql).has_similar_items() == similar


def test_a_text_is_split_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that runs a query splits its text once, and once more with values in place of parameters."""
    split: list[str] = []

    def counted(text: str) -> tuple[Token, ...]:
        split.append(text)
        return tokenize(text)

    sql = "SELECT name, ai_filter('x', note) FROM people"
    database = open_database(tmp_path)
    try:
        session = database.session()
        session.update(SMALL[0])
        monkeypatch.setattr(parsed_text, "tokenize", counted)
        assert sum(len(batch) for batch in session.execute(sql).batches) == 9
        assert split == [sql]
        split.clear()
        row = pa.record_batch([[3]], names=["0"])
        assert sum(len(batch) for batch in session.execute(f"{sql} WHERE id > ?", row).batches) == 6
        assert split == [f"{sql} WHERE id > ?", f"{sql} WHERE id > 3"]
    finally:
        database.close()
