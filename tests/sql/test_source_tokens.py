"""Brackets count as one step between tokens, and texts are the source."""

from flightllm.sql.scopes import read_scopes
from flightllm.sql.source_tokens import SourceTokens, TokenRange
from flightllm.sql.tokens import tokenize

SQL = "f(a, g(b)) c"


def source() -> SourceTokens:
    """Return the tokens of the example."""
    tokens = tokenize(SQL)
    return SourceTokens(SQL, tokens, read_scopes(SQL, tokens).closing)


def test_the_example() -> None:
    """The table in the docstring of `SourceTokens` holds."""
    found = source()
    assert [found.before(at) for at in range(10)] == [-1, 0, 1, 2, 3, 4, 5, 4, 0, 8]


def test_brackets_around_tokens() -> None:
    """The innermost bracket around a token is found; tokens outside brackets have no such bracket."""
    assert [source().bracket_around(at) for at in (0, 2, 4, 6, 9)] == [None, 1, 1, 5, None]


def test_calls_and_texts() -> None:
    """Names before parentheses are calls; the text of a span includes the white space between its tokens."""
    found = source()
    assert list(found.calls(TokenRange(0, 9))) == [0, 4]
    assert found.text(TokenRange(2, 8)) == "a, g(b)"
    assert not TokenRange(3, 3)
