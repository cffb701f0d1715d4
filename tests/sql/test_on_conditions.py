"""Calls in ON are told apart: first conditions, later conditions, and parts of conditions."""

import pytest

from flightllm.sql.on_conditions import OnConditions
from flightllm.sql.scopes import read_scopes
from flightllm.sql.source_tokens import SourceTokens
from flightllm.sql.tokens import tokenize


@pytest.mark.parametrize(
    ("condition", "first", "later", "joined"),
    [
        ("f(x) AND a = 1", True, False, True),
        ("f(x) OR a = 1", True, False, False),
        ("a = 1 AND (f(x))", False, True, None),
        ("a = f(x)", False, False, None),
    ],
)
def test_the_example(condition: str, first: bool, later: bool, joined: bool | None) -> None:
    """The table in the docstring of `OnConditions` holds."""
    sql = f"SELECT 1 FROM s JOIN t ON {condition}"
    tokens = tokenize(sql)
    source = SourceTokens(sql, tokens, read_scopes(sql, tokens).closing)
    conditions = OnConditions(source)
    call = next(at for at, token in enumerate(tokens) if token.is_word("f"))
    assert conditions.is_first(call) is first
    assert (not first and conditions.is_later(call)) is later
    if joined is not None:
        assert conditions.is_joined_by_and(source.after(call + 1)) is joined
