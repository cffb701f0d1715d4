"""Texts of times in a zone are those of the instant in UTC."""

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
