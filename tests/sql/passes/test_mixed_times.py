"""Dates that meet timestamps with a time zone get a zone."""

import pyarrow as pa
import pytest

from flightllm.session.session import Session
from tests.databases import ask

_DAY, _SEEN = "date '2024-01-01'", "timestamptz '2024-01-02 00:00+00'"


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT coalesce({_DAY}, {_SEEN}) AS r", ["2024-01-01 00:00:00+00"]),
        (f"SELECT greatest({_DAY}, NULL, {_SEEN}) AS r", ["2024-01-02 00:00:00+00"]),
        (f"SELECT CASE WHEN true THEN {_DAY} ELSE {_SEEN} END AS r", ["2024-01-01 00:00:00+00"]),
        (f"SELECT CASE WHEN true THEN {_DAY} WHEN false THEN {_SEEN} END AS r", ["2024-01-01 00:00:00+00"]),
        (f"SELECT {_DAY} AS r UNION SELECT {_SEEN}", ["2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"]),
        (f"SELECT r FROM (SELECT {_DAY} AS r) q EXCEPT ALL SELECT {_SEEN}", ["2024-01-01 00:00:00+00"]),
        (f"SELECT unnest(ARRAY[{_DAY}, {_SEEN}]) AS r", ["2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"]),
    ],
)
def test_zones(session: Session, sql: str, wanted: list[str]) -> None:
    """The column is a timestamp with a time zone, and so is its text."""
    kind = ask(session, sql).table.schema.field("r").type
    assert pa.types.is_timestamp(kind)
    assert kind.tz is not None
    found = ask(session, f"SELECT r::text AS r FROM ({sql}) q ORDER BY 1").table.to_pylist()
    assert [row["r"] for row in found] == wanted


def test_plain_times_stay(session: Session) -> None:
    """A date that meets a plain timestamp becomes a plain timestamp."""
    found = ask(session, f"SELECT coalesce({_DAY}, timestamp '2024-01-02') AS r").table
    assert found.schema.field("r").type.tz is None
