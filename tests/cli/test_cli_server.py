"""The command line against a real server process with the fake engine."""

import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from flightllm.cli import main
from flightllm.config import Config, EngineConfig, LogConfig, ServerConfig
from flightllm.demo.process import RunningServer, running_server
from flightllm.errors import EngineUnavailableError
from flightllm.flight.server import FlightSqlServer
from flightllm.log import configure_logging
from flightllm.session.database import Database
from tests.databases import open_database
from tests.using_engines import Scripted, using

Run = Callable[..., Result]
FILTER = "SELECT ticket_id, ai_filter('Is {body} about money?', body) AS money FROM tickets ORDER BY ticket_id LIMIT 5"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Start one server for all tests here."""
    with running_server(["--engine", "fake"]) as started:
        yield started


@pytest.fixture
def run(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `flightllm` with arguments; the environment names the server."""
    monkeypatch.setenv("FLIGHTLLM_URI", server.uri)

    def invoke(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=text)

    return invoke


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a function that runs `flightllm` against a server whose model has a price."""
    configure_logging(LogConfig(level="error"))
    engine = EngineConfig(kind="fake", price_output=1_000.0)
    folder = tmp_path_factory.mktemp("priced")
    with closing(Database.open(Config(engine=engine, data_folder=folder))) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_gen"])
        environment = {"FLIGHTLLM_URI": server.uri}
        yield lambda *arguments: CliRunner().invoke(main, list(arguments), env=environment)
        server.drain(0)


def test_query_prints_a_table(run: Run) -> None:
    """The default format shows column names, rows and how many there were."""
    result = run("query", "SELECT title, movie_id FROM movies WHERE movie_id < 3 ORDER BY movie_id")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "title" in lines[0]
    assert lines[-1] == "(2 rows)"


def test_query_runs_several_statements(run: Run, tmp_path: Path) -> None:
    """They run in one session until one fails; a file takes the rows of one."""
    result = run("query", "SET flightllm.max_calls = '1'; SELECT 7 AS seven; SELECT nope; SELECT 8 AS eight")
    assert result.exit_code == 1
    assert "seven" in result.output
    assert "nope" in result.output
    assert "eight" not in result.output
    limited = run("query", f"SET flightllm.max_calls = '1'; {FILTER}")
    assert "flightllm.max_calls is 1" in limited.output
    refused = run("query", "-o", str(tmp_path / "rows.csv"), "SELECT 1; SELECT 2")
    assert "one statement, and the text has 2" in refused.output
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.slow
def test_index(run: Run) -> None:
    """An index is built, listed, refreshed and dropped; what is wrong is said."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    result = run("index", "create", "titles", "movies(title)", "-o", "type=ivf", "-o", "probes=3", "--replace")
    assert result.exit_code == 0, result.output
    assert "titles" in result.output
    assert "ready" in run("index", "list").output
    found = run("query", "--format", "json", "SELECT count(*) AS n FROM text_search('titles', 'the')")
    assert json.loads(found.output)["n"] > 0
    again = run("index", "create", "titles", "movies(title)")
    assert again.exit_code == 1
    assert "CREATE OR REPLACE" in again.output
    assert "is not of the form TABLE(COLUMN)" in run("index", "create", "titles", "tickets").output
    assert "is not of the form NAME=VALUE" in run("index", "create", "b", "movies(title)", "-o", "x").output
    assert run("index", "refresh", "titles").exit_code == 0
    assert run("index", "drop", "titles").output == "dropped titles\n"
    assert "no vector index" in run("index", "drop", "titles").output


def test_query_writes_each_format(run: Run, tmp_path: Path) -> None:
    """CSV, JSON lines and Parquet hold the same rows."""
    for name in ("csv", "json", "parquet"):
        result = run("query", "--format", name, "-o", str(tmp_path / name), FILTER)
        assert result.exit_code == 0, result.output
    parquet = pq.read_table(tmp_path / "parquet").to_pylist()
    assert [json.loads(line) for line in (tmp_path / "json").read_text().splitlines()] == parquet
    assert pyarrow.csv.read_csv(tmp_path / "csv").to_pylist() == parquet
    assert [row["ticket_id"] for row in parquet] == [1, 2, 3, 4, 5]


def test_the_name_of_the_output_tells_the_format(run: Run, tmp_path: Path) -> None:
    """A file ending in a format's name is in it; one ending in another is refused, and --format goes first."""
    file = tmp_path / "rows.csv"
    assert run("query", "-o", str(file), "SELECT 1 AS one").exit_code == 0
    assert file.read_text() == '"one"\n1\n'
    refused = run("query", "-o", str(tmp_path / "rows.docx"), "SELECT 1 AS one")
    assert (refused.exit_code, "ends in docx, which is not a format" in refused.output) == (2, True)
    assert run("query", "-o", str(tmp_path / "x.out"), "--format", "json", "SELECT 1 AS one").exit_code == 0


def test_what_returns_no_rows_says_what_it_did(run: Run) -> None:
    """Rows affected where they are counted, else that it is done; and not on the output of a program's format."""
    assert run("query", "CREATE TABLE said (a INT)").output == "done\n"
    assert run("query", "INSERT INTO said VALUES (1), (2)").output == "2 rows affected\n"
    assert run("query", "DELETE FROM said WHERE a = 1").output == "1 row affected\n"
    assert run("query", "--format", "json", "DROP TABLE said").stdout == ""


def test_query_reads_standard_input(run: Run) -> None:
    """`-` takes the SQL from a pipe."""
    assert run("query", "--format", "csv", "-", text="SELECT 1 AS one").output == '"one"\n1\n'


def test_settings_reach_the_query(run: Run) -> None:
    """`--set` travels with the call: an unknown setting is refused, a known one answers alike."""
    plain = run("query", "--format", "csv", FILTER)
    unoptimized = run("query", "--format", "csv", "--set", "optimizer=off", FILTER)
    assert plain.stdout == unoptimized.stdout
    refused = run("query", "--set", "no_such_setting=1", "SELECT 1")
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)


def test_explain_is_readable(run: Run) -> None:
    """EXPLAIN's tables stand line by line under their titles; as JSON it is one document."""
    sql = "SELECT ai_sentiment(body) FROM tickets"
    lines = run("query", f"EXPLAIN {sql}").stdout.splitlines()
    assert "calls of s0" in lines
    assert any(line.split()[:1] == ["predicted"] for line in lines)
    assert json.loads(run("query", f"EXPLAIN (FORMAT json) {sql}").stdout)["path"] == "operators"


def test_a_servers_error_is_one_line(run: Run) -> None:
    """What the server refuses reaches the terminal as its message alone."""
    result = run("query", "SELECT no_such_column FROM movies")
    assert result.exit_code == 1
    assert result.output.startswith("error: ")
    assert "no_such_column" in result.output
    assert result.output.count("\n") == 1


def test_tables_and_queries_are_listed(run: Run) -> None:
    """`tables` shows tables with their columns, `queries` what ran and its model calls."""
    assert run("query", FILTER).exit_code == 0
    assert "movie_info" in run("tables").output
    listed = run("queries", "--limit", "5")
    assert listed.exit_code == 0, listed.output
    assert "Is {body} about money?" in listed.output


def test_cancel_of_an_unknown_query_says_so(run: Run) -> None:
    """Cancelling what does not run is an error, not a silent success."""
    result = run("cancel", "no-such-query")
    assert result.exit_code == 1
    assert "no-such-query" in result.output


def test_a_taken_port_is_named(server: RunningServer) -> None:
    """Starting a second server on one port fails with the address in one line."""
    address = server.uri.removeprefix("grpc://")
    result = CliRunner().invoke(main, ["serve", "--engine", "fake", "--listen", address])
    assert result.exit_code == 1
    assert f"cannot listen on {address}" in result.output


@pytest.mark.slow
def test_a_server_that_does_not_start_quotes_its_last_words(tmp_path: Path) -> None:
    """The reason a server gave up reaches whoever started it."""
    with (
        pytest.raises(EngineUnavailableError, match="did not start"),
        running_server(["--engine", "fake"], tables={"t": tmp_path / "absent.parquet"}),
    ):
        pass


@pytest.mark.slow
def test_a_stopped_server_frees_its_port() -> None:
    """Leaving the context stops the process and closes the port."""
    with running_server(["--engine", "fake"]) as started:
        host, _, port = started.uri.removeprefix("grpc://").rpartition(":")
    assert started.process.returncode is not None
    with socket.socket() as probe:
        assert probe.connect_ex((host, int(port))) != 0


def test_cancel_of_a_finished_query_says_so(run: Run) -> None:
    """What has ended is not reported as cancelled."""
    assert run("query", "--format", "csv", "SELECT 41 AS finished").exit_code == 0
    found = run("query", "--format", "csv", "SELECT query_id FROM system.queries WHERE sql LIKE '%41 AS finished'")
    query_id = found.output.splitlines()[1].strip('"')
    result = run("cancel", query_id)
    assert (result.exit_code, result.output) == (0, f"{query_id} is already done\n")


def test_the_clients_own_queries_are_not_listed(run: Run) -> None:
    """`queries` shows what users ran, not what the command line asked for its own messages."""
    assert run("query", FILTER).exit_code == 0
    assert run("queries").exit_code == 0
    listed = run("queries")
    assert "Is {body} about money?" in listed.output
    assert "flightllm client" not in listed.output


def test_a_file_and_a_pipe_get_every_row_of_a_table(run: Run, tmp_path: Path) -> None:
    """Only a terminal is spared many rows."""
    sql = "SELECT n FROM generate_series(1, 300) AS g(n)"
    piped = run("query", sql).output.splitlines()
    assert (len(piped), piped[-1]) == (303, "(300 rows)")
    assert run("query", "-o", str(tmp_path / "t.txt"), sql).exit_code == 0
    assert (tmp_path / "t.txt").read_text().splitlines() == piped


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
def test_a_terminal_gets_the_first_rows(server: RunningServer) -> None:
    """A terminal shows the first rows, and how many there are."""
    from tests.terminals import Terminal

    sql = "SELECT n FROM generate_series(1, 300) AS g(n)"
    terminal = Terminal([sys.executable, "-m", "flightllm", "query", "--uri", server.uri, sql])
    assert terminal.finish() == 0
    shown = [line for line in terminal.screen() if line]
    assert (len(shown), shown[-1]) == (203, "(300 rows, first 200 shown)")


def test_a_script_runs(run: Run) -> None:
    """`flightllm < script.sql` runs the statements, and stops at the first error with the line of its statement."""
    good = run(text="-- two\nSELECT 41 AS one;\n\\dt\nSELECT\n  42 AS two;\n")
    assert good.exit_code == 0, good.output
    assert good.stdout.index("41") < good.stdout.index("movies") < good.stdout.index("42")
    bad = run(text="SELECT 41 AS one;\n\n-- wrong\nSELECT\n nope;\nSELECT 42 AS two;\n")
    assert bad.exit_code == 1
    assert "41" in bad.stdout
    assert "42" not in bad.stdout
    assert bad.stderr.startswith("error: in the statement at line 4: ")
    assert "nope" in bad.stderr
    by_query = run("query", "-", text="SELECT 41 AS one;\nSELECT nope")
    assert (by_query.exit_code, "error: in the statement at line 2: " in by_query.stderr) == (1, True)


def test_rows_without_an_answer_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed rows are counted on standard error, away from the result; a query that asks for the reason is not told."""
    call = "ai_gen('What of {{x}}?', x{0}) AS a FROM (VALUES ('unlucky'), ('unlucky 2'), ('y')) AS t(x)"
    configure_logging(LogConfig(level="error"))  # the server's warnings go elsewhere
    engine = EngineConfig(kind="fake", options={"fail_containing": "unlucky"})
    with closing(Database.open(Config(engine=engine, data_folder=tmp_path))) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_gen"])
        monkeypatch.setenv("FLIGHTLLM_URI", server.uri)
        plain = CliRunner().invoke(main, ["query", "--format", "json", f"SELECT {call.format('')}"])
        struct = CliRunner().invoke(main, ["query", "SELECT " + call.format(", on_error => 'struct'")])
        server.drain(0)
    assert plain.stderr.splitlines()[1:] == ["2 rows without an answer (NULL); on_error => 'struct' shows why"]
    assert [json.loads(line)["a"] for line in plain.stdout.splitlines()][:2] == [None, None]
    assert struct.stderr.splitlines()[1:] == ["2 rows without an answer; see their error"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT ai_gen('A', x) FROM {x}", r"3 rows, 3 calls, \d+ tokens, \$0\.\d+, \d+\.\d s\n"),
        ("SELECT ai_gen('A', x), ai_gen('B', x) FROM {x}", r"3 rows, 6 calls \(3 asked, 3 from the cache\), .*\n"),
        (
            "SELECT ai_gen('A', x) FROM {x} LIMIT 1",
            r"1 row, 1 call \(0 asked, 1 from the cache\), 0 tokens, \$0\.00, .*\n",
        ),
        ("CREATE TABLE t AS SELECT ai_gen('C', x) AS a FROM {x}", r"3 rows, 3 calls, .*\n"),
        ("INSERT INTO t SELECT ai_gen('D', x) FROM {x} RETURNING a", r"3 rows, 3 calls, .*\n"),
        ("SELECT 1 AS one", ""),
        ("INSERT INTO t VALUES ('x')", ""),
    ],
)
def test_the_work_of_a_statement_is_told(priced: Run, sql: str, said: str) -> None:
    """After a statement with model calls, one line on standard error has rows, calls, tokens, price and seconds."""
    ran = priced("query", "--format", "json", sql.format(x="(VALUES ('a'), ('b'), ('c')) AS v(x)"))
    assert ran.exit_code == 0, ran.output
    lines = [line for line in ran.stderr.splitlines(keepends=True) if "affected" not in line]
    assert re.fullmatch(said, "".join(lines))


def test_a_spent_budget_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a budget leaves rows without an answer, standard error names it and not `on_error`."""
    texts = "SELECT 'text ' || value AS t FROM generate_series(1, 300) AS g(value)"
    sql = f"SELECT ai_gen('x', t) AS g FROM ({texts}) WHERE ai_filter('y', t)"
    with closing(open_database(tmp_path)) as database:
        asked = using(database, Scripted(lambda _: "Yes"))
        server = FlightSqlServer(asked, ServerConfig("127.0.0.1:0"), functions=["ai_gen", "ai_filter"])
        monkeypatch.setenv("FLIGHTLLM_URI", server.uri)
        ran = CliRunner().invoke(main, ["query", "--set", "max_calls=500", sql])
        server.drain(0)
    assert "without an answer: the query's budget is spent" in ran.stderr
    assert "flightllm.max_calls is 500" in ran.stderr


@pytest.mark.parametrize(("sql", "told"), [("SET flightllm.cache = 'off'", True), ("SELECT 1 AS set", False)])
def test_a_setting_alone_is_pointless(run: Run, sql: str, told: bool) -> None:
    """A setting ends with the command's session; standard error says what to write."""
    result = run("query", sql)
    assert result.exit_code == 0, result.output
    assert ("--set key=value" in result.stderr) == told
