"""The check of language: it finds sentences that need two readings, and no folder has a finding."""

import re
from pathlib import Path

import pytest

from tests.plain_english import MOST_WORDS, PATTERNS, PLAIN, ROOT, find, main

BAD = {
    "may": "A client may cancel the query.",
    "alone": "Admins alone can drop a model.",
    "but for": "All columns but for the key are text.",
    "the very": "A prompt that asks the very same is not sent.",
    "archaic": "The index is built anew.",
    "be given up": "The upload is given up after a minute.",
    "let go": "The policy lets go the oldest block.",
    "found out": "The delimiter is found out from the file.",
    "be said": "Nothing is said of the length.",
    "be had": "A lost event cannot be had again.",
    "come to nothing": "The request came to nothing.",
    "tell of": "The engine tells of its cache.",
    "stand": "A comma stands between two columns.",
    "verb, then not": "Drop columns that the query reads not.",
    "has not a": "The table has not a key.",
    "is no": "The text is no JSON.",
    "none": "Return the table, or None where there is none.",
    "is one": "Read a tuple where it is one.",
    "without one": "Return the default without one.",
    "such": "Return False where the machine has no such.",
    "so long": "Wait for so long.",
    "one call more": "This costs one call more.",
    "possessive without a noun": "The engine is the server's.",
    "whose it is": "Return whose it is.",
    "of whose": "Order a table all of whose columns are fields.",
    "whoever": "Whoever holds the lock must release it.",
    "who without a noun": "Return the name of who started it.",
    "tell whether": "Tell whether the lock is held.",
    "what as a subject": "What a query reads.",
    "what there is": "Return what there is to say.",
    "by what": "Rank blocks by what waits.",
    "comma, that": "Return the rows of a query, whose order is fixed, that have a value.",
    "is to be": "The block is to be evicted.",
}
"""A sentence for each tell-tale, which holds only this one."""
GOOD = (
    "Return the rows that match, or None if the table is empty.",
    "There is no table with this name.",
    "A user who sends the same prompt pays once.",
    "The column has not changed since the last read.",
    "The file is left alone.",
    "The two calls stand in for one that fails.",
    "If the query fails, that error is returned.",
    "Wait so long that every client has read its rows.",
    "Columns such as `name` are text.",
    "The value is no longer used.",
    "Return the one that comes first; it need not be unique.",
    "Return None of no column.",
    "It's not a file.",
    "The engine's cache is full.",
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return the path of a Python file to be written."""
    return tmp_path / "module.py"


def names(path: Path) -> list[str]:
    """Return the tell-tales found in a file or folder."""
    return [finding.name for finding in find(path)]


def test_each_tell_tale_has_a_bad_sentence() -> None:
    """No pattern is without an example of what it finds."""
    assert {pattern.name for pattern in PATTERNS} == set(BAD)


@pytest.mark.parametrize(("name", "sentence"), BAD.items(), ids=list(BAD))
def test_bad_sentences(source: Path, name: str, sentence: str) -> None:
    """A sentence that needs two readings is found in a docstring, by its own tell-tale only."""
    source.write_text(f'"""{sentence}"""\n', encoding="utf-8")
    assert names(source) == [name]


@pytest.mark.parametrize("sentence", GOOD)
def test_good_sentences(source: Path, sentence: str) -> None:
    """Plain sentences have no finding, wherever they are."""
    source.write_text(f'"""{sentence}"""\n\n# {sentence}\nx = 1\nraise ValueError("{sentence}")\n', encoding="utf-8")
    assert names(source) == []


def test_places(source: Path) -> None:
    """Docstrings of modules, classes, functions and attributes are read, and comments and messages, by their lines."""
    source.write_text(
        '"""It may."""\n\nX = 1\n"""The first.\n\n    This\n    may.\n"""\n'
        'class A:\n    """A may."""\n\n    def f(self):\n        """F may."""\n'
        '        # A long\n        # comment may.\n        raise ValueError(f"column {self} may be {X} here")\n',
        encoding="utf-8",
    )
    assert [finding.line for finding in find(source)] == [1, 7, 10, 13, 15, 16]


def test_code_is_not_read(source: Path) -> None:
    """Names in backquotes, examples, SQL, plans, commands, short strings and linters' directives are not prose."""
    source.write_text(
        '"""Return `may` of `a, or\nmay`.\n\n        it may\n    >>> it(may)\n"""\n'
        'def f():\n    """Show.\n\n    \b\n    tool may\n    it may\n\n    a may  →  b\n    SELECT may\n\n'
        '        it(may)\n    """\n'
        'sql = "SELECT may FROM t WHERE a AND b"\nkey = "may"\nx = 1  # noqa: may\n',
        encoding="utf-8",
    )
    assert names(source) == []


def test_indented_prose_is_read(source: Path) -> None:
    """An indented block is prose unless it looks like code; so is a line whose `→` has one space before it."""
    source.write_text(
        'def f():\n    """Run.\n\n        It may run.\n\n    It may map a → b.\n\n        python -m it may\n    """\n',
        encoding="utf-8",
    )
    assert [finding.line for finding in find(source)] == [4, 6]


def test_errors_are_read(source: Path) -> None:
    """All lines of an entry of `Raises:` are prose, whatever their indentation."""
    source.write_text(
        'def f():\n    """Run.\n\n    Raises:\n        A: it fails, or\n            it may.\n    """\n',
        encoding="utf-8",
    )
    assert [finding.line for finding in find(source)] == [6]


def test_pages_and_configurations(tmp_path: Path) -> None:
    """Text of a page is read without code, links and generated parts; of a configuration, the comments."""
    (tmp_path / "a.md").write_text(
        "# It may\n\n```sh\nmay\n```\n[a](may.md) <!-- may --> `may`\n\n"
        "<!-- begin x -->\nmay\n<!-- end x -->\n| a | may |\n",
        encoding="utf-8",
    )
    (tmp_path / "b.toml").write_text('a = "may"  # may\n# first,\n# it may\n# may = 1\n', encoding="utf-8")
    (tmp_path / "c.bin").write_bytes(b"\xff may")
    assert [(finding.path.name, finding.line) for finding in find(tmp_path)] == [
        ("a.md", 1),
        ("a.md", 11),
        ("b.toml", 1),
        ("b.toml", 3),
    ]


def test_long_sentences(source: Path) -> None:
    """A docstring's sentence has at most 25 words, of which code in backquotes is one; a message can be longer."""
    words = "word " * (MOST_WORDS - 1)
    source.write_text(f'"""{words}`a b c`."""\nx = "{words * 2}"\n', encoding="utf-8")
    assert names(source) == []
    source.write_text(f'"""{words}`a b c` more."""\n', encoding="utf-8")
    assert names(source) == [f"{MOST_WORDS + 1} words"]


def test_command(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints a line for each finding, with a count of each tell-tale, and fails if there is a finding."""
    source.write_text('"""Return one of\nwhat may."""\n', encoding="utf-8")
    assert main([str(source)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{source}:2: may: Return one of what may.",
        "     1 may → `can` for ability, `must not` for a ban",
    ]
    source.write_text('"""Return one."""\n', encoding="utf-8")
    assert main([str(source)]) == 0
    assert capsys.readouterr().out == ""


def test_tables_have_a_line_for_each_row() -> None:
    """No docstring has a table whose rows were joined into one line."""
    files = (path for name in PLAIN for path in (ROOT / name).rglob("*.py"))
    assert [path for path in files if re.search(r"\|[ ]+\|-{3}", path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("name", PLAIN)
def test_plain_places_stay_plain(name: str) -> None:
    """A file or folder that the check reads exists, and has no finding."""
    assert (ROOT / name).exists()
    assert "\n".join(map(str, find(ROOT / name))) == ""
