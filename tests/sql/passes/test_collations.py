"""Collations that order texts by their bytes are accepted, and others are refused."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize("name", ['"C"', '"POSIX"', 'pg_catalog."default"', '"ucs_basic"', '"C.UTF-8"'])
def test_order_of_bytes(session: Session, name: str) -> None:
    """Capitals come first."""
    sql = f"SELECT v FROM (VALUES ('b'), ('a'), ('B')) t(v) ORDER BY v COLLATE {name}"
    assert [row["v"] for row in rows(session, sql)] == ["B", "a", "b"]


def test_columns(session: Session) -> None:
    """A column of CREATE TABLE can have such a collation."""
    session.update('CREATE TABLE collated (v text COLLATE "C" NOT NULL)')
    session.update("DROP TABLE collated")


@pytest.mark.parametrize("sql", ["SELECT 'a' COLLATE \"en_US\" AS v", 'CREATE TABLE collated (v text COLLATE "de_DE")'])
def test_refused(session: Session, sql: str) -> None:
    """Another collation is refused with what to write."""
    with pytest.raises(UnsupportedError, match=r'ordered by their bytes, so leave COLLATE out, or write COLLATE "C"'):
        session.update(sql) if sql.startswith("CREATE") else rows(session, sql)
