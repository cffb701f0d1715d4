"""Operators are grouped as in PostgreSQL."""

import pytest

from flightllm.errors import SqlError
from flightllm.sql.nodes import Json, body, kind
from flightllm.sql.operators import GROUP
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.regrouping import regrouped
from flightllm.sql.tree import Tree, parse


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
        ("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c"),
        ("x AND a IS NOT DISTINCT FROM b OR c", "(x AND (a IS NOT DISTINCT FROM b)) OR c"),
        ("a IS DISTINCT FROM b = c", "a IS DISTINCT FROM (b = c)"),
        ("a = b IS DISTINCT FROM c", "(a = b) IS DISTINCT FROM c"),
        ("a IS DISTINCT FROM b IN (1) AND c", "(a IS DISTINCT FROM (b IN (1))) AND c"),
        ("a LIKE b IS DISTINCT FROM c", "(a LIKE b) IS DISTINCT FROM c"),
        ("a IS DISTINCT FROM b LIKE c", "a IS DISTINCT FROM (b LIKE c)"),
        ("a IS DISTINCT FROM b BETWEEN 1 AND 2 AND c", "(a IS DISTINCT FROM (b BETWEEN 1 AND 2)) AND c"),
        ("a IS DISTINCT FROM NOT b = c AND d", "(a IS DISTINCT FROM (NOT (b = c))) AND d"),
        ("a <=> b OR a ~~* b OR a IS DISTINCT FROM b OR c", "((a <=> b OR a ~~* b) OR (a IS DISTINCT FROM b)) OR c"),
        ("a IS DISTINCT FROM -b + 1 AND c", "(a IS DISTINCT FROM ((-b) + 1)) AND c"),
        ("a LIKE b = c", "(a LIKE b) = c"),
        ("a = b IN (1)", "a = (b IN (1))"),
        ("a || b * c ^ d", "a || (b * (c ^ d))"),
        ("a + b || c", "(a + b) || c"),
        ("a | b & c @> d = e", "((((a | b) & c) @> d) = e)"),
        ("a = b @> c", "a = (b @> c)"),
        ("x BETWEEN 1 AND 2 = y BETWEEN 3 AND 4", "(x BETWEEN 1 AND 2) = (y BETWEEN 3 AND 4)"),
        ("- a ^ b * c", "((- a) ^ b) * c"),
        ("a = ANY (b) IS NULL", "(a = ANY (b)) IS NULL"),
        ("CASE WHEN a IS DISTINCT FROM b OR c THEN d END", "CASE WHEN (a IS DISTINCT FROM b) OR c THEN d END"),
    ],
)
def test_groups(sql: str, meant: str) -> None:
    """The tree has the precedence of PostgreSQL, whose parentheses the second text writes."""
    assert _shape(_tree(f"SELECT {sql}")) == _shape(_tree(f"SELECT {meant}"))


@pytest.mark.parametrize("sql", ["a < b < c", "a = b = c", "a LIKE b LIKE c", "a IS DISTINCT FROM b IS NULL"])
def test_two_in_a_row(sql: str) -> None:
    """Two operators in a row without a meaning in PostgreSQL are refused with their place."""
    with pytest.raises(SqlError, match="1:8"):
        _tree(f"SELECT {sql}")


def test_long_chains() -> None:
    """A chain of many operators is read in time that grows with its length."""
    assert _shape(_tree(f"SELECT {' AND '.join(['a LIKE b = c'] * 90)}")) == _shape(
        _tree(f"SELECT {' AND '.join(['(a LIKE b) = c'] * 90)}")
    )


def _tree(sql: str) -> Tree:
    found = parse(ParsedText(sql))
    assert found is not None
    return found.rebuilt(lambda node: regrouped(node, found.position))


def _shape(found: Tree) -> Json:
    """Return a tree without places and parentheses."""

    def plain(value: Json) -> Json:
        if isinstance(value, dict):
            if kind(value) in {"Nested", GROUP}:
                return plain(body(value))
            return {key: plain(part) for key, part in value.items() if key not in {"span", "select_token"}}
        return [plain(part) for part in value] if isinstance(value, list) else value

    return plain(found.root)
