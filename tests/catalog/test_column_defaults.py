"""The DEFAULT of each column in the text of CREATE TABLE."""

from flightllm.catalog.column_defaults import defaults_in

_LIST = """(
    a STRUCT<x INT, y INT> DEFAULT NULL, b ARRAY<ARRAY<INT>> DEFAULT [[1, 2], [3]],
    n NUMERIC(10, 2) DEFAULT 1 NOT NULL, t TEXT DEFAULT concat('a, b', 'c') UNIQUE, -- c, DEFAULT 5
    s TEXT DEFAULT 'x, default y' /* a, DEFAULT b */, "Q" MAP<TEXT, INT>, c INT[] DEFAULT ARRAY[1, 2],
    e STRUCT<"default" INT, default INT> DEFAULT {'a': 1, 'b': 2}, d INT, PRIMARY KEY (n, t)
)"""


def test_defaults() -> None:
    """Commas in types, calls, lists, texts and comments end no column, and a field is no column."""
    assert defaults_in(_LIST) == {
        "a": "NULL",
        "b": "[[1, 2], [3]]",
        "n": "1",
        "t": "concat('a, b', 'c')",
        "s": "'x, default y'",
        "c": "ARRAY[1, 2]",
        "e": "{'a': 1, 'b': 2}",
    }
    assert defaults_in("()") == defaults_in("(a INT)") == {}
