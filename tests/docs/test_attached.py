"""The page about attached databases: what it says of files runs."""

from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from tests.databases import open_database, rows
from tests.docs.pages import DOCS, blocks, statements
from tests.sources import sqlite_file

PAGE = DOCS / "how-to" / "attach-a-database.md"


def test_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statements about the file run in their order; those about the server are read."""
    monkeypatch.chdir(tmp_path)
    sqlite_file(tmp_path / "shop.sqlite")
    database = open_database(tmp_path / "data")
    session, ran = database.session(), list[str]()
    for name in ("ann", "bob"):
        database.access.store.add_user(User(name, "user"))
    for sql in (sql for block in blocks(PAGE, "sql") for sql in statements(block)):
        if "crm" in sql:
            assert not sql.startswith("ATTACH") or classify(ParsedText(sql)).kind == "attach"
        elif session.is_update(sql):
            ran.append(sql)
            session.update(sql)
        else:
            ran.append(sql)
            assert rows(session, sql)
    database.close()
    assert len(ran) == 5
