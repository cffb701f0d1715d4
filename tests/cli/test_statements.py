"""Texts of several statements."""

import pytest

from flightllm.cli.statements import split_statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        (" SELECT 1 ;\n", ["SELECT 1"]),
        (" ; ", []),
        ("SELECT 1;\nSELECT 2 ; ", ["SELECT 1", "SELECT 2"]),
        (";; SELECT ';' ; -- a; b\n/* c; */ ;", ["SELECT ';'"]),
        ('SELECT 1 AS "a;b"; SELECT $$;$$', ['SELECT 1 AS "a;b"', "SELECT $$;$$"]),
        ("\\d\n\\d it's\nSELECT 1;\\df\nSELECT '\n\\d';", ["\\d", "\\d it's", "SELECT 1", "\\df", "SELECT '\n\\d'"]),
        ("SELECT 1;\n\\d\n" * 3000, ["SELECT 1", "\\d"] * 3000),
        ("-- only a comment", []),
        ("", []),
        ("SELECT 'open; SELECT 2;", ["SELECT 'open; SELECT 2;"]),
    ],
)
def test_split_statements(text: str, statements: list[str]) -> None:
    """Semicolons end statements, and lines end commands, but for those in a text, a name or a comment."""
    assert list(split_statements(text)) == statements
