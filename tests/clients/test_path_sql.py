"""SQL that names files or changes DataFusion's own settings reads, writes and changes nothing, whoever sends it."""

import sys
from collections.abc import Iterator

import pytest

from flightllm.access.store import AccessStore, User
from flightllm.client import Client
from flightllm.errors import FlightLLMError
from tests.servers import SupervisedServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a real server process")

SECRET = "content-not-for-clients"
STATEMENTS = (
    "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{csv}'",
    "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'file://{csv}'",
    "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{listed}/../secret.csv'",
    "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{listed}/link.csv'",
    "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '~/secret.csv'",
    "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 's3://bucket/x.csv'",
    "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'https://localhost/x.csv'",
    "CREATE EXTERNAL TABLE e (a INT) STORED AS CSV LOCATION '{csv}' OPTIONS ('format.has_header' 'true')",
    "CREATE UNBOUNDED EXTERNAL TABLE e STORED AS CSV LOCATION '{csv}'",
    "COPY (SELECT 1) TO '{folder}/out.csv' STORED AS CSV",
    "COPY t TO '{folder}/out' STORED AS PARQUET PARTITIONED BY (a)",
    "COPY t FROM '{csv}'",
    "EXPLAIN COPY t TO '{folder}/out.csv'",
    "EXPLAIN ANALYZE COPY t TO '{folder}/out.csv'",
    "INSERT INTO t SELECT * FROM '{csv}'",
    "SELECT * FROM '{csv}'",
    'SELECT * FROM "{csv}"',
    "SELECT * FROM 'file://{csv}'",
    "SELECT * FROM '{folder}/*.csv'",
    "SELECT * FROM read_csv('{csv}')",
    "SELECT * FROM read_parquet('{csv}')",
    "SELECT * FROM read_json('{csv}')",
    "SELECT * FROM parquet_metadata('{csv}')",
    "SELECT * FROM metadata_cache()",
    "SELECT read_file('{csv}'), pg_read_file('{csv}'), load_extension('x')",
    "LOAD DATA INFILE '{csv}' INTO TABLE t",
    "ATTACH DATABASE '{csv}' AS d",
    "CREATE FUNCTION f() RETURNS TEXT LANGUAGE python AS 'open(1)'",
    "SET datafusion.catalog.location = '{folder}'",
    "SET datafusion.catalog.format = 'CSV'",
    "SET datafusion.execution.batch_size = '0'",
    "SET datafusion.runtime.temp_directory = '{folder}'",
    "SET datafusion.runtime.memory_limit = '1000G'",
    "SET datafusion.optimizer.max_passes = '0'",
    "SET flightllm.functions = '{folder}'",
    "RESET datafusion.runtime.memory_limit",
    "SELECT 1; COPY t TO '{folder}/out.csv'",
    "PREPARE p AS COPY t TO '{folder}/out.csv'",
    "CREATE TABLE made AS SELECT * FROM '{csv}'",
    "CREATE VIEW seen AS SELECT * FROM '{csv}'",
    "SELECT ai_gen('x', (SELECT max(c) FROM '{csv}' AS f(c)))",
)
USERS = ("admin", "user", "readonly", "nobody")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SupervisedServer, dict[str, str]]]:
    """Run a server with one user of each role, a listed folder and a file beside it."""
    folder = tmp_path_factory.mktemp("paths")
    (folder / "data").mkdir()
    (folder / "listed").mkdir()
    (folder / "secret.csv").write_text(f"{SECRET}\n1\n")
    (folder / "listed" / "link.csv").symlink_to(folder / "secret.csv")
    store = AccessStore(folder / "data" / "access.sqlite")
    for role in ("admin", "user", "readonly"):
        store.add_user(User(f"the-{role}", role))
    tokens = {role: store.add_token(f"the-{role}") for role in USERS[:3]}
    store.close()
    settings = f'[engine]\nkind = "fake"\n[storage]\nexternal_folders = ["{folder / "listed"}"]'
    with SupervisedServer(folder, settings) as server:
        with Client(server.uri, {"authorization": f"Bearer {tokens['admin']}"}) as client:
            client.query("CREATE TABLE t AS SELECT 1 AS a")
        yield server, tokens


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_refused(server: tuple[SupervisedServer, dict[str, str]], user: str, statement: str) -> None:
    """The statement fails, tells nothing of the file, and writes none; the server's process goes on."""
    process, tokens = server
    folder = process.log.parent
    worker = process.children()[0]
    sql = statement.format(csv=folder / "secret.csv", folder=folder, listed=folder / "listed")
    headers = {"authorization": f"Bearer {tokens[user]}"} if user in tokens else {}
    before = sorted(path.name for path in folder.iterdir())
    with Client(process.uri, headers) as client, pytest.raises(FlightLLMError) as caught:
        list(client.query(sql)[1])
    assert SECRET not in str(caught.value)
    assert "internal error" not in str(caught.value)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert process.children()[0] == worker
