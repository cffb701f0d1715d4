"""AT TIME ZONE has PostgreSQL's types and instants, also where clocks change."""

import pytest

from flightllm.errors import FlightLLMError, SqlError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, rows

NEW_YORK = "AT TIME ZONE 'America/New_York'"


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session with times."""
    session.update(
        "CREATE TABLE z AS SELECT n, CAST(t AS TIMESTAMP) AS t, CAST(u AS TIMESTAMPTZ) AS u FROM (VALUES"
        " (1, '2024-01-01 08:00:00', '2024-01-01 13:00:00Z'), (2, '2024-03-10 02:30:00', '2024-03-10 08:30:00Z'),"
        " (3, '2024-11-03 01:30:00', '2024-11-03 05:30:00Z'), (4, NULL, NULL)) AS v(n, t, u)"
    )
    return session


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT CAST(to_unixtime(t {NEW_YORK}) AS BIGINT) FROM z", [1704114000, 1710055800, 1730615400, None]),
        (f"SELECT n FROM z WHERE t {NEW_YORK} = u", [1]),
        (f"SELECT n FROM z WHERE u {NEW_YORK} = t ORDER BY n", [1, 3]),
        (f"SELECT n FROM z WHERE t {NEW_YORK} < u", [2]),
        (f"SELECT date_part('hour', u {NEW_YORK}) FROM z", [8, 4, 1, None]),
        ("SELECT date_part('hour', timezone('America/New_York', u)) FROM z", [8, 4, 1, None]),
        ("SELECT CAST((t AT TIME ZONE 'Asia/Tokyo')::date AS text) FROM z WHERE n = 1", ["2023-12-31"]),
        (f"SELECT n FROM z WHERE (t {NEW_YORK}) {NEW_YORK} = t ORDER BY n", [1, 3]),
        ("SELECT date_part('hour', t AT TIME ZONE '+05:30') FROM z WHERE n = 1", [13]),
        ("SELECT date_part('hour', u AT TIME ZONE '-05') FROM z WHERE n = 1", [18]),
        (f"SELECT date_part('hour', date '2024-01-01' {NEW_YORK})", [19]),
        ("SELECT count(*) FROM z GROUP BY (u AT TIME ZONE 'UTC')::date ORDER BY 1", [1, 1, 1, 1]),
        (f"WITH q AS (SELECT n, u, u {NEW_YORK} AS l FROM z) SELECT n FROM q WHERE l {NEW_YORK} = u", [1, 2]),
    ],
)
def test_rows(session: Session, sql: str, wanted: list[object]) -> None:
    """The first column is that of PostgreSQL."""
    found = [next(iter(row.values())) for row in rows(session, sql)]
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_types(session: Session) -> None:
    """A timestamp becomes a timestamp with time zone, and the reverse; the names of columns stay."""
    found = session.execute(f"SELECT t {NEW_YORK}, u {NEW_YORK} FROM z")
    assert [(field.name, str(field.type)) for field in found.schema] == [
        (f"t {NEW_YORK}", "timestamp[ns, tz=UTC]"),
        (f"u {NEW_YORK}", "timestamp[ns]"),
    ]


def test_changes_and_views(session: Session) -> None:
    """DELETE, UPDATE, INSERT, CREATE TABLE AS and views read it in the same way."""
    session.update(f"CREATE OR REPLACE TABLE c AS SELECT n, t, u, t {NEW_YORK} AS w FROM z")
    session.update(f"CREATE OR REPLACE VIEW seen AS SELECT n FROM c WHERE t {NEW_YORK} = u")
    assert rows(session, "SELECT n FROM seen") == [{"n": 1}]
    session.update(f"UPDATE c SET n = 9 WHERE w {NEW_YORK} <> t")
    session.update(f"DELETE FROM c WHERE t {NEW_YORK} = u")
    session.update(f"INSERT INTO c (n, u) SELECT n + 10, t {NEW_YORK} FROM z WHERE n = 1")
    assert [row["n"] for row in rows(session, "SELECT n FROM c ORDER BY n")] == [3, 4, 9, 11]


def test_beside_a_call(session: Session) -> None:
    """The call sees only rows for which the comparison holds."""
    found = ask(session, f"SELECT n FROM z WHERE t {NEW_YORK} = u AND ai_filter('Is {{x}} large?', x => n)")
    assert found.calls == 1


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELECT t AT TIME ZONE 'Nowhere/None' FROM z", SqlError, "no time zone 'Nowhere/None' .1:23.*write a name"),
        (
            "SELECT t AT TIME ZONE CAST(n AS text) FROM z",
            UnsupportedError,
            "at 1:28 must be a literal: write",
        ),
        ("SELECT to_timestamp_millis(0) AT TIME ZONE 'UTC'", UnsupportedError, r"at 1:8 is unknown here: write CAST"),
    ],
)
def test_refused(session: Session, sql: str, error: type[FlightLLMError], said: str) -> None:
    """What cannot be read so is refused before it runs."""
    with pytest.raises(error, match=said):
        ask(session, sql)
