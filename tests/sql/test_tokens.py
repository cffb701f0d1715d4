"""Tokens agree with DataFusion on quoting and keep exact offsets."""

import pytest
from datafusion import SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.errors import SqlError
from flightllm.sql.tokens import TokenKind, position, tokenize


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a=>b", [("word", "a"), ("symbol", "=>"), ("word", "b")]),
        (
            "f(x) -- c ( '\n, y",
            [*[("word", "f"), ("symbol", "("), ("word", "x"), ("symbol", ")")], ("symbol", ","), ("word", "y")],
        ),
        ("1 /* a /* ' */ ' */ + 2", [("number", "1"), ("symbol", "+"), ("number", "2")]),
        ('"a""b" `c d`', [("quoted", 'a"b'), ("quoted", "c d")]),
        ("'it''s \\'", [("string", "it's \\")]),
        ("E'it\\'s\\n' '\\n'", [("string", "it's\n"), ("string", "\\n")]),
        ("$$a'b$$ $t$ $$ $t$", [("string", "a'b"), ("string", " $$ ")]),
        (
            "X'AB' b'1' U&'x' N'n'",
            [("literal", "X'AB'"), ("literal", "b'1'"), ("literal", "U&'x'"), ("literal", "N'n'")],
        ),
        ("?::int", [("placeholder", "?"), ("symbol", "::"), ("word", "int")]),
        ("$1 $name ? a$b", [("placeholder", "$1"), ("placeholder", "$name"), ("placeholder", "?"), ("word", "a$b")]),
        ("EXPLAIN SELECT 1;", [("word", "EXPLAIN"), ("word", "SELECT"), ("number", "1"), ("symbol", ";")]),
        (
            "SELECT /*+ hint */ {# 'x' #}",
            [("word", "SELECT"), ("symbol", "{"), ("symbol", "#"), ("string", "x"), ("symbol", "#"), ("symbol", "}")],
        ),
        ("1 -- x\r + 1\n + 5", [("number", "1"), ("symbol", "+"), ("number", "5")]),
        ("", []),
    ],
)
def test_tokens(sql: str, expected: list[tuple[str, str]]) -> None:
    """Each lexical form is one token with its value."""
    assert [(token.kind.value, token.text) for token in tokenize(sql)] == expected


@pytest.mark.parametrize(
    ("sql", "where"),
    [("SELECT 'abc", "1:8"), ('SELECT\n  "abc', "2:3"), ("/* ' */ $$x", "1:9"), ("1 /* x", "1:3"), ("E'\\", "1:1")],
)
def test_unterminated(sql: str, where: str) -> None:
    """Text that ends inside quotes or a comment is an error that says where they begin."""
    with pytest.raises(SqlError, match=f"at {where}"):
        tokenize(sql)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("ab'\"\\`$-/*é \n"), max_size=8), min_size=1, max_size=4))
def test_strings_as_datafusion_reads_them(texts: list[str]) -> None:
    """Text literals have the values that DataFusion gives them."""
    literals = ["'" + text.replace("'", "''") + "'" for text in texts]
    sql = "SELECT " + ", ".join(f"{literal} AS c{index}" for index, literal in enumerate(literals))
    strings = [token.text for token in tokenize(sql) if token.kind is TokenKind.STRING]
    row = SessionContext().sql(sql).to_pylist()[0]
    assert strings == texts == list(row.values())


def test_offsets() -> None:
    """The source of every token is where it says, also after text beyond ASCII."""
    sql = "SELECT 'é日', \"b\" /* ü */ FROM t"
    assert [sql[token.start : token.end] for token in tokenize(sql)] == ["SELECT", "'é日'", ",", '"b"', "FROM", "t"]
    assert position("a\nbc", 3) == "2:2"


def test_parameters_are_no_dollar_quotes() -> None:
    """`$1,$2` are two parameters, wherever the next `$` stands; in texts and dollar quotes `$1` is text."""
    texts = [token.text for token in tokenize("($1,$2,$1) '$1,$2' $$5 $1, x$$ $t$5 $t$")]
    assert texts == ["(", "$1", ",", "$2", ",", "$1", ")", "$1,$2", "5 $1, x", "5 "]
