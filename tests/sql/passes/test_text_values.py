"""Texts of values are those of PostgreSQL."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import ask, rows, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with a table that has a column of each type."""
    database = small_database(Path(tmp_path_factory.mktemp("data")))
    session = database.session()
    session.update(
        "CREATE TABLE t (d double precision, at timestamp, seen timestamptz, o time, y bytea, l int[], w text[],"
        " lasted interval, b boolean, x double precision[])"
    )
    session.update(
        "INSERT INTO t VALUES (2, '2024-01-05 08:00:00.50', '2024-01-05 08:00:00.50+01', '08:00:00.5', X'6100',"
        " ARRAY[1, NULL], ARRAY['a b', 'c'], interval '1 month 2 hours', true, ARRAY[1.5])"
    )
    yield session
    database.close()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("d::text", "2"),
        ("at::text", "2024-01-05 08:00:00.5"),
        ("CAST(at::date AS varchar)", "2024-01-05"),
        ("TRY_CAST(seen AS text)", "2024-01-05 07:00:00.5+00"),
        ("(seen AT TIME ZONE 'Asia/Tokyo')::text", "2024-01-05 16:00:00.5"),
        ("o::text", "08:00:00.5"),
        ("y::text", r"\x6100"),
        ("l::text", "{1,NULL}"),
        ("w::text", '{"a b",c}'),
        ("lasted::varchar(5)", "1 mon"),
        ("(at - timestamp '2024-01-01')::text", "4 days 08:00:00.5"),
        ("(at::date + interval '1 hour')::text", "2024-01-05 01:00:00"),
        ("'at ' || at", "at 2024-01-05 08:00:00.5"),
        ("d || ''", "2"),
        ("concat(b, d, o)", "t208:00:00.5"),
        ("concat_ws('/', d, NULL, b)", "2/t"),
        ("1.50::text", "1.50"),
        ("'1.50'::numeric::text || ' ' || l[1]::numeric || ' ' || d::numeric", "1.50 1 2"),
        ("CAST(-1.50 AS text) || 1e3", "-1.501000"),
        ("'it is ' || ai_gen('Say ?', d::text) IS NOT NULL", True),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A cast, an operand of `||` and an argument of `concat` have PostgreSQL's text."""
    assert ask(session, f"SELECT {value} AS v FROM t").table.to_pylist() == [{"v": wanted}]


def test_changes_and_views(session: Session) -> None:
    """Changes, their conditions and views have these texts, too."""
    session.update("CREATE TABLE u (v text)")
    session.update("INSERT INTO u SELECT at::text FROM t WHERE at::text LIKE '% 08%'")
    session.update("CREATE VIEW seen_texts AS SELECT d::text AS v FROM t")
    assert rows(session, "SELECT v FROM u UNION ALL SELECT v FROM seen_texts ORDER BY v") == [
        {"v": "2"},
        {"v": "2024-01-05 08:00:00.5"},
    ]
    assert session.update("UPDATE u SET v = (SELECT max(lasted)::text FROM t) WHERE v LIKE '2024%'") == 1
    assert session.update("DELETE FROM u WHERE v = (SELECT max(lasted)::text FROM t)") == 1


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("'Costs ' || d", r"fields \(d = c\d\)"),
        ("concat('Costs ', d, ' at ', at)", r"fields \(d = c\d, at = c\d\)"),
        ("PROMPT('Costs {0}', d)", r"fields \(d = c\d\)"),
        ("'a' || d::text", "__double_text"),
    ],
)
def test_prompts(session: Session, prompt: str, wanted: str) -> None:
    """The values of a joined prompt are still fields with their names; a cast in it has PostgreSQL's text."""
    for function in ("ai_gen", "llm"):
        plan = ask(session, f"EXPLAIN SELECT {function}({prompt}), d::text FROM t").table["plan"].to_pylist()
        assert re.search(wanted, "\n".join(plan))


def test_refused(session: Session) -> None:
    """An array whose elements have other texts is refused with what to write instead."""
    with pytest.raises(UnsupportedError, match=r"the array at 1:8 .* write array_to_string"):
        ask(session, "SELECT x::text FROM t")


@pytest.mark.parametrize("sql", ["SELECT i::text FROM t", "SELECT 'a' || 'b'", "SELECT '2024-01-01'::timestamp"])
def test_other_texts_stay(sql: str) -> None:
    """A text without such a value stays."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))


def test_signs(session: Session) -> None:
    """Two minus signs are none, and a zero has none."""
    sql = "SELECT (-(-1))::text AS a, 'x' || -(-1.10) AS b, CAST(-0 AS text) AS c, (-1.50)::text AS d"
    assert ask(session, sql).rows == [{"a": "1", "b": "x1.10", "c": "0", "d": "-1.50"}]


def test_lists_of_functions(session: Session) -> None:
    """The types of lists that functions give are known."""
    sql = "SELECT array_remove(ARRAY[1, 2], 2)::text AS a, array_append(ARRAY[1], 3)::text AS b"
    assert ask(session, sql).rows == [{"a": "{1}", "b": "{1,3}"}]


@pytest.mark.parametrize(
    ("item", "value", "wanted"),
    [
        ("?::text", datetime(2024, 1, 5, 8, 0, 0, 500000), "2024-01-05 08:00:00.5"),  # noqa: DTZ001
        ("$1::text", datetime(2024, 1, 5, 8, tzinfo=UTC), "2024-01-05 08:00:00+00"),
        (":v::text", time(8, 0, 0, 500000), "08:00:00.5"),
        ("$v || ''", 2.0, "2"),
        ("concat(?, '!')", True, "t!"),
        ("CAST(? AS text)", [1, None], "{1,NULL}"),
        ("?::text", b"a", r"\x61"),
        ("?::int", 2.5, 2),
        ("?::int", "2", 2),
    ],
)
def test_parameters(session: Session, item: str, value: object, wanted: object) -> None:
    """The value of a parameter has PostgreSQL's text, and is rounded as PostgreSQL does."""
    given = pa.RecordBatch.from_pydict({"v": [value]})
    assert ask(session, f"SELECT {item} AS r", given).table.to_pylist() == [{"r": wanted}]


def test_parameters_of_a_change(session: Session) -> None:
    """The values that rows of parameters store fit their columns, too."""
    session.update("CREATE TABLE stored (n int, w text)")
    values = pa.table({"n": [1.5, 2.5], "w": [datetime(2024, 1, 5, 8)] * 2})  # noqa: DTZ001
    session.update("INSERT INTO stored VALUES (?, ?::text)", values)
    session.update("INSERT INTO stored (n) VALUES (?)", values.select(["n"]))
    at = "2024-01-05 08:00:00"
    found = [(row["n"], row["w"]) for row in rows(session, "SELECT * FROM stored")]
    assert found == [(2, at), (2, at), (2, None), (2, None)]


def test_arrays_of_parameters_are_refused(session: Session) -> None:
    """The error for an array whose text would differ says where its parameter is."""
    with pytest.raises(UnsupportedError, match=r"the array at 1:8 has elements"):
        ask(session, "SELECT ?::text AS r", pa.RecordBatch.from_pydict({"v": [[1.5]]}))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("age(TIMESTAMP '2024-03-01', TIMESTAMP '2022-11-15 10:00:00')::text", "1 year 3 mons 15 days 14:00:00"),
        ("CAST(0.1::float AS text)", "0.1"),
        ("round(1.005, 2)::text", "1.01"),
    ],
)
def test_texts_of_results(session: Session, sql: str, expected: str) -> None:
    """The result of age, a float and a rounded literal have PostgreSQL's texts."""
    assert ask(session, f"SELECT {sql} AS x").rows == [{"x": expected}]
