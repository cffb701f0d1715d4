"""Texts of several statements."""

import pytest

from flightllm.cli.statements import split_statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT 2 ; ", ["SELECT 1", "SELECT 2"]),
        (";; SELECT ';' ; -- a; b\n/* c; */ ;", ["SELECT ';'"]),
        ('SELECT 1 AS "a;b"; SELECT $$;$$', ['SELECT 1 AS "a;b"', "SELECT $$;$$"]),
        ("-- only a comment", []),
        ("", []),
        ("SELECT 'open; SELECT 2;", ["SELECT 'open; SELECT 2;"]),
    ],
)
def test_split_statements(text: str, statements: list[str]) -> None:
    """A semicolon in a text, a name or a comment ends nothing; a text that cannot be read stays whole."""
    assert list(split_statements(text)) == statements
