"""The texts have the rows that PostgreSQL gave; the list of those that differ is right in both directions.

`python -m tests.sql.reference` writes the rows and the list. A text that was right must stay right. A text that became
right must leave the list.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.sql.reference.answers import DIFFERENCES, ROWS, Given, Text, difference, read, written
from tests.sql.reference.kinds import KINDS, REFUSED, generated, rows_of, texts
from tests.sql.reference.ours import listed, our_session, outcome, written_list
from tests.sql.reference.values import canonical, duration, equal, equal_spans, interval

SLOW = {
    "arithmetic": 6,
    "arrays": 2,
    "casts": 4,
    "comparisons": 8,
    "estimates": 6,
    "grouping": 2,
    "intervals": 3,
    "joins": 3,
    "lists_and_rows": 4,
    "logic": 4,
    "nested_subqueries": 8,
    "number_functions": 2,
    "operators": 4,
    "placed_subqueries": 30,
    "row_changes": 6,
    "subqueries": 6,
    "subquery_changes": 16,
    "subquery_forms": 3,
}
"""Kinds of many texts, or of slow ones; a normal run takes each third, second or so of their texts."""
PARTS = [
    *((kind, SLOW.get(kind, 1)) for kind in KINDS),
    *(pytest.param(kind, 1, marks=pytest.mark.slow) for kind in SLOW),
]
ENOUGH = 1_500


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Return a session of a database with the tables of the texts."""
    with our_session() as session:
        yield session


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], str]:
    """Return the listed outcomes."""
    return listed()


@pytest.mark.parametrize(("kind", "step"), PARTS)
def test_rows(session: Session, known: dict[tuple[str, str], str], kind: str, step: int) -> None:
    """Each text has PostgreSQL's rows, or the outcome that the list has for it."""
    changed = []
    for text in read(rows_of(kind))[::step]:
        found, why = outcome(session, text)
        due = known.get((kind, text.sql), "same")
        if found != due:
            changed.append(f"{text.sql}\n was {due}, is {found}: {why}")
    assert not changed, "\n\n".join([*changed, "If all of this is meant: python -m tests.sql.reference"])


def test_list(known: dict[tuple[str, str], str]) -> None:
    """Each line of the list is about a text of a file, in the list's order."""
    there = {(kind, text.sql) for kind in KINDS for text in read(rows_of(kind))}
    assert set(known) <= there
    assert set(known.values()) <= {"refused", "wrong", "accepted", "crashed"}
    assert DIFFERENCES.read_text(encoding="utf-8") == written_list([(known[key], *key) for key in sorted(known)])


@pytest.mark.parametrize("kind", KINDS)
def test_files(kind: str) -> None:
    """A file has the texts of its kind in their order, and is as the command writes it."""
    path = rows_of(kind)
    there = read(path)
    assert written(there) == path.read_text(encoding="utf-8")
    left = [text.sql for text in there]
    asked = [sql for sql in texts(kind) if sql in set(left)] if generated(kind) else list(texts(kind))
    assert left == asked
    assert all(text.given.error for text in there) == (kind == REFUSED)


def test_enough() -> None:
    """There are texts of every kind, and a file for each kind only."""
    counts = {kind: len(read(rows_of(kind))) for kind in KINDS}
    assert min(counts.values()) >= 40
    assert sum(counts.values()) >= ENOUGH
    assert sorted(path.stem for path in ROWS.iterdir()) == KINDS


ONE = Given((("x", "int"), ("t", "text")), (("1", "'a'"), ("2", "NULL")))


@pytest.mark.parametrize(
    ("found", "sql", "problem"),
    [
        (ONE, "SELECT", ""),
        (Given(ONE.columns, ONE.rows[::-1]), "SELECT", ""),
        (Given(ONE.columns, ONE.rows[::-1]), "SELECT x FROM a ORDER BY x", "rows"),
        (Given(ONE.columns, ONE.rows[::-1]), "SELECT f(x) OVER (ORDER BY x)", ""),
        (Given(ONE.columns, (*ONE.rows, ONE.rows[0])), "SELECT", "rows"),
        (Given(ONE.columns, (("1", "'a'"), ("1", "'a'"))), "SELECT", "rows"),
        (Given(ONE.columns, (("1", "'a'"), ("2", "'NULL'"))), "SELECT", "rows"),
        (Given((("x", "float"), ("t", "text")), (("1.0000000001", "'a'"), ("2", "NULL"))), "SELECT", ""),
        (Given((("x", "int"), ("t", "text")), (("1.0000000001", "'a'"), ("2", "NULL"))), "SELECT", "rows"),
        (Given((("x", "bool"), ("t", "text")), ONE.rows), "SELECT", "type bool, not int"),
        (Given((("y", "int"), ("t", "text")), ONE.rows), "SELECT", "name y, not x"),
        (Given((("x + 1", "int"), ("t", "text")), ONE.rows), "SELECT", ""),
        (Given(ONE.columns[:1], (("1",), ("2",))), "SELECT", "1 columns, not 2"),
    ],
)
def test_difference(found: Given, sql: str, problem: str) -> None:
    """Rows are compared by their values, in their order only if the text has one, with types and names."""
    assert difference(Text(sql, found), Text(sql, ONE)) == problem


def test_difference_of_changes() -> None:
    """A change is compared by its count and by the table after it."""
    wanted = Text("DELETE", Given(), 1, ONE)
    assert difference(Text("DELETE", Given(), 1, ONE), wanted) == ""
    assert difference(Text("DELETE", Given(), 2, ONE), wanted) == "2 rows changed, not 1"
    assert difference(Text("DELETE", Given(), 1, Given(ONE.columns)), wanted) == "rows"


def test_written_and_read(tmp_path: Path) -> None:
    """A file gives back what was written, whatever the values contain."""
    hard = [canonical(one, "text") for one in ("a | b", "\n\n", "\\", "", "NULL", "count: 1")]
    rows = tuple((one, "NULL") for one in hard)
    every = [
        Text("A", Given((("a b", "text"), ("c", "int[]")), rows)),
        Text("B", Given(), 2, ONE),
        Text("C", Given(error="1 x")),
    ]
    path = tmp_path / "rows.txt"
    path.write_text(written(every), encoding="utf-8")
    assert read(path) == every


def test_intervals() -> None:
    """Intervals are written as PostgreSQL writes them."""
    assert interval(14, 3, 14_706_500_000) == "1 year 2 mons 3 days 04:05:06.5"
    assert interval(-1, 1, -1) == "-1 mons +1 day -00:00:00.000001"
    assert interval(0, -1, 1_000_000) == "-1 days +00:00:01"
    assert interval(0, 0, 0) == "00:00:00"
    assert duration(-90_000_000_000) == "-1 days -01:00:00"


@pytest.mark.parametrize(
    ("left", "right", "spans"),
    [
        ("1 day", "24:00:00", True),
        ("1 mon", "30 days", True),
        ("1 year -1 days +00:00:01.5", "11 mons 29 days 00:00:01.5", True),
        ("-1 days -02:00:00", "-26:00:00", True),
        ("1 day", "24:00:01", False),
        ("NULL", "00:00:00", False),
    ],
)
def test_spans(left: str, right: str, spans: bool) -> None:
    """Intervals of one length are equal for the judge of random queries, and never for the files."""
    assert equal_spans(left, right, "interval", "interval") == spans
    assert not equal(left, right, "interval", "interval")
