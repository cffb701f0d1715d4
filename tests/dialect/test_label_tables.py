"""Tables of labels in FIT ON and in `labels =>`: the tables of a session are found."""

from pathlib import Path

import pytest

from flightllm.errors import NotFoundError
from tests.databases import rows
from tests.ddl.test_filters import opened_in

CALL = "ai_filter('Is {t} spam?', t)"


def test_temporary_tables(tmp_path: Path) -> None:
    """A filter stays when the table of its labels ends with the session; only a new fit needs other labels."""
    database = opened_in(tmp_path)
    session = database.session()
    session.update("CREATE TEMP TABLE lab AS SELECT 'word ' || value AS t, value % 2 = 0 AS label FROM range(60)")
    session.update(f"CREATE FILTER even AS {CALL} FIT ON lab")
    assert len(rows(session, f"SELECT t FROM lab WHERE {CALL[:-1]}, labels => 'lab') IS NOT NULL")) == 60
    other = database.session()
    assert rows(other, "SELECT even('word 3') IS NULL AS a") == [{"a": False}]
    with pytest.raises(NotFoundError, match="temporary table or a frame, which has ended with its session"):
        other.update("ALTER FILTER even REFIT")
    other.update("CREATE SCHEMA mine")
    other.update("CREATE TABLE mine.lab AS SELECT 'word ' || value AS t, value % 2 = 0 AS label FROM range(40)")
    other.update("SET search_path = mine")
    other.update(f"CREATE OR REPLACE FILTER even AS {CALL} FIT ON lab")
    assert rows(other, "SELECT labels FROM system.filters") == [{"labels": 40}]
    assert len(rows(other, f"SELECT t FROM lab WHERE {CALL[:-1]}, labels => 'lab') IS NOT NULL")) == 40
    database.close()
