"""What a prepared statement says of its parameters and columns before it gets values."""

from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.session import Session
from tests.databases import open_database

TABLE = "CREATE TABLE t (a INT, b VARCHAR, d DATE, x DECIMAL(10, 2), ts TIMESTAMP, u BIGINT UNSIGNED)"
INT, TEXT, DAY, MONEY = pa.int32(), pa.string(), pa.date32(), pa.decimal128(10, 2)
WHEN = pa.timestamp("ns")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Open a session over one table."""
    database = open_database(Path(tmp_path_factory.mktemp("describing")))
    session = database.session()
    session.update(TABLE)
    return session


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT a FROM t WHERE a > ? AND b = ?", [INT, TEXT]),
        ("SELECT a FROM t WHERE ts > $2 AND d = $1", [DAY, WHEN]),
        ("SELECT a FROM t WHERE x BETWEEN ? AND ? OR u IN (?,?)", [MONEY, MONEY, pa.uint64(), pa.uint64()]),
        ("SELECT a FROM t WHERE a = (SELECT max(a) FROM t WHERE b = ?)", [TEXT]),
        ("SELECT * FROM t LIMIT ? OFFSET ?", [pa.int64(), pa.int64()]),
        ("SELECT ?", [TEXT]),
        ("EXPLAIN SELECT a FROM t WHERE a = ?", [INT]),
        ("SELECT a FROM t WHERE ai_filter('Is {b} good?', b) AND a > ?", [INT]),
        ("SELECT ai_gen(?, b) FROM t", [TEXT]),
        ("SELECT ai_classify(b, ?) FROM t", [TEXT]),
        ("INSERT INTO t VALUES (?,?,?,?,?,?)", [INT, TEXT, DAY, MONEY, WHEN, pa.uint64()]),
        ("INSERT INTO t (b,a) VALUES ($1,$2)", [TEXT, INT]),
        ("UPDATE t SET b = ? WHERE a = ?", [TEXT, INT]),
        ("DELETE FROM t WHERE d < ?", [DAY]),
        ("CREATE TABLE z AS SELECT * FROM t WHERE a = ?", [INT]),
    ],
)
def test_types_of_parameters(session: Session, sql: str, types: list[pa.DataType]) -> None:
    """A parameter has the type that its place asks for, text where any would do."""
    assert session.describe(sql).parameters.types == types


def test_columns_are_named_for_any_value(session: Session) -> None:
    """A column computed from a parameter is not named after a stand-in for its value."""
    schema = session.describe("SELECT ? + 1, a, ai_gen(?, b) FROM t").schema
    assert schema.names == ["$1 + Int64(1)", "a", "ai_gen($2, b)"]
    assert schema.types == [pa.int64(), INT, TEXT]
