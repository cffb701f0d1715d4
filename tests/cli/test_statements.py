"""Texts of several statements."""

import pytest

from flightllm.cli.statements import located_statements, split_statements


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
        (".tables", [".tables"]),
        (".mode csv\nSELECT .5;\n.tables\nSELECT\n.7", [".mode csv", "SELECT .5", ".tables", "SELECT\n.7"]),
        ("-- only a comment", []),
        ("", []),
        ("SELECT 'open; SELECT 2;", ["SELECT 'open; SELECT 2;"]),
    ],
)
def test_split_statements(text: str, statements: list[str]) -> None:
    """Semicolons end statements, and lines end commands, but for those in a text, a name or a comment."""
    assert list(split_statements(text)) == statements


def test_lines() -> None:
    """Each statement and command has the line in which it begins, without the comments before it."""
    text = "\n\\d\n-- first\nSELECT 1; SELECT\n2;\n\n/* a;\n*/ .tables\n SELECT '\n'; SELECT 3"
    found = [(one.line, one.text) for one in located_statements(text)]
    assert [line for line, _ in found] == [2, 4, 4, 8, 9, 10]
    assert [one for _, one in found] == list(split_statements(text))
    assert [one.line for one in located_statements("SELECT 1;\nSELECT 'open")] == [1]
