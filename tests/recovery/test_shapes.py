"""SQL that kills or stalls a bare DataFusion is refused by a real server, whose process goes on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import InvalidInputError
from tests.servers import SupervisedServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

DEADLY = {
    "additions": "SELECT " + "+".join(["1"] * 10_000),
    "alternatives": "SELECT 1 FROM t WHERE " + " OR ".join(["a = 1"] * 10_000),
    "unions": " UNION ALL ".join(["SELECT 1"] * 5_000),
    "common table expressions": "WITH c0 AS (SELECT 1 AS a)"
    + "".join(f", c{i} AS (SELECT a FROM c{i - 1})" for i in range(1, 5_000))
    + " SELECT * FROM c4999",
    "cross joins": "SELECT 1 FROM " + " CROSS JOIN ".join(f"t t{i}" for i in range(5_000)),
}
STALLING = {
    "nested IN": "SELECT a FROM t WHERE " + "a IN (SELECT a FROM t WHERE " * 22 + "true" + ")" * 22,
    "nested EXISTS": "SELECT a FROM t WHERE " + "EXISTS (SELECT 1 FROM t WHERE " * 22 + "true" + ")" * 22,
    "deep casts": "SELECT " + "CAST(" * 110 + "a" + " AS bigint)" * 110 + " FROM t",
    "CASE in conditions": "SELECT a FROM t WHERE " + "CASE WHEN " * 16 + "a = 1" + " THEN b = 1 ELSE a = 2 END" * 16,
    "nested WITH": "WITH c AS (" * 24 + "SELECT 1 AS x" + ") SELECT * FROM c" * 24,
    "sort keys": "SELECT a FROM t ORDER BY " + ", ".join(f"a + {i}" for i in range(5_000)),
    "columns": "SELECT " + ", ".join(f"sum(a + {i}) AS c{i}" for i in range(20_000)) + " FROM t",
    "row of values": "SELECT * FROM (VALUES (" + ", ".join(map(str, range(50_000))) + ")) AS v",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedServer]:
    """Run a server with a table."""
    with SupervisedServer(tmp_path_factory.mktemp("shapes")) as server:
        server.query("CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
        yield server


@pytest.mark.parametrize("shape", [*DEADLY, *STALLING])
def test_shape(server: SupervisedServer, shape: str) -> None:
    """The query is refused with the limit's name, and the process that serves is the same one afterwards."""
    worker = server.children()[0]
    with pytest.raises(InvalidInputError, match=r"sql_terms|levels deep"):
        server.query((DEADLY | STALLING)[shape])
    assert server.query("SELECT a FROM t") == [(1,)]
    assert server.children()[0] == worker


def test_the_log_tells_no_death(server: SupervisedServer) -> None:
    """None of the statements above ended a process."""
    assert "died" not in Path(server.log).read_text()
