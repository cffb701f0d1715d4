"""Texts of times in a zone are those of the instant in UTC."""

from datetime import date, time
from pathlib import Path

from tests.databases import ask, small_database


def test_of_bigquery(tmp_path: Path) -> None:
    """FORMAT and TO_JSON_STRING write a time of Paris in UTC."""
    database = small_database(tmp_path)
    session = database.session()
    kind = 'Timestamp(Microsecond, Some("Europe/Paris"))'
    session.update(f"CREATE TABLE times AS SELECT arrow_cast(TIMESTAMP '2024-07-01 00:30:00.25', '{kind}') AS t")
    (row,) = ask(
        session,
        "SELECT TO_JSON_STRING(t) AS a, FORMAT('%T', t) AS b, FORMAT('%t', t) AS c FROM times",
        dialect="bigquery",
    ).rows
    day = "2024-06-30"
    assert str(row["a"]).startswith(f'"{day}T22:30:00.25')
    assert str(row["a"]).endswith('Z"')
    assert str(row["b"]).startswith(f'TIMESTAMP "{day} 22:30:00.25')
    assert str(row["c"]).startswith(f"{day} 22:30:00.25")
    assert "+02" not in "".join(map(str, row.values()))
    casts = "SELECT STRING(t) AS a, CAST(t AS STRING) AS b FROM times"
    (row,) = ask(session, casts, dialect="bigquery").rows
    assert list(row.values()) == [f"{day} 22:30:00.25+00"] * 2
    database.close()


def test_parts_of_bigquery(tmp_path: Path) -> None:
    """Parts of a time in a zone, its day and its begin of a unit are those in UTC: a TIMESTAMP has no zone."""
    database = small_database(tmp_path)
    session = database.session()
    kind = 'Timestamp(Microsecond, Some("Europe/Paris"))'
    session.update(f"CREATE TABLE times AS SELECT arrow_cast(TIMESTAMP '2024-07-01 00:30:00.25', '{kind}') AS t")
    texts = {
        "EXTRACT(HOUR FROM t)": 22,
        "EXTRACT(MONTH FROM t)": 6,
        "EXTRACT(WEEK FROM t)": 26,
        "EXTRACT(ISOWEEK FROM t)": 26,
        "EXTRACT(DAYOFWEEK FROM t)": 1,
        "EXTRACT(HOUR FROM t AT TIME ZONE 'Europe/Paris')": 0,
        "EXTRACT(DATE FROM t)": date(2024, 6, 30),
        "EXTRACT(TIME FROM t)": time(22, 30, 0, 250_000),
        "DATE(t)": date(2024, 6, 30),
        "DATE(t, 'Europe/Paris')": date(2024, 7, 1),
        "CAST(t AS DATE)": date(2024, 6, 30),
        "SAFE_CAST(t AS DATE)": date(2024, 6, 30),
        "CAST(t AS TIME)": time(22, 30, 0, 250_000),
        "TIME(t)": time(22, 30, 0, 250_000),
        "LAST_DAY(t)": date(2024, 6, 30),
        "DATE_DIFF(DATE '2024-07-03', t, DAY)": 3,
        "TIMESTAMP_TRUNC(t, MONTH) = TIMESTAMP '2024-06-01'": True,
        "TIMESTAMP_TRUNC(t, MONTH, 'Europe/Paris') = TIMESTAMP '2024-06-30 22:00:00'": True,
        "FORMAT_TIMESTAMP('%H:%M', t)": "22:30",
        "FORMAT_DATE('%d', t)": "30",
        "CAST(t AS STRING FORMAT 'HH24:MI')": "22:30",
    }
    items = ", ".join(f"{text} AS c{place}" for place, text in enumerate(texts))
    (row,) = ask(session, f"SELECT {items} FROM times", dialect="bigquery").rows
    assert dict(zip(texts, row.values(), strict=True)) == texts
    database.close()
