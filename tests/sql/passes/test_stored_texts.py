"""Texts that a change stores in columns of bytes, arrays and intervals are read as in PostgreSQL 15."""

from collections.abc import Iterator

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import rows


@pytest.fixture
def stored(session: Session) -> Iterator[Session]:
    """Return a session with a table of one row, which has a key."""
    session.update(
        "CREATE TABLE stored (k int PRIMARY KEY, raw bytea, tags text[] DEFAULT '{}', ns int[], m int[][], i interval)"
    )
    session.update("INSERT INTO stored (k) VALUES (1)")
    yield session
    session.update("DROP TABLE stored")


_READ = "CAST(raw AS text) AS raw, tags, ns, m, CAST(i AS text) AS i"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (r"UPDATE stored SET raw = '\x4142', tags = '{a,b}'", {"raw": r"\x4142", "tags": ["a", "b"]}),
        (r"UPDATE stored SET (raw, ns) = ('\x', '{1,NULL}')", {"raw": r"\x", "tags": [], "ns": [1, None]}),
        (r"UPDATE stored SET raw = '\101' FROM (VALUES (1)) s(n) WHERE k = n", {"raw": r"\x41", "tags": []}),
        (r"UPDATE stored SET raw = '\\101'", {"raw": r"\x5c313031", "tags": []}),
        (r"UPDATE stored SET raw = E'\\x41'", {"raw": r"\x41", "tags": []}),
        (r"""UPDATE stored SET tags = '{"a,b",c d,"q\"x",""}'""", {"tags": ["a,b", "c d", 'q"x', ""]}),
        ("UPDATE stored SET m = '{{1,2},{3,4}}'", {"tags": [], "m": [[1, 2], [3, 4]]}),
        (
            "UPDATE stored SET i = '1 year 2 mons -3 days 04:05:06.7'",
            {"tags": [], "i": "1 year 2 mons -3 days +04:05:06.7"},
        ),
        ("UPDATE stored SET i = 'P1DT2H'", {"tags": [], "i": "1 day 02:00:00"}),
        ("UPDATE stored SET tags = DEFAULT", {"tags": []}),
        (
            "MERGE INTO stored USING (SELECT 1 AS n) s ON k = n WHEN MATCHED THEN UPDATE SET tags = '{z}'",
            {"tags": ["z"]},
        ),
        (
            "INSERT INTO stored (k, tags) VALUES (1, '{a}') ON CONFLICT (k) DO UPDATE SET tags = '{z,y}'",
            {"tags": ["z", "y"]},
        ),
        (
            "INSERT INTO stored (k, tags) VALUES (1, '{a}') ON CONFLICT (k) DO UPDATE SET tags = excluded.tags",
            {"tags": ["a"]},
        ),
    ],
)
def test_updates(stored: Session, change: str, wanted: dict[str, object]) -> None:
    """A literal is read as the type of its column."""
    stored.update(change)
    nothing = {"raw": None, "tags": None, "ns": None, "m": None, "i": None}
    assert rows(stored, f"SELECT {_READ} FROM stored") == [nothing | wanted]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (r"VALUES (2, '{a}', '\x41'), (3, NULL, NULL), (4, '{}', 'abc')", [(["a"], b"A"), (None, None), ([], b"abc")]),
        (r"VALUES (2, ARRAY['a'], '\x41'), (3, '{b,NULL}', X'42')", [(["a"], b"A"), (["b", None], b"B")]),
        (r"VALUES (2, DEFAULT, DEFAULT), (3, '{b}', '\x41')", [([], None), (["b"], b"A")]),
        (r"SELECT 2, '{z}', '\x41'", [(["z"], b"A")]),
        (r"SELECT 2 + count(*), '{z}', '\x41' FROM stored LIMIT 1", [(["z"], b"A")]),
        (r"SELECT k + 1, tags, '\x41' AS r FROM stored ORDER BY k", [([], b"A")]),
    ],
)
def test_inserts(stored: Session, change: str, wanted: list[tuple[object, object]]) -> None:
    """INSERT reads the literals of VALUES and SELECT."""
    stored.update(f"INSERT INTO stored (k, tags, raw) {change}")
    found = rows(stored, "SELECT tags, raw FROM stored WHERE k > 1 ORDER BY k")
    assert [(row["tags"], row["raw"]) for row in found] == wanted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE stored SET tags = 'a'", r"form of a value of type array"),
        ("UPDATE stored SET ns = '{a}'", r"Cannot cast string 'a'"),
        ("UPDATE stored SET ns = '{{1}}'", r"form of a value of type array"),
        ("UPDATE stored SET m = '{1}'", r"form of a value of type array"),
        (r"UPDATE stored SET raw = '\x4'", r"form of a value of type bytea"),
        ("UPDATE stored SET i = '1 fortnight'", r"form of a value of type interval"),
        ("UPDATE stored SET tags = upper('{a}')", r"is a text, but its column has the type VARCHAR\[\]"),
        ("UPDATE stored SET raw = name FROM people WHERE id = k", r"is a text, but its column has the type BYTEA"),
        ("INSERT INTO stored (k, tags) SELECT id, name FROM people", r"write ARRAY\[…\]"),
        ("INSERT INTO stored (k, tags) SELECT DISTINCT id, '{a}' FROM people", r"write ARRAY\[…\]"),
        ("CREATE TABLE other (tags text[] DEFAULT 'a')", r"form of a value of type array"),
    ],
)
def test_refused(stored: Session, change: str, said: str) -> None:
    """A text of another form, and another value that is a text, are refused as in PostgreSQL."""
    with pytest.raises(SqlError, match=said):
        stored.update(change)
