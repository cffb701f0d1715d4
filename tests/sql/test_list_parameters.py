"""Parameters that stand for lists."""

import pytest

from flightllm.sql.list_parameters import with_single_values
from flightllm.sql.parsed_text import ParsedText


@pytest.mark.parametrize(
    ("sql", "single", "lists"),
    [
        ("a = ANY($1) AND b <> all ( $3 )", "a = ($1) AND b <>  ( $3 )", {0, 2}),
        ("any($1)", "any($1)", set()),
        ("a = ANY($1::int[])", "a = ANY($1::int[])", set()),
        ("a = 'ANY($1)'", "a = 'ANY($1)'", set()),
    ],
)
def test_with_single_values(sql: str, single: str, lists: set[int]) -> None:
    """Only a parameter that a comparison takes as a list is one."""
    text, found = with_single_values(ParsedText(sql))
    assert text.sql == single
    assert found == lists
