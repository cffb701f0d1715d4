"""How deep and how large a plan is, from the tokens of its text."""

from functools import partial

import pytest

from flightllm.sql.complexity import measure
from flightllm.sql.tokens import tokenize
from tests.counting import steps


@pytest.mark.parametrize(
    ("sql", "deepest", "total"),
    [
        ("SELECT a", 0, 0),
        ("SELECT a + b, f(c AND d) FROM t JOIN u", 18, 21),
        ("SELECT a + b + c, d", 4, 5),
        ("SELECT f(a + b, c + d + e) + g", 6, 8),
        ("SELECT 1 FROM (SELECT 1 FROM t, u) WHERE a = 1 AND b", 20, 20),
        ("SELECT 1 UNION SELECT 1 INTERSECT SELECT 1", 24, 24),
        ("WITH v AS (SELECT 1) SELECT a OVER (ORDER BY a) FROM v |> WHERE a", 24, 24),
        ("VALUES (1, 2), (3, 4)", 0, 1),
    ],
)
def test_weights(sql: str, deepest: int, total: int) -> None:
    """Only the heaviest item of a list is in the deepest path; the total has all of them."""
    found = measure(tokenize(sql))
    assert (found.deepest, found.total) == (deepest, total)


def test_nesting() -> None:
    """Parentheses, queries and conditions of CASE are counted at the deepest place."""
    found = measure(tokenize("SELECT (SELECT CASE WHEN CASE WHEN a THEN (b) END THEN c END), CUBE (a, b, c), ((a))"))
    assert (found.nested_parentheses, found.nested_queries, found.nested_conditions) == (4, 2, 2)
    assert found.cube_columns == 3
    assert found.longest_list == 2


def test_many_open_scopes() -> None:
    """The steps grow with the length of a text, also where each scope is inside the one before."""
    one, four = (tokenize("CASE WHEN " * count + "(SELECT " * count) for count in (200, 800))
    assert measure(four).nested_conditions == 800
    assert steps(partial(measure, four)) < 5 * steps(partial(measure, one))


def test_heaviest() -> None:
    """What adds most is named: one join weighs as much as eight operators."""
    assert measure(tokenize("SELECT a + b + c FROM t JOIN u")).heaviest == "joins"
    assert measure(tokenize("SELECT a" + " + b" * 9 + " FROM t JOIN u")).heaviest == "operators"


def test_unbalanced() -> None:
    """A text with too many or too few parentheses is measured too."""
    assert measure(tokenize("SELECT a + b)) + c")).deepest == measure(tokenize("SELECT ((a + b")).deepest + 2
