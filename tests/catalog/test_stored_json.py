"""Columns of JSON keep their type with the table, and a jsonb has one form in it."""

from contextlib import closing
from pathlib import Path

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.errors import SqlError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import rows, small_database

TYPES = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{}' ORDER BY 1"


def test_types_stay(tmp_path: Path) -> None:
    """The type of a column of JSON passes to a table of its rows, and stays over a restart."""
    config = Config(engine=EngineConfig("fake"), data_folder=tmp_path)
    with closing(Database.open(config)) as database:
        session = _session(database)
        session.update("CREATE TABLE docs (j jsonb, k JSON NOT NULL, s text)")
        session.update("CREATE TABLE copied AS SELECT j AS jj, k, s, j || '' AS t FROM docs")
    with closing(Database.open(config)) as database:
        session = _session(database)
        found = {name: rows(session, TYPES.format(name)) for name in ("docs", "copied")}
    assert [one["data_type"] for one in found["docs"]] == ["jsonb", "json", "text"]
    assert [one["data_type"] for one in found["copied"]] == ["jsonb", "json", "text", "text"]


def test_one_form(tmp_path: Path) -> None:
    """Each way to store a jsonb sorts its keys; a json stays as it is; a text that is not JSON is an error."""
    with closing(small_database(tmp_path)) as database:
        session = _session(database)
        session.update("CREATE TABLE docs (id INT, j jsonb, k json)")
        given = '{"bb":1,"a":[1.50],"bb":2}'
        session.update(f"INSERT INTO docs VALUES (1, '{given}', '{given}'), (2, NULL, NULL), (3, '1', '1')")
        session.update(f"UPDATE docs SET j = '{given}' WHERE id = 3")
        session.update(f"UPDATE docs SET j = s.j FROM (VALUES (2, '{given}')) AS s(id, j) WHERE docs.id = s.id")
        assert rows(session, "SELECT j, k FROM docs ORDER BY id") == [
            {"j": '{"a": [1.50], "bb": 2}', "k": given},
            {"j": '{"a": [1.50], "bb": 2}', "k": None},
            {"j": '{"a": [1.50], "bb": 2}', "k": "1"},
        ]
        for change in (
            "INSERT INTO docs VALUES (4, '{', '1')",
            "INSERT INTO docs VALUES (4, '1', '{')",
            "UPDATE docs SET j = '{'",
        ):
            with pytest.raises(SqlError, match="invalid input syntax for type json in the column"):
                session.update(change)
        assert len(rows(session, "SELECT j FROM docs")) == 3


def _session(database: Database) -> Session:
    session = database.session()
    session.update("SET flightllm.dialect = 'postgres'")
    return session
