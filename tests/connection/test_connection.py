"""Connections of Python programs, to a database in the process and to a server."""

import datetime as dt
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import flightllm
from flightllm.access.login import Login
from flightllm.access.store import User
from flightllm.client import BOOKKEEPING
from flightllm.config import ServerConfig
from flightllm.connection.backend import Change, Planned, Run, Watch
from flightllm.connection.connection import Connection
from flightllm.connection.embedded import EmbeddedSession
from flightllm.errors import (
    CancelledError,
    ConfigError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.connection.conftest import fake
from tests.servers import await_true

LONG = "SELECT ai_gen('{} {{n}}', n::text) AS answer FROM generate_series(1, 4000) AS s(n)"
"""A query whose calls take minutes; the placeholder makes its prompts new."""


def test_rows_in_all_forms(both: Connection) -> None:
    """One result gives its rows to each library, and keeps them."""
    result = both.sql("SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS t(n, s) ORDER BY n")
    assert (result.columns, result.has_run) == (["n", "s"], False)
    assert result.arrow().to_pylist() == [{"n": 1, "s": "a"}, {"n": 2, "s": None}]
    assert result.df()["n"].tolist() == [1, 2]
    assert result.pl().rows() == [(1, "a"), (2, None)]
    assert list(result) == [(1, "a"), (2, None)]
    assert pl.DataFrame(result).height == pa.table(result).num_rows == len(result) == 2
    assert (result.fetchone(), result.fetchall(), result.fetchone()) == ((1, "a"), [(2, None)], None)
    assert sum(batch.num_rows for batch in result.batches()) == 2


def test_parameters(both: Connection) -> None:
    """Values are bound by place and by name, and never become SQL."""
    assert both.sql("SELECT ? AS a, ? AS b", [7, "'; DROP"]).fetchall() == [(7, "'; DROP")]
    assert both.sql("SELECT $2 - $1", (1, 3)).fetchall() == [(2,)]
    assert both.sql("SELECT :b - :a", {"a": 1, "b": 5}).fetchall() == [(4,)]
    assert both.sql("SELECT count(*) FROM (VALUES (1), (2)) AS t(n) WHERE n = ?", [None]).fetchall() == [(0,)]
    with pytest.raises(InvalidInputError, match="parameter"):
        both.sql("SELECT ?", [1, 2]).fetchall()
    with pytest.raises(InvalidInputError, match="list of values"):
        both.sql("SELECT ?", "text")
    with pytest.raises(InvalidInputError, match="type object"):
        both.sql("SELECT ?", [object()])


def test_times_have_one_type(both: Connection) -> None:
    """Times with nanoseconds are Python's times, cut to microseconds; a shown result has the nanoseconds."""
    at = pa.array([1, 1000], pa.timestamp("ns"))
    result = both.register("times", pa.table({"at": at, "of": at.cast(pa.time64("ns"))})).sql("SELECT * FROM times")
    assert result.fetchall() == [
        (dt.datetime(1970, 1, 1), dt.time()),  # noqa: DTZ001 - the column has no zone
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.time(0, 0, 0, 1)),  # noqa: DTZ001
    ]
    assert "00:00:00.000000001" in repr(result)
    deep = pa.array([[("a", [dt.datetime(2024, 1, 1)])]], pa.map_(pa.string(), pa.list_(pa.timestamp("ns"), 1)))  # noqa: DTZ001
    (row,) = both.register("deep", pa.table({"m": deep})).sql("SELECT m FROM deep").fetchall()
    assert type(row[0][0][1][0]) is dt.datetime


def test_names_of_parameters(both: Connection) -> None:
    """An error names a parameter that lacks, is too much, too large, or a list of IN; NaN and UUIDs stay."""
    for values, problem in (({"a": 1}, ":b, which"), ({"a": 1, "b": 2, "c": 3}, "'c', which")):
        with pytest.raises(InvalidInputError, match=problem):
            both.sql("SELECT :a, :b", values)
    with pytest.raises(InvalidInputError, match="parameter 2 is too large"):
        both.sql("SELECT ?, ?", [1, 2**64])
    for text in ("SELECT 1 WHERE 1 IN ?", "SELECT 1 WHERE 1 IN (?)"):
        with pytest.raises(InvalidInputError, match=r"IN takes no list"):
            both.sql(text, [[1, 2]]).fetchall()
    for text in ("SELECT 1 WHERE 1 IN (?) AND nope = any(?)", "SELECT 1 WHERE 'IN ?' = any(?) AND ? = nope"):
        with pytest.raises(InvalidInputError, match="nope"):
            both.sql(text, [1, [2]] if "(?) AND" in text else [["a"], 1]).fetchall()
    assert both.sql("SELECT 1 WHERE 1 = any(?)", [[1, 2]]).fetchall() == [(1,)]
    assert repr(both.sql("SELECT ?", [float("nan")]).fetchone()) == "(nan,)"
    assert both.sql("SELECT ?", [pd.NaT]).fetchone() == (None,)
    key = uuid.uuid4()
    assert both.sql("SELECT ?", [key]).fetchone() == (str(key),)
    (found,) = both.sql("SELECT ?", [{"key": key, "of": [{"value": float("nan")}]}]).fetchone() or (None,)
    assert repr(found) == f"{{'key': '{key}', 'of': [{{'value': nan}}]}}"


@pytest.mark.filterwarnings("ignore:pandas only supports")
def test_readers_of_other_libraries(both: Connection) -> None:
    """Libraries such as pandas and polars read a query by a connection's cursor, as from other databases."""
    text = "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS t(n, s) ORDER BY n"
    assert pd.read_sql(text, both)["n"].tolist() == [1, 2]
    assert pl.read_database(text, both).rows(named=True) == [{"n": 1, "s": "a"}, {"n": 2, "s": None}]
    with both.cursor() as cursor:
        with pytest.raises(InvalidInputError, match="execute"):
            cursor.fetchone()
        assert cursor.description is None
        described = cursor.execute(text).description
        assert [column[0] for column in described or ()] == ["n", "s"]
        assert (cursor.fetchone(), cursor.fetchmany(), cursor.fetchall()) == ((1, "a"), [(2, None)], [])


def test_a_result_that_asks_a_model_is_no_table(embedded: Connection) -> None:
    """A query does not run an earlier result that costs calls; after a run, the result is a table."""
    costly = embedded.sql("SELECT ai_gen('x {a}', a) AS b FROM (VALUES ('a')) AS v(a)")
    with pytest.raises(InvalidInputError, match=r"costly\.arrow\(\) runs it"):
        embedded.sql("SELECT * FROM costly")
    assert len(costly) == len(embedded.sql("SELECT * FROM costly")) == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "localhost:41337"])
def test_addresses_without_a_scheme(address: str) -> None:
    """The error for an address of the wrong form says how to write a server's address."""
    with pytest.raises(ConfigError, match=r"write grpc://(127\.0\.0\.1:1|localhost:41337)"):
        flightllm.connect(address)
    with pytest.raises(InvalidInputError, match="empty"):
        flightllm.connect("")
    with pytest.raises(FlightLLMError, match="correct the address"):
        flightllm.connect("grpc://127.0.0.1:1")


def test_shown_results_are_plain_text(embedded: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shown result has no colours, and rich shows nothing by itself in a notebook."""
    shown: list[object] = []
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *parts: shown.append(parts))
    assert repr(embedded.sql("SELECT 1 AS a")).splitlines()[0].strip() == "a"
    assert shown == []


def test_opened_files_are_read_only(tmp_path: Path) -> None:
    """A change of an opened file says how to make a table that can change."""
    (tmp_path / "notes.csv").write_text("id\n7\n")
    connection = flightllm.connect(tmp_path / "notes.csv", config=fake(tmp_path / "home"))
    with connection, pytest.raises(PermissionDeniedError, match=r"opened file .* CREATE TABLE … AS SELECT"):
        connection.sql("INSERT INTO notes VALUES (8)")


def test_changes_run_at_once(both: Connection) -> None:
    """A change has run when `sql` returns, and says how many rows it changed."""
    both.sql("CREATE OR REPLACE TABLE changed AS SELECT 1 AS a")
    assert both.sql("INSERT INTO changed VALUES (?), (?)", [2, 3]).affected == 2
    assert both.execute("INSERT INTO changed VALUES (4) RETURNING a").fetchall() == [(4,)]
    assert repr(both.sql("DELETE FROM changed WHERE a > 2")) == "2 rows changed"
    both.sql("SET flightllm.max_calls = '3'; INSERT INTO changed VALUES (5);")
    assert both.sql("SELECT 1; SELECT sum(a) FROM changed").fetchall() == [(8,)]
    assert both.sql("SELECT value FROM system.settings WHERE name = 'flightllm.max_calls'").fetchall()
    with pytest.raises(InvalidInputError, match="one statement"):
        both.sql("SELECT 1; SELECT ?", [1])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1, 2]}),
        pl.DataFrame({"n": [1, 2]}),
        pl.LazyFrame({"n": [1, 2]}),
        pa.table({"n": [1, 2]}),
        pa.record_batch({"n": [1, 2]}),
        {"n": [1, 2]},
        [{"n": 1}, {"n": 2}],
    ],
    ids=lambda frame: f"{type(frame).__module__}.{type(frame).__name__}",
)
def test_frames_become_tables(embedded: Connection, frame: object) -> None:
    """Frames of each library become tables."""
    assert embedded.register("t", frame).sql("SELECT sum(n) FROM t").fetchall() == [(3,)]


def test_register_replaces_and_removes(both: Connection) -> None:
    """A second frame of one name replaces the first, also for a query that was planned; then the name is free."""
    both.register("Some frame", pa.table({"n": [1]}))
    planned = both.sql('SELECT n FROM "Some frame"')
    both.register("Some frame", pa.table({"n": [2]}).to_reader())
    assert both.sql('SELECT n FROM "Some frame"').fetchall() == [(2,)]
    assert planned.fetchall() in ([(1,)], [(2,)])  # a server keeps the plan and its rows
    both.unregister("Some frame")
    with pytest.raises(FlightLLMError, match="not found"):
        both.sql('SELECT n FROM "Some frame"')
    with pytest.raises(NotFoundError, match="registered"):
        both.unregister("Some frame")
    both.register("again", both.sql("SELECT 3 AS n"))
    assert both.sql("SELECT n FROM again").fetchone() == (3,)


def test_variables_are_tables(embedded: Connection) -> None:
    """A query reads a variable's frame as it is now, unless a table has the name; a planned one keeps its frame."""
    numbers = pd.DataFrame({"n": [1, 2]})
    planned = embedded.sql("SELECT sum(n) FROM Numbers")
    numbers = pd.DataFrame({"n": [10]})
    assert embedded.sql("SELECT sum(numbers.n) FROM numbers").fetchall() == [(10,)]
    numbers.loc[1] = [5]
    assert embedded.sql("SELECT sum(n) FROM numbers").fetchall() == [(15,)]
    assert planned.fetchall() == [(3,)]
    embedded.sql("CREATE TABLE text AS SELECT 'a table' AS s")
    text = pa.table({"s": ["a variable"]})
    assert text.num_rows == 1
    assert embedded.sql("SELECT s FROM text").fetchall() == [("a table",)]
    del numbers
    with pytest.raises(FlightLLMError, match="not found"):
        embedded.sql("SELECT * FROM numbers")
    frame = pa.table({"n": [1]})
    for change in ("INSERT INTO frame VALUES (2)", "UPDATE frame SET n = 2", "DELETE FROM frame", "DROP TABLE frame"):
        with pytest.raises(FlightLLMError, match=r"not found|no table"):
            embedded.sql(change)
        assert embedded.sql("SELECT n FROM frame").fetchall() == [(1,)]
    assert frame.num_rows == 1
    path = "no frame"
    with pytest.raises(FlightLLMError, match="not found"):
        embedded.sql("SELECT * FROM path")
    assert path


def test_arrow_is_uploaded_once(embedded: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of Arrow becomes a table once, as it cannot change; a frame of pandas does so for each query."""
    taken = list[str]()
    real = embedded._backend.upload

    def upload(name: str, rows: pa.RecordBatchReader) -> None:
        taken.append(name)
        real(name, rows)

    monkeypatch.setattr(embedded._backend, "upload", upload)
    fixed, other = pa.table({"n": [1]}), pd.DataFrame({"n": [5]})
    for _ in range(3):
        assert embedded.sql("SELECT fixed.n + other.n FROM fixed, other").fetchall() == [(6,)]
    assert (taken.count("fixed"), taken.count("other")) == (1, 3)
    fixed = pa.table({"n": [2]})
    assert fixed.num_rows == len(other)
    assert embedded.sql("SELECT n FROM fixed").fetchall() == [(2,)]
    del fixed
    with pytest.raises(FlightLLMError, match="not found"):
        embedded.sql("SELECT n FROM fixed")


def test_variables_stay_here(address: str) -> None:
    """No query uploads a variable to a server."""
    with flightllm.connect(address) as connection:
        mine = pa.table({"n": [1]})
        with pytest.raises(FlightLLMError, match="not found"):
            connection.sql("SELECT * FROM mine")
        assert mine.num_rows == 1


def test_cost_before_and_after(both: Connection) -> None:
    """A result predicts its cost, and then tells what it spent; showing it does not run what asks a model."""
    result = both.sql("SELECT ai_gen('Name {n}', n::text) AS name FROM generate_series(1, 3) AS s(n)")
    predicted = result.cost()
    assert (predicted.calls, predicted.spent) == (3, False)
    assert "3 model calls" in repr(result)
    assert "3 model calls" in result._repr_html_()
    assert "name: string" in repr(result)
    assert not result.has_run
    assert "ai_gen" in result.explain()
    result.show()
    assert (result.cost().calls, result.cost().spent) == (3, True)
    assert "(3 rows)" in repr(result)
    assert both.sql("SELECT 1").cost().calls == 0
    again = both.execute("SELECT ai_gen('Name {n}', n::text) AS name FROM generate_series(1, 3) AS s(n)")
    assert (again.cost().calls, again.cost().cached) == (0, 3)


def test_repr_shows_few_rows(embedded: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    """A result without AI calls shows its first rows; HTML escapes what the rows have."""
    many = embedded.sql("SELECT n, '<b>' AS tag FROM generate_series(1, 30) AS s(n)")
    assert "first 20 rows; 30 rows in all" in repr(many)
    assert "&lt;b&gt;" in many._repr_html_()
    assert "<b>" not in many._repr_html_()
    many.show(2)
    assert "first 2 rows; 30 rows in all" in capsys.readouterr().out
    assert "(0 rows)" in repr(embedded.sql("SELECT 1 AS a WHERE false"))
    assert "Projection" in repr(embedded.sql("EXPLAIN SELECT 1"))
    assert isinstance(session := embedded._backend, EmbeddedSession)
    assert session._opened.database._services.engines.opened() == {}


def sent_by(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the text of each statement that the connection sends, and each run of a query."""
    sent = list[str]()
    backend = connection._backend
    real = backend.send

    def send(sql: str, parameters: pa.RecordBatch | None, watch: Watch) -> Planned | Change:
        sent.append(sql)
        found = real(sql, parameters, watch)
        return found if isinstance(found, Change) else Counted(found, sent)

    monkeypatch.setattr(backend, "send", send)
    return sent


class Counted:
    """A planned query that notes its runs."""

    def __init__(self, planned: Planned, sent: list[str]) -> None:
        self.schema, self.is_free = planned.schema, planned.is_free
        self._planned, self._sent = planned, sent

    def run(self, watch: Watch) -> Run:
        """Run the query."""
        self._sent.append("run")
        return self._planned.run(watch)


def test_a_shown_result_runs_once(embedded: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook shows text and HTML, and then rows are read: the query is planned once and runs once."""
    sent = sent_by(embedded, monkeypatch)
    result = embedded.sql("SELECT n FROM generate_series(1, 30) AS s(n)")
    assert "30 rows in all" in repr(result)
    assert "30 rows in all" in result._repr_html_()
    assert len(result.df()) == 30
    assert sent == ["SELECT n FROM generate_series(1, 30) AS s(n)", "run"]


def test_a_long_result_is_not_kept(embedded: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result with many rows is shown without reading them all, and says that its rows take a further run."""
    sent = sent_by(embedded, monkeypatch)
    result = embedded.sql("SELECT n FROM generate_series(1, 3000000) AS s(n)")
    for text in (repr(result), result._repr_html_()):
        assert "first 20 rows; more rows follow, and .df() runs the query again" in text
    assert (sent.count("run"), result.has_run) == (1, False)
    assert len(result) == 3_000_000


def test_a_costly_result_is_predicted_once(both: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, HTML and `cost` before a run share one prediction."""
    sent = sent_by(both, monkeypatch)
    result = both.sql("SELECT ai_gen('once {n}', n::text) FROM generate_series(1, 2) AS s(n)")
    assert "2 model calls" in repr(result)
    assert "2 model calls" in result._repr_html_()
    assert result.cost().calls == 2
    assert len([text for text in sent if "EXPLAIN" in text]) == 1


def test_no_message_of_its_own(address: str) -> None:
    """Statements without AI functions cost a server no further messages, until `cost` is called."""
    with flightllm.connect(address) as one, one.cursor() as other:
        one.sql("CREATE OR REPLACE TABLE silent AS SELECT 1 AS a")
        changed = one.sql("INSERT INTO silent VALUES (2)")
        one.sql("SELECT a FROM silent").fetchall()
        listed = (
            "SELECT sql FROM system.queries WHERE session_id IN (SELECT session_id FROM system.queries"
            " WHERE sql LIKE 'INSERT INTO silent%')"
        )
        found = [text for (text,) in other.sql(listed).fetchall()]
        assert len([text for text in found if text.startswith(BOOKKEEPING)]) == 1  # of `connect`
        assert changed.cost().calls == 0


@pytest.mark.parametrize("how", ["query", "change"])
def test_ctrl_c(both: Connection, how: str) -> None:
    """Ctrl-C ends a statement; no further calls are made, and the connection stays usable."""
    text = LONG.format(how)
    if how == "change":
        text = f"CREATE OR REPLACE TABLE interrupted AS {text}"
    begun = threading.Thread(target=_when_asked, args=(both.cursor(), how, _press), daemon=True)
    begun.start()
    with pytest.raises(KeyboardInterrupt):
        both.execute(text)
    begun.join()
    ended = f"SELECT status FROM system.queries WHERE sql LIKE '%{how} {{n}}%' AND calls > 0"
    await_true(lambda: both.sql(ended).fetchall() == [("cancelled",)])
    assert both.sql("SELECT 1").fetchall() == [(1,)]


def test_interrupt(both: Connection) -> None:
    """Another thread stops a statement; the connection stays usable."""
    other = both.cursor()
    begun = threading.Thread(target=_when_asked, args=(other, "thread", both.interrupt), daemon=True)
    begun.start()
    with pytest.raises(CancelledError):
        both.sql(LONG.format("thread")).arrow()
    begun.join()
    assert both.sql("SELECT 1").fetchall() == [(1,)]


def _when_asked(other: Connection, word: str, act: Callable[[], object]) -> None:
    """Act once a statement with this word has asked its model."""
    text = f"SELECT calls FROM system.queries WHERE sql LIKE '%{word} {{n}}%' AND calls > 0"
    with other:
        await_true(lambda: bool(other.sql(text).fetchall()))
    act()


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_reading_no_further_stops_a_query(both: Connection) -> None:
    """A reader that leaves before the last batch ends the query."""
    batches = both.sql("SELECT n FROM generate_series(1, 3000000) AS s(n)").batches()
    next(batches)
    batches.close()
    text = "SELECT status FROM system.queries WHERE sql LIKE '%3000000%' AND sql NOT LIKE '%status%'"
    await_true(lambda: ("cancelled",) in both.sql(text).fetchall())


def test_limits_hold(embedded: Connection) -> None:
    """A statement ends at its session's time limit, as over a server."""
    embedded.sql("SET flightllm.timeout = '0'")
    with pytest.raises(FlightLLMError, match=r"flightllm\.timeout"):
        embedded.sql("SELECT count(*) FROM generate_series(1, 100000000)").arrow()


@pytest.mark.slow
def test_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server takes a token, or a user and a password, from options, the address or the environment."""
    with closing(Database.open(fake(tmp_path))) as database:
        database.access.store.add_user(User("ann", "readonly"), "a good one")
        login = Login(database.access.store, database.config.auth, "the token")
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=login)
        host = server.uri.removeprefix("grpc://")
        try:
            for connection in (
                flightllm.connect(server.uri, token="the token"),
                flightllm.connect(f"flightllm://{host}", user="ann", password="a good one"),
                flightllm.connect(f"grpc://ann:a%20good%20one@{host}"),
            ):
                with connection:
                    assert connection.sql("SELECT 1").fetchall() == [(1,)]
            with (
                flightllm.connect(server.uri, user="ann", password="a good one") as ann,
                pytest.raises(PermissionDeniedError),
            ):
                ann.sql("CREATE TABLE t AS SELECT 1 AS a")
            with pytest.raises(UnauthenticatedError, match="token"):
                flightllm.connect(server.uri, token="another")
            with pytest.raises(UnauthenticatedError, match="password"):
                flightllm.connect(server.uri, user="ann", password="a bad one")
            monkeypatch.setenv("FLIGHTLLM_TOKEN", "the token")
            flightllm.connect(server.uri).close()
        finally:
            server.drain(0)


def test_settings(tmp_path: Path) -> None:
    """Settings of `connect` hold for the session, and a wrong one is an error."""
    with (
        flightllm.connect(fake(tmp_path), settings={"max_calls": 2, "cache": False}) as connection,
        pytest.raises(FlightLLMError, match="max_calls"),
    ):
        connection.sql("SELECT ai_gen('a {n}', n::text) FROM generate_series(1, 9) AS s(n)").arrow()
    with pytest.raises(InvalidInputError, match="nothing_known"):
        flightllm.connect(fake(tmp_path), settings={"nothing_known": 1})


def test_threads(both: Connection) -> None:
    """Several threads use one connection, each with rows of its own."""
    found = dict[int, object]()

    def ask(number: int) -> None:
        found[number] = both.sql("SELECT ?::BIGINT AS n", [number]).fetchall()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [(number,)] for number in range(8)}


def test_threads_side_by_side(address: str) -> None:
    """A statement of one thread runs while a change of another thread waits for its model."""
    with flightllm.connect(address) as connection:
        long = f"CREATE OR REPLACE TABLE beside AS {LONG.format('beside')}"
        failed = list[FlightLLMError]()

        def change() -> None:
            try:
                connection.sql(long)
            except FlightLLMError as error:
                failed.append(error)

        thread = threading.Thread(target=change)
        thread.start()
        running = "SELECT calls FROM system.queries WHERE sql LIKE '%beside {n}%' AND calls > 0 AND status = 'running'"
        await_true(lambda: bool(connection.sql(running).fetchall()))
        connection.interrupt()
        thread.join(60)
        assert [type(error) for error in failed] == [CancelledError]


def test_files_and_folders(tmp_path: Path) -> None:
    """Files are tables by their names; a list takes several, and a dict takes frames."""
    (tmp_path / "notes.csv").write_text("id,note\n1,tea\n2,milk\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "others.csv").write_text("id\n7\n")
    config = fake(tmp_path / "data")
    with flightllm.connect(tmp_path / "notes.csv", config=config) as one:
        assert one.sql("SELECT note FROM notes WHERE id = 2").fetchall() == [("milk",)]
    with flightllm.connect([str(tmp_path / "notes.csv"), tmp_path / "more"], config=config) as two:
        assert two.sql("SELECT count(*) FROM notes, others").fetchall() == [(2,)]
    with flightllm.connect({"t": {"a": [1]}}, config=config) as three:
        assert three.sql("SELECT a FROM t").fetchall() == [(1,)]
    with pytest.raises(ConfigError, match="no file or folder"):
        flightllm.connect(tmp_path / "missing.csv", config=config)


def test_tables_stay_in_a_data_folder(tmp_path: Path) -> None:
    """Connections of one process share a data folder; its tables stay; other settings are refused meanwhile."""
    config, folder = fake(tmp_path / "answers"), tmp_path / "mine"
    with flightllm.connect(config, data_folder=folder) as one, flightllm.connect(config, data_folder=folder) as two:
        one.sql("CREATE TABLE kept AS SELECT 1 AS a")
        assert two.sql("SELECT a FROM kept").fetchall() == [(1,)]
        with pytest.raises(InvalidInputError, match="other settings"):
            flightllm.connect(fake(tmp_path / "answers", 5), data_folder=folder)
    with flightllm.connect(config, data_folder=folder) as three:
        assert three.sql("SELECT a FROM kept").fetchall() == [(1,)]
    with flightllm.connect(config) as four, pytest.raises(FlightLLMError, match="not found"):
        four.sql("SELECT a FROM kept")


def test_wrong_targets(tmp_path: Path) -> None:
    """What cannot be opened is an error that says what can."""
    with pytest.raises(InvalidInputError, match=r"connect\(\{'name': frame\}\)"):
        flightllm.connect(pd.DataFrame({"n": [1]}))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="option of a server"):
        flightllm.connect(token="secret")
    with pytest.raises(InvalidInputError, match="option of a database"):
        flightllm.connect("grpc://127.0.0.1:1", model="demo")
    with pytest.raises(FlightLLMError, match="no server answers"):
        flightllm.connect("grpc://127.0.0.1:1")
    with pytest.raises(InvalidInputError, match="password of ann"):
        flightllm.connect("grpc+tls://ann@localhost")
    with pytest.raises(InvalidInputError, match="HOST"):
        flightllm.connect("grpc://")
    with pytest.raises(ConfigError, match="nowhere"):
        flightllm.connect(tmp_path / "nowhere.toml")


def test_closed(both: Connection) -> None:
    """A closed connection says so, also to its results; closing twice is no error."""
    result, other = both.sql("SELECT 1"), both.cursor()
    both.close()
    both.close()
    assert both.closed
    for act in (lambda: both.sql("SELECT 1"), result.arrow, lambda: both.register("t", {"a": [1]}), both.cursor):
        with pytest.raises(InvalidInputError, match="closed: connect again"):
            act()
    assert other.sql("SELECT 1").fetchall() == [(1,)]
    other.close()


def test_an_error_inside_with(tmp_path: Path) -> None:
    """The connection closes with an error of its block, which is raised unchanged."""
    with pytest.raises(ZeroDivisionError), flightllm.connect(fake(tmp_path)) as connection:
        raise ZeroDivisionError
    assert connection.closed


_LAZY = """
import sys
import flightllm
with flightllm.connect({"t": {"body": ["a text"]}}) as connection:
    result = connection.sql("SELECT body FROM t")
    print(result, result.cost(), result.fetchall(), result.explain(), connection.sql("SHOW TABLES"))
assert "torch" not in sys.modules
"""


@pytest.mark.slow
def test_a_model_loads_with_its_first_call(tmp_path: Path) -> None:
    """The demonstration model is not loaded for statements without AI calls, nor to show them or tell their cost."""
    home = {**os.environ, "FLIGHTLLM_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-W", "ignore", "-c", _LAZY]
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a text" in done.stdout


_SCRIPT = """
import glob, os, sys, tempfile
tempfile.tempdir = sys.argv[1]
import flightllm
connection = flightllm.connect(engine="fake")
assert connection.sql("SELECT 1").fetchall() == [(1,)]
assert glob.glob(sys.argv[1] + "/flightllm-open-*")
child = os.fork()
if not child:
    try:
        connection.sql("SELECT 1")
    except flightllm.FlightLLMError as error:
        print(error, flush=True)
    try:
        flightllm.connect(engine="fake")
    except flightllm.FlightLLMError as error:
        print(error, flush=True)
    connection.close()
    sys.exit(0)
os.waitpid(child, 0)
print(connection.sql("SELECT 2").fetchall())
"""


@pytest.mark.slow
def test_fork_and_exit_without_close(tmp_path: Path) -> None:
    """A forked process gets an error and leaves the tables alone; a program that ends without close leaves nothing."""
    home = {**os.environ, "FLIGHTLLM_HOME": str(tmp_path / "home")}
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(tmp_path / "temporary")]
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "was forked: start it by" in done.stdout
    assert "after that had opened a database" in done.stdout
    assert "[(2,)]" in done.stdout
    assert list((tmp_path / "temporary").iterdir()) == []
