"""The shell: a real server gets each statement; names are completed, and a costly statement needs a yes."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from flightllm.cli import main
from flightllm.cli.opened import opened_server
from flightllm.cli.price import confirmed, forecast
from flightllm.cli.prompt import NameCompleter, is_whole
from flightllm.client import BOOKKEEPING, Client
from flightllm.config import Config, EngineConfig
from flightllm.errors import CancelledError
from tests.servers import await_true

DEAR = "SELECT count(ai_filter('Big? {body}', body)) FROM tickets"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Return a client of a server whose model has a price: a dollar for each token of an answer, in the main."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "tickets.csv").write_text("id;body;Große Zahl\n1;a;1\n2;b;2\n")
    engine = EngineConfig("fake", price_input=0.0, price_output=1_000_000.0)
    config = Config(engine=engine, tables={"tickets": folder / "tickets.csv"}, data_folder=folder / "home")
    with opened_server(config) as uri, Client(uri) as opened:
        yield opened


def test_typed_statements_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Statements over two lines or pasted, commands and a wrong statement have answers, and the history is kept."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    path = tmp_path / "tickets.csv"
    path.write_text("id;body\n1;a\n2;b\n")
    typed = [
        "SELECT count(*) AS rows_there\rFROM tickets;\r",
        "\\d tickets\r",
        "SELECT nope FROM tickets;\r",
        "\\copy\r",
    ]
    typed.append("SELECT 1 AS first; SELECT 2 AS second;\r")
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text("".join([*typed, "\\q\r"]))
        pipe.close()  # a prompt that misses a key finds the end of the input, and does not wait for ever
        main.main(["shell", "--engine", "fake", "--open", str(path)], standalone_mode=False)
    said = capfd.readouterr()
    words = said.out.split()
    assert words[words.index("rows_there") + 2] == "2"
    assert words[words.index("first") + 2] == "1"
    assert words[words.index("second") + 2] == "2"
    assert "body" in said.out
    assert "error: " in said.err
    assert "nope" in said.err
    assert "a table or a query in parentheses must follow COPY" in said.err
    assert "rows_there" in (tmp_path / "home" / "shell_history").read_text()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT 1 -- no;", False),
        ("\\d t", True),
        ("exit", True),
        ("help", True),
        (".tables", True),
        ("SELECT .5", False),
        (" ", True),
    ],
)
def test_what_enter_ends(text: str, whole: bool) -> None:
    """Enter ends a text whose last token is a semicolon, and commands of the shell."""
    assert is_whole(text) == whole


def test_completion(client: Client) -> None:
    """Tables, columns, functions and keywords complete the word before the cursor; odd names come in quotes."""
    names = NameCompleter(client)
    names.refresh()

    def completed(text: str) -> list[str]:
        return [one.text for one in names.get_completions(Document(text), CompleteEvent())]

    assert completed("SELECT bo") == ["body"]
    assert completed("SELECT gro") == ['"Große Zahl"', "GROUP"]
    assert completed("SELECT lower(bo") == ["body"]
    assert completed("SELECT id FROM tick") == ["tickets"]
    assert completed("SELECT ai_fil") == ["ai_filter"]
    assert "system.queries" in completed("FROM system.q")
    assert completed("SELECT ") == []


def test_a_dear_statement_is_asked_about(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement runs unasked up to a price, above it only after a yes; the question has calls, tokens and dollars."""
    asked = list[str]()

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr("flightllm.cli.price.click.confirm", confirm)
    found = forecast(client, DEAR)
    assert found is not None
    assert (found.calls, found.price) == (2, 2.0)
    assert confirmed(client, DEAR, above=2.0)
    assert asked == []
    assert not confirmed(client, DEAR, above=1.0)
    assert asked == [f"predicted: 2 model calls, {found.tokens:,} tokens, $2.00. Run it?"]
    assert forecast(client, "SELECT count(*) FROM tickets") is None
    assert forecast(client, "SELECT ai_filter(") is None


@pytest.mark.parametrize(
    ("engine", "explained"),
    [
        (EngineConfig("fake"), 0),
        (EngineConfig("fake", price_input=0.0, price_output=0.0), 0),
        (EngineConfig("fake", price_output=1.0), 1),
    ],
    ids=["no price", "no cost", "a price"],
)
def test_only_a_price_needs_a_prediction(tmp_path: Path, engine: EngineConfig, explained: int) -> None:
    """Where no model has a price, the server gets no EXPLAIN before a statement."""
    (tmp_path / "tickets.csv").write_text("id;body\n1;a\n2;b\n")
    config = Config(engine=engine, tables={"tickets": tmp_path / "tickets.csv"}, data_folder=tmp_path / "home")
    with opened_server(config) as uri, Client(uri) as client:
        assert confirmed(client, DEAR, above=1.0)
        counted = f"SELECT count(*) AS n FROM system.queries WHERE sql LIKE '{BOOKKEEPING}EXPLAIN%'"
        assert [row["n"] for batch in client.query(counted)[1] for row in batch.to_pylist()] == [explained]


def test_ctrl_c_at_the_question_means_no(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C where a person is asked ends the statement alone, so that the shell goes on."""

    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
    assert not confirmed(client, DEAR, above=1.0)


def test_stopping_leaves_other_clients_alone(tmp_path: Path) -> None:
    """A client stops its own statement, though another client has started one of the same text since."""
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    slow = EngineConfig("fake", options={"latency_ms": 3_600_000})
    config = Config(engine=slow, tables={"t": tmp_path / "t.csv"}, data_folder=tmp_path / "home")
    sql = "CREATE TABLE IF NOT EXISTS k AS SELECT ai_filter('Big? {a}', a) AS big FROM t"
    with opened_server(config) as uri, Client(uri) as first, Client(uri) as second, Client(uri) as watching:

        def states() -> list[str]:
            text = f"SELECT status FROM system.queries WHERE sql LIKE '{sql[:30]}%' ORDER BY started_at"
            return [row["status"] for batch in watching.query(text)[1] for row in batch.to_pylist()]

        def run(client: Client) -> None:
            with suppress(CancelledError):
                client.query(sql)

        threads = [Thread(target=run, args=(client,)) for client in (first, second)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            await_true(lambda number=number: states() == ["running"] * number)  # type: ignore[misc]
        first.stop()
        await_true(lambda: states() == ["cancelled", "running"])
        second.stop()
        for thread in threads:
            thread.join()
        assert states() == ["cancelled", "cancelled"]


def test_a_file_of_statements(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Statements that come from a file run one after the other; the first that fails ends the shell with an error."""
    path = tmp_path / "tickets.csv"
    path.write_text("id;body\n1;a\n2;b\n")
    command = ["--engine", "fake", "--open", str(path)]
    good = CliRunner().invoke(
        main, ["shell", *command], input="SELECT count(*) AS rows_there FROM tickets;\nSELECT 7 AS n;"
    )
    assert good.exit_code == 0
    assert "rows_there" in good.output
    assert "7" in good.output
    short = CliRunner().invoke(main, [str(path), "--engine", "fake"], input="\\d\nSELECT 7 AS n;")
    assert "tickets" in short.output
    assert "vector_indexes" not in short.output
    by_option = CliRunner().invoke(main, ["--open", str(path), "--engine", "fake"], input="\\dS\nSELECT 7 AS n;")
    assert "vector_indexes" in by_option.output
    by_name = CliRunner().invoke(main, ["shell", str(path), "--engine", "fake"], input="\\d\nSELECT 7 AS n;")
    assert (by_name.exit_code, "tickets" in by_name.output) == (0, True)
    bad = CliRunner().invoke(main, ["shell", *command], input="SELECT nope FROM tickets; SELECT 7 AS n")
    assert bad.exit_code == 1
    assert "7" not in bad.stdout
    capfd.readouterr()


def test_without_a_terminal() -> None:
    """`flightllm` alone shows its help where nobody can type."""
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 0
    assert "Usage: main" in result.output
