"""`%sql` and `%%sql`, in a shell of IPython and in a real kernel."""

import builtins
import importlib.util
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import flightllm
from flightllm.connection.backend import Change, Planned, Watch
from flightllm.connection.connection import Connection
from flightllm.connection.magic import Options, SqlMagic, read_options
from flightllm.connection.result import Result
from flightllm.errors import InvalidInputError
from tests.connection.conftest import fake
from tests.servers import await_true

usage_error = pytest.importorskip("IPython.core.error").UsageError


class Shell:
    """The part of a shell that the magics use."""

    def __init__(self) -> None:
        self.user_ns: dict[str, object] = {}
        self.push = self.user_ns.update


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Return a shell with a connection to a model with a price, `con`."""
    made = Shell()
    with flightllm.connect(fake(tmp_path, price=1_000_000.0)) as connection:
        made.user_ns["con"] = connection
        yield made


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("SELECT 1", Options("SELECT 1")),
        ("--connection con SELECT 1", Options("SELECT 1", connection="con")),
        ("--yes --ask-above=2 name << SELECT 1", Options("SELECT 1", "", 2.0, "name", shows=False)),
        ("name =<< SELECT 1 << 2", Options("SELECT 1 << 2", assigned="name")),
        ("--connection con\nSELECT 1", Options("SELECT 1", connection="con")),
        ("--yes\nSELECT 1 -- a comment", Options("SELECT 1 -- a comment", ask_above=None)),
        ("-- a comment\nSELECT 1", Options("-- a comment\nSELECT 1")),
    ],
)
def test_options(line: str, options: Options) -> None:
    """Options and a variable's name come before the SQL."""
    assert read_options(line) == options


@pytest.mark.parametrize("line", ["--connection", "--ask-above much SELECT 1"])
def test_wrong_options(line: str) -> None:
    """An option without a value that can be its own is an error."""
    with pytest.raises(InvalidInputError, match="needs"):
        read_options(line)


def test_statements(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """The cost stands before and after; variables are tables and parameters, and take results."""
    magic = SqlMagic(shell)
    assert magic.sql("con") is None
    shell.user_ns.update(rows=__import__("pandas").DataFrame({"n": [1, 2]}), least=2)
    shown = magic.sql("", "SELECT n FROM rows WHERE n >= :least")
    assert shown is not None
    assert shown.fetchall() == [(2,)]
    assert capsys.readouterr().out == ""
    text = "--yes named << SELECT ai_gen('Name {n}', n::text) AS name FROM rows;"
    assert magic.sql(text) is None
    assert isinstance(named := shell.user_ns["named"], Result)
    assert len(named) == 2
    before, after = capsys.readouterr().out.splitlines()
    assert before.startswith("predicted: 2 model calls")
    assert after.startswith("spent: 2 model calls")
    made = magic.sql("CREATE TABLE u AS SELECT 1 AS a; SELECT a FROM u")
    assert made is not None
    assert made.fetchall() == [(1,)]
    with pytest.raises(usage_error, match="'missing', which the notebook does not have"):
        magic.sql("SELECT :missing")
    with pytest.raises(usage_error, match="not found"):
        magic.sql("SELECT * FROM nowhere")


def test_plain_sql_is_not_explained(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain SQL is sent once, without a prediction; a view with AI calls is predicted, and needs a yes."""
    magic, connection = SqlMagic(shell), shell.user_ns["con"]
    assert isinstance(connection, Connection)
    connection.sql("CREATE VIEW named AS SELECT ai_gen('Name {n}', n) AS name FROM (VALUES ('a')) AS v(n)")
    sent, real = list[str](), connection._backend.send

    def send(sql: str, parameters: pa.RecordBatch | None, watch: Watch) -> Planned | Change:
        sent.append(sql)
        return real(sql, parameters, watch)

    monkeypatch.setattr(connection._backend, "send", send)
    magic.sql("--connection con SELECT 1 AS a")
    magic.sql("CREATE TABLE t AS SELECT 2 AS a")
    assert sent == ["SELECT 1 AS a", "CREATE TABLE t AS SELECT 2 AS a"]
    monkeypatch.setattr(builtins, "input", lambda _: "n")
    with pytest.raises(usage_error, match="--yes runs it"):
        magic.sql("SELECT name FROM named")


@pytest.mark.parametrize("answer", ["y", "n", None])
def test_costly_statements(shell: Shell, monkeypatch: pytest.MonkeyPatch, answer: str | None) -> None:
    """A costly statement runs after a yes; without anybody who can answer, only with --yes."""

    def answered(question: str) -> str:
        assert "more than $1.00" in question
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr(builtins, "input", answered)
    magic, text = SqlMagic(shell), "CREATE TABLE u AS SELECT ai_gen('Name {n}', n) AS name FROM (VALUES ('a')) AS v(n)"
    if answer == "y":
        magic.sql(f"--connection con {text}")
        return
    with pytest.raises(usage_error, match="--yes runs it"):
        magic.sql(f"--connection con {text}")
    assert magic.sql(f"--yes {text}") is not None


def test_a_closed_connection(shell: Shell) -> None:
    """A closed connection is an error, and never becomes an empty database."""
    magic = SqlMagic(shell)
    magic.sql("con")
    shell.user_ns["con"].close()  # type: ignore[attr-defined]
    for line in ("con", "SELECT 1", "--connection con SELECT 1"):
        with pytest.raises(usage_error, match="closed"):
            magic.sql(line)


@pytest.mark.parametrize(("line", "cell"), [("--yess", "SELECT 1"), ("--yes --dry-run SELECT 1", None)])
def test_unknown_options(shell: Shell, line: str, cell: str | None) -> None:
    """An unknown option is an error with the options."""
    with pytest.raises(usage_error, match=r"no option --(yess|dry-run): the options are --connection"):
        SqlMagic(shell).sql(line, cell)


def test_help(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` shows the options, and a comment in a cell is no option."""
    assert SqlMagic(shell).sql("--help") is None
    assert "--ask-above DOLLARS" in capsys.readouterr().out
    assert read_options("\n--later\nSELECT 1").text == "--later\nSELECT 1"


def test_files_are_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's name opens it, once."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.csv").write_text("id\n7\n")
    magic = SqlMagic(Shell())
    for _ in range(2):
        assert magic.sql("notes.csv") is None
    result = magic.sql("SELECT id FROM notes")
    assert result is not None
    assert result.fetchall() == [(7,)]
    assert len(magic._opened) == 1
    magic._opened["notes.csv"].close()
    for name in ("absent.csv", "data/absent"):
        with pytest.raises(usage_error, match="absent"):
            magic.sql(name)


_CELLS = (
    """import flightllm
%load_ext flightllm
con = flightllm.connect("ADDRESS")""",
    "%%sql --connection con\nSELECT n, '<b>' AS tag FROM generate_series(0, 1) AS s(n)",
    "%sql names << SELECT 1",
    "names.df()",
    "%sql SELECT ai_gen('stop {n}', n::text) AS answer FROM generate_series(1, 4000) AS s(n)",
    "n = 'variable'\n%sql SELECT 2 AS after, '{n}' AS field",
    "%load_ext sql\n%sql ADDRESS --alias server",
    "%config SqlMagic.feedback = 0\n%sql SELECT n, 'i' AS tag FROM generate_series(1, 2) AS s(n)",
    "%%sql counts <<\nSELECT count(ai_gen('jupysql {n}', n::text)) AS c FROM generate_series(1, 2) AS s(n)",
    "counts.DataFrame()['c'].tolist()",
)
_STOPPED = "SELECT calls, status FROM system.queries WHERE sql LIKE 'SELECT ai_gen(''stop%'"


def test_a_real_kernel(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of these magics and of JupySQL run in Jupyter's kernel.

    Its stop button ends a statement, and no call is made after that; the connection stays usable.
    """
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    if importlib.util.find_spec("jupysql_plugin") is None:
        pytest.skip("jupysql is not installed")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLOOMBER_STATS_ENABLED", "false")
    place = address.replace("grpc://", "flightllm://")
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source.replace("ADDRESS", place)) for source in _CELLS]
    )
    client = nbclient.NotebookClient(book, timeout=120, allow_errors=True, resources={"metadata": {"path": tmp_path}})
    with flightllm.connect(address) as watching:

        def stop() -> None:
            await_true(lambda: any(calls for calls, _ in watching.sql(_STOPPED).fetchall()))
            os.kill(client.km.provisioner.pid, signal.SIGINT)

        def begun(cell: object, cell_index: int) -> None:
            del cell
            if cell_index == 4:
                threading.Thread(target=stop, daemon=True).start()

        client.on_cell_execute = begun
        client.execute()
        outputs = [cell["outputs"] for cell in book["cells"]]
        [(calls, status)] = watching.sql(_STOPPED).fetchall()
        assert (calls < 4000, status) == (True, "cancelled")
        assert watching.sql(_STOPPED).fetchall() == [(calls, status)]
    assert outputs[0] == []
    assert "&lt;b&gt;" in outputs[1][-1]["data"]["text/html"]
    assert outputs[2] == []
    assert "dataframe" in outputs[3][-1]["data"]["text/html"]
    assert [one["ename"] for one in outputs[4] if one["output_type"] == "error"] == ["KeyboardInterrupt"]
    assert "(1 row)" in outputs[5][-1]["data"]["text/plain"]
    assert "{n}" in outputs[5][-1]["data"]["text/plain"]
    assert "<td>2</td>" in outputs[7][-1]["data"]["text/html"]  # JupySQL escapes no texts
    assert outputs[9][-1]["data"]["text/plain"] == "[2]"
