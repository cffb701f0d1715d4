"""The command line without a server: help, one-line errors, doctor, functions."""

import os
import re
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from flightllm.cli import COMMANDS, main
from flightllm.cli.doctor import EXTRAS, _engine_extras
from flightllm.config import EngineConfig

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs `flightllm` with arguments, its data in a temporary folder."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLIGHTLLM_URI", raising=False)

    def invoke(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=text)

    return invoke


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run: Run, name: str) -> None:
    """`--help` works for each command and its examples keep their lines."""
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")
    assert "\\b" not in result.output


def test_overview_names_every_command(run: Run) -> None:
    """The first thing a user sees lists all commands with a full line each."""
    output = run("--help").output
    for name in COMMANDS:
        assert f"\n  {name} " in output


@pytest.mark.parametrize("name", COMMANDS)
def test_overview_says_what_a_command_says(name: str) -> None:
    """The overview imports no command, so its text about a command is written twice, and equal."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.get_short_help_str(200) == COMMANDS[name][1]
    assert command.name in {name, "cancel"}


_HEAVY = ("datafusion", "sqlglot", "structlog", "jsonschema", "pyarrow.parquet", "pyarrow.compute", "prompt_toolkit")


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--version"], ("rich", "pyarrow", "numpy", "flightllm.config", *_HEAVY)),
        (["--help"], ("rich", "pyarrow", "numpy", "flightllm.config", *_HEAVY)),
        (["query", "--uri", "grpc://127.0.0.1:1", "SELECT 1;"], ("rich.progress", "flightllm.sql", *_HEAVY)),
    ],
    ids=["version", "help", "query"],
)
def test_a_command_imports_only_what_it_needs(arguments: list[str], absent: tuple[str, ...]) -> None:
    """A command that needs no server's part imports none, so that it starts at once."""
    modules = _imported(arguments)
    assert "flightllm.cli" in modules
    assert modules.isdisjoint(absent)


def test_a_file_without_ai_calls_starts_no_model(tmp_path: Path) -> None:
    """A query that calls no model does not import the packages of one, in no thread."""
    (tmp_path / "t.csv").write_text("a\n1\n", encoding="utf-8")
    modules = _imported(["query", "--open", str(tmp_path / "t.csv"), "SELECT a FROM t"])
    assert "flightllm.session" in modules
    assert modules.isdisjoint({"torch", "transformers", "flightllm.engines.local"})


def _imported(arguments: list[str]) -> set[str]:
    """Return the modules that a process has imported at the end of a command."""
    code = "import sys\nfrom flightllm.cli import main\nmain(sys.argv[1:], standalone_mode=False)"
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{code}"
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    return set(ran.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("serve", "--config", "absent.toml"), "error: absent.toml: cannot be read"),
        (("serve", "--listen", "nowhere"), "error: [server] listen: expected HOST:PORT, got 'nowhere'"),
        (("query", "--uri", "grpc://127.0.0.1:1", "SELECT 1"), "error: no server answers at grpc://127.0.0.1:1"),
        (("tables", "--uri", "grpc://127.0.0.1:1"), "error: no server answers at grpc://127.0.0.1:1"),
        (("functions", "--config", "absent.toml"), "error: absent.toml: cannot be read"),
        (("query", "--uri", "127.0.0.1:31337", "SELECT 1"), "error: '127.0.0.1:31337' is not the address of a server"),
        (("serve", "--table", "a=/x", "--table", "a=/y"), "error: --table a=/x and --table a=/y: give each table"),
        (("serve", "--table", "a=/x", "--table", "A=/y"), "error: the tables 'a' and 'A' have the same name in SQL"),
        (("serve", "--table", "1bad=/x"), "error: '1bad' is not a table name: write letters, digits and _"),
        (("doctor", "--table", "a=/x", "--table", "a=/y"), "error: --table a=/x and --table a=/y: give each table"),
    ],
)
def test_errors_of_ours_are_one_line(run: Run, arguments: tuple[str, ...], expected: str) -> None:
    """A user's mistake ends in one line that says what to do, exit code 1 and no traceback."""
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.output.startswith(expected)
    assert result.output.count("\n") == 1


def test_a_malformed_table_is_a_usage_error(run: Run) -> None:
    """`--table` without `=` is answered by click with the form it wants."""
    result = run("serve", "--table", "movies.parquet")
    assert result.exit_code == 2
    assert "expected NAME=PATH, got 'movies.parquet'" in result.output


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["functions"], True),
        (["doctor", "--listen", "127.0.0.1:0"], True),
        (["user", "list"], True),
        (["serve", "--listen", "nowhere"], True),
        (["query", "--open", "t.csv", "SELECT 1 AS one"], True),
        (["shell", "t.csv"], True),
        (["query", "--uri", "grpc://127.0.0.1:1", "SELECT 1"], False),
        (["functions", "--config", "other.toml"], False),
        (["functions", "--config", "default"], False),
    ],
)
def test_the_configuration_of_the_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], found: bool
) -> None:
    """`flightllm.toml` of the current folder is read, and said in one line; `--config` goes first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "other.toml").write_text('[engine]\nkind = "fake"\n')
    (tmp_path / "flightllm.toml").write_text('data_folder = "own"\n[engine]\nkind = "fake"\n')
    ran = run(*arguments, text="SELECT 1;")
    said = "note: flightllm.toml of this folder is the configuration; --config default leaves it out\n"
    assert ran.stderr.count(said) == found
    assert ("no model is configured" in ran.stderr) is False
    (tmp_path / "flightllm.toml").write_text("wrong")
    assert ("error: flightllm.toml: not valid TOML" in run(*arguments, text="SELECT 1;").stderr) == found


@pytest.mark.skipif(os.name != "posix", reason="owners of files")
def test_a_configuration_of_another_user_is_left_out(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that others write to, a file of theirs must not run code of theirs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flightllm.toml").write_text("wrong")
    monkeypatch.setattr("os.getuid", lambda: 4_711)
    if (tmp_path / "flightllm.toml").stat().st_uid == 0:
        os.chown(tmp_path / "flightllm.toml", 4_712, -1)
    ran = run("functions")
    assert ran.exit_code == 0
    assert "flightllm.toml here belongs to another user and is left out" in ran.stderr


def test_functions_lists_shipped_and_configured_ones(run: Run, tmp_path: Path) -> None:
    """A function file in a configured folder appears beside the shipped ones."""
    (tmp_path / "udfs").mkdir()
    (tmp_path / "udfs" / "ai_headline_of_the_tests.py").write_text(
        "from flightllm.functions import AIFunction, Kind, Parameter, text_answer\n"
        'FUNCTION = AIFunction(name="ai_headline_of_the_tests", summary="Write a headline.", returns="text",\n'
        '    parameters=(Parameter("article", Kind.FIELD),), build=lambda call: text_answer("Write a headline."))\n',
        encoding="utf-8",
    )
    (tmp_path / "c.toml").write_text('[functions]\nfolders = ["udfs"]\n', encoding="utf-8")
    output = run("functions", "--config", str(tmp_path / "c.toml")).output
    assert "ai_filter(prompt" in output
    assert "ai_headline_of_the_tests(article" in output
    assert all(len(line) < 160 for line in output.splitlines())
    for alias in ("llm", "ai_if", "ai_headings"):
        assert (alias in output) == (alias != "ai_headings")
    assert "on_error =>" in output.partition("Every AI function also takes")[2]


def test_doctor_passes_where_all_is_well(run: Run) -> None:
    """With the fake engine and a free port nothing is broken."""
    result = run("doctor", "--engine", "fake", "--listen", "127.0.0.1:0")
    assert result.exit_code == 0, result.output
    assert "all requirements are met" in result.output
    assert "engine fake" in result.output


def test_doctor_says_what_to_fix(run: Run, tmp_path: Path) -> None:
    """A taken port, a missing table and a wrong model are each named with a remedy, and the exit code is 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("doctor", "--engine", "local", "--model", str(tmp_path / "no-model"),
                     "--listen", f"127.0.0.1:{port}", "--table", f"t={tmp_path}/absent.csv")  # fmt: skip
    assert result.exit_code == 1
    assert "broken port: 127.0.0.1" in result.output
    assert "choose another: --listen" in result.output
    assert "correct [tables] t" in result.output
    assert "broken engine local: does not work" in result.output
    assert result.output.rstrip().endswith("problems to fix")


def test_a_name_in_double_quotes_may_be_anything(run: Run, tmp_path: Path) -> None:
    """What the message about a bad name advises is taken."""
    (tmp_path / "t.csv").write_text("a\n1\n", encoding="utf-8")
    result = run("doctor", "--engine", "fake", "--listen", "127.0.0.1:0", "--table", f'"1bad"={tmp_path}/t.csv')
    assert result.exit_code == 0, result.output


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fake", "local"])
def test_doctor_survives_a_data_folder_that_cannot_be(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    """A folder nobody can make is a finding of its own and of all that need it, not a traceback."""
    if engine == "local":
        pytest.importorskip("torch")
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "file" / "x"))
    result = run("doctor", "--engine", engine, "--listen", "127.0.0.1:0")
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "broken data folder" in result.output


def test_doctor_names_the_variable_of_a_token(run: Run, tmp_path: Path) -> None:
    """A token that refers to a variable nobody set says which to set."""
    (tmp_path / "c.toml").write_text('[server]\ntoken = "env:NOT_SET_AT_ALL"\n[engine]\nkind = "fake"\n')
    result = run("doctor", "--config", str(tmp_path / "c.toml"), "--listen", "127.0.0.1:0")
    assert result.exit_code == 1
    assert "set the environment variable NOT_SET_AT_ALL" in result.output


_TOKENS = {"kind": "openai", "tokenizer": "demo"}
_EVENTS = {"kind": "vllm", "kv_events": True}


@pytest.mark.parametrize(
    ("config", "extras"),
    [
        (EngineConfig("openai"), {"openai"}),
        (EngineConfig("openai", options=_TOKENS), {"openai", "cluster"}),
        (EngineConfig("vllm", options={"kv_store": "grpc://here:1"}), {"gpu", "kvcache"}),
        (EngineConfig("cluster", options={"replicas": [{"kind": "fake"}]}), set()),
        (EngineConfig("cluster", options={"replicas": [{"kind": "local"}, _TOKENS]}), {"local", "openai", "cluster"}),
        (EngineConfig("ray", options={"replica": {"kind": "local"}}), {"ray", "local"}),
        (EngineConfig("ray", options={"replica": _EVENTS}), {"ray", "gpu", "cluster"}),
        (EngineConfig("ray", options={"replica": _EVENTS, "address": "auto"}), {"ray", "cluster"}),
        (EngineConfig("ray", options={"replica": _TOKENS, "address": "auto"}), {"ray"}),
        (EngineConfig("ray", options={"replica": {}}), {"ray"}),
    ],
)
def test_doctor_knows_which_extras_engines_need(config: EngineConfig, extras: set[str]) -> None:
    """Each engine that runs here needs its own, and who counts tokens or hears of caches that for it."""
    assert _engine_extras(config) == extras


def test_doctor_checks_every_package_of_an_extra() -> None:
    """The packages looked for are those that the extras install."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, packages in EXTRAS.items():
        wanted = {re.split(r"[=<>\[]", line)[0] for line in project["optional-dependencies"][extra]}
        assert set(packages) == wanted
    assert {*project["optional-dependencies"]} - {*EXTRAS} == {"bench", "dev", "docs", "test"}


class _Models(BaseHTTPRequestHandler):
    """An endpoint with one model, and a key it refuses."""

    def do_GET(self) -> None:
        """Answer `/v1/models`, and no other path."""
        status = 401 if "wrong" in self.headers["Authorization"] else 200 if self.path == "/v1/models" else 404
        body = b'{"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "x"}]}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name in the base class
        """Say nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Serve `_Models` on a free port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Models) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "case",
    [
        ("/v1", "m", "right-key", True, "answers and has the model m"),
        ("/v1", "other", "right-key", True, "answers, without 'other' in its list of models"),
        ("/v2", "m", "right-key", True, "without a list of models (HTTP 404)"),
        ("/v1", "m", "wrong-key", False, "rejects the API key (HTTP 401); correct the key to which api_key"),
    ],
)
def test_doctor_asks_the_endpoint(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, endpoint: str, case: tuple[str, str, str, bool, str]
) -> None:
    """With the engine `openai`, its endpoint has to be there, take the key and better know the model."""
    pytest.importorskip("openai")
    path, model, key, good, expected = case
    monkeypatch.setenv("OPENAI_API_KEY", key)
    config = tmp_path / "c.toml"
    config.write_text(f'[engine]\nkind = "openai"\nmodel = "{model}"\nbase_url = "{endpoint}{path}"\n')
    result = run("doctor", "--config", str(config), "--listen", "127.0.0.1:0")
    assert result.exit_code == (0 if good else 1), result.output
    assert expected in result.output


def test_doctor_finds_no_endpoint(run: Run, tmp_path: Path) -> None:
    """An endpoint that is not there is named with the setting that says where it is."""
    pytest.importorskip("openai")
    (tmp_path / "c.toml").write_text('[engine]\nkind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\n')
    result = run("doctor", "--config", str(tmp_path / "c.toml"), "--listen", "127.0.0.1:0")
    assert result.exit_code == 1
    assert (
        "at http://127.0.0.1:1/v1) cannot be reached: no server listens at this address: start the server, or correct"
        " base_url" in result.output
    )
