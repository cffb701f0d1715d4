"""Joined texts of a group are those of DuckDB, which the tests have from DuckDB 2.0."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows

_GIVEN = "(VALUES (1, 'b', 2), (2, NULL, 2), (3, 'a', NULL), (4, 'b', 1)) v(id, s, n)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("group_concat(s ORDER BY id)", "b,a,b"),
        ("group_concat(DISTINCT s ORDER BY s DESC)", "b,a"),
        ("group_concat(n ORDER BY id)", "2,2,1"),
        ("listagg(s, '|' ORDER BY id) FILTER (WHERE id > 1)", "a|b"),
        ("listagg(s, '|') WITHIN GROUP (ORDER BY id DESC)", "b|a|b"),
        ("group_concat(s ORDER BY id SEPARATOR '; ')", "b; a; b"),
        ("group_concat(s) FILTER (WHERE id > 9)", None),
    ],
)
def test_values(session: Session, expression: str, value: object) -> None:
    """A separator is a comma if none is given; NULLs do not count."""
    assert rows(session, f"SELECT {expression} AS x FROM {_GIVEN}") == [{"x": value}]
