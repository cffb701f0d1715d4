"""Tokens agree with DataFusion on quoting and keep exact offsets."""

import random
from pathlib import Path

import pytest
from datafusion import SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.common.stopping import stopped_if
from flightllm.errors import CancelledError, SqlError
from flightllm.sql.generic_tokenizer import GenericTokenizer
from flightllm.sql.tokens import Token, TokenKind, position, tokenize
from tests.sql.slow_tokens import slow_tokens

_FOLDER = Path(__file__).parents[2]
_PIECES = (
    *(
        "a",
        "b1",
        "select",
        "x'",
        "X'1f'",
        "n'",
        "N'é'",
        "b'01'",
        "e'",
        "E'\\n'",
        "u&'",
        "U&",
        "U&'x'",
        "_",
        "1_0",
        "1a",
    ),
    *(
        "$",
        "$1",
        "$12",
        "$a",
        "$$",
        "$t$",
        "@",
        "@1",
        ":",
        ":a",
        "::",
        "?",
        "'",
        "''",
        '"',
        '""',
        "`",
        "--",
        "/*",
        "*/",
    ),
    *("/", "*", "\n", " ", "\t", "\r", "1", "0", "0x1f", "0b01", "1.5", "1.", "1e5", "1e", "1e-5", ".", "..", ",", "("),
    *(")", "[", "]", "{", "}", "{#", "#}", "#", "#>", "#>>", "&&", "&<", "->", "->>", "-|-", "-", "|>", "||", "<->"),
    *("<<->>", "<=>", "=>", ">=", "~~*", "~~~", "!", "!=", "\\", "%", "^", "+", ";", "é", "٣", "\u2118", "“", "\ufdd0"),
    *("\u00a0", "\u2003", "\x1c", "@x", "a$1", "a#b", "a@b", "²", "½"),
)


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


@settings(max_examples=60)
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


def _read(read: object, sql: str) -> list[Token] | str:
    try:
        return list(read(sql))  # type: ignore[operator]
    except SqlError:
        return "error"


def test_same_tokens_as_sqlglot() -> None:
    """The pattern and sqlglot read the same tokens from all SQL of the documentation and from random texts."""
    texts = [page.read_text() for page in (_FOLDER / "docs").rglob("*.md")]
    texts += [line for page in texts for line in page.splitlines()]
    chance = random.Random(5)  # noqa: S311 - no secrets
    texts += ["".join(chance.choices(_PIECES, k=chance.randint(1, 12))) for _ in range(12_000)]
    texts += ["".join(map(chr, chance.choices(range(9, 256), k=chance.randint(1, 10)))) for _ in range(4_000)]
    wrong = [sql for sql in texts if _read(tokenize.__wrapped__, sql) != _read(slow_tokens, sql)]
    assert not wrong[:5]


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1 IN (1,2.5,-3)", "VALUES (1,'it''s',\"a\"), ($1,?,`b`)", "SELECT a.b[1]::int -- c", "[][] /* a */ = 'é'"],
)
def test_usual_forms_in_native_code(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The forms that long texts consist of need no step of sqlglot's tokenizer."""
    steps: list[int] = []
    monkeypatch.setattr(GenericTokenizer, "read", lambda _, at, **__: steps.append(at))
    assert tokenize.__wrapped__(sql)
    assert not steps


def test_reading_stops() -> None:
    """Reading a long text ends soon after nobody waits for it."""
    looks: list[int] = []

    def stopped() -> bool:
        looks.append(1)
        return len(looks) == 2

    with stopped_if(stopped), pytest.raises(CancelledError):
        tokenize("SELECT " + "1," * 100_000)
    assert len(looks) == 2
