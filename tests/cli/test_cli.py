"""The command line without a server: help, one-line errors, doctor, functions."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flightllm.cli import COMMANDS, main

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs `flightllm` with arguments, its data in a temporary folder."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLIGHTLLM_URI", raising=False)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, list(arguments))

    return invoke


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_explains_itself(run: Run, name: str) -> None:
    """`--help` works for each command and its examples keep their lines."""
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")
    assert "\\b" not in result.output


def test_overview_names_every_command(run: Run) -> None:
    """The first thing a user sees lists all commands with a full line each."""
    output = run("--help").output
    for command in COMMANDS:
        assert f"\n  {command.name} " in output
    assert "..." not in output.split("Commands:")[1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("serve", "--config", "absent.toml"), "error: absent.toml: cannot be read"),
        (("serve", "--listen", "nowhere"), "error: [server] listen: expected HOST:PORT, got 'nowhere'"),
        (("query", "--uri", "grpc://127.0.0.1:1", "SELECT 1"), "error: no server answers at grpc://127.0.0.1:1"),
        (("tables", "--uri", "grpc://127.0.0.1:1"), "error: no server answers at grpc://127.0.0.1:1"),
        (("functions", "--config", "absent.toml"), "error: absent.toml: cannot be read"),
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


def test_functions_lists_shipped_and_configured_ones(run: Run, tmp_path: Path) -> None:
    """A function file in a configured folder appears beside the shipped ones."""
    (tmp_path / "udfs").mkdir()
    (tmp_path / "udfs" / "ai_headline.py").write_text(
        "from flightllm.functions import AIFunction, Kind, Parameter, text_answer\n"
        'FUNCTION = AIFunction(name="ai_headline", summary="Write a headline.", returns="text",\n'
        '    parameters=(Parameter("article", Kind.FIELD),), build=lambda call: text_answer("Write a headline."))\n',
        encoding="utf-8",
    )
    (tmp_path / "c.toml").write_text('[functions]\nfolders = ["udfs"]\n', encoding="utf-8")
    output = run("functions", "--config", str(tmp_path / "c.toml")).output
    assert "ai_filter(prompt" in output
    assert "ai_headline(article" in output


def test_doctor_passes_where_all_is_well(run: Run) -> None:
    """With the fake engine and a free port nothing is broken."""
    result = run("doctor", "--engine", "fake", "--listen", "127.0.0.1:0")
    assert result.exit_code == 0, result.output
    assert "everything needed is here" in result.output
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
