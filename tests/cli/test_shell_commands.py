"""The commands of the shell: what people type in psql and in duckdb works, or the shell says what to type."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flightllm.cli import main
from flightllm.cli.shell_commands import HELP
from flightllm.demo.process import running_server

Run = Callable[[str], Result]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a table with 46 columns."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "wide.csv").write_text(",".join(f"c{n}" for n in range(46)) + "\n" + ",".join(["a text"] * 46) + "\n")
    with running_server(["--engine", "fake"], {"wide": folder / "wide.csv"}) as started:
        yield started.uri


@pytest.fixture
def run(uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs a script of the shell in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda script: CliRunner().invoke(main, [], input=script, env={"FLIGHTLLM_URI": uri})


@pytest.mark.parametrize("word", ["help", "HELP;", ".help", r"\?", r"\h"])
def test_help(run: Run, word: str) -> None:
    """Each word for help lists the commands."""
    assert run(word).stdout == HELP


@pytest.mark.parametrize(
    "command", [r"\d", r"\dt", ".tables", r"\dS", r"\l", r"\dn", ".databases", r"\d wide", ".schema wide"]
)
def test_lists(run: Run, command: str) -> None:
    """Tables, system tables, schemas and columns are listed under the names of both shells."""
    ran = run(command)
    assert ran.exit_code == 0, ran.output
    expected = {"wide": "c45", r"\dS": "queries", r"\l": "system", r"\dn": "system", ".databases": "system"}
    assert expected.get(command.rsplit(maxsplit=1)[-1], "wide") in ran.stdout


def test_vertical(run: Run) -> None:
    r"""`\x` shows a line for each column, and the table again."""
    ran = run("\\x\nSELECT 1 AS one, 2 AS two;\n.mode table\nSELECT 3 AS three;\n\\x on\nSELECT 4 AS four;")
    assert ran.stdout == "── row 1 ──\none │ 1\ntwo │ 2\nthree\n━━━━━\n    3\n(1 row)\n── row 1 ──\nfour │ 4\n"


def test_modes(run: Run) -> None:
    """`.mode` chooses the form of results; another word lists the forms."""
    assert run(".mode csv\nSELECT 1 AS one;\n.mode json\nSELECT 2 AS two;").stdout == '"one"\n1\n{"two": 2}\n'
    wrong = run(".mode latex")
    assert (wrong.exit_code, "choose table, vertical, csv, tsv or json" in wrong.stderr) == (1, True)


def test_timing(run: Run) -> None:
    r"""`\timing` shows seconds after each statement."""
    told = re.findall(r"time: \d+\.\d+ s", run("\\timing\nSELECT 1;\n.timer off\nSELECT 2;").stderr)
    assert len(told) == 1


def test_files(run: Run, tmp_path: Path) -> None:
    r"""`\i` runs the statements of a file; the line of an error is that of the inner file too."""
    (tmp_path / "inner.sql").write_text("SELECT 41 AS one;\nSELECT\nnope;")
    ran = run("SELECT 40 AS first;\n\\i inner.sql\nSELECT 42 AS last;")
    assert ran.exit_code == 1
    assert "41" in ran.stdout
    assert "42" not in ran.stdout
    assert "in the statement at line 2: " in ran.stderr
    (tmp_path / "circle.sql").write_text("\\i circle.sql")
    assert "16 files run each other" in run("\\i circle.sql").stderr
    assert "cannot read absent.sql: No such file" in run(".read absent.sql").stderr
    assert "name the file" in run(r"\i").stderr


def test_output(run: Run, tmp_path: Path) -> None:
    r"""`\o` writes results into a file, one after the other, until it has no file."""
    ran = run("\\o a.json\nSELECT 1 AS n;\nSELECT 2 AS n;\n\\o\nSELECT 3 AS n;\n.output t.txt\nSELECT 4 AS n;")
    assert ran.exit_code == 0, ran.output
    assert [json.loads(line)["n"] for line in (tmp_path / "a.json").read_text().splitlines()] == [1, 2]
    assert "3" in ran.stdout
    assert "4" not in ran.stdout
    assert "(1 row)" in (tmp_path / "t.txt").read_text()
    twice = run("\\o a.parquet\nSELECT 1 AS n;\nSELECT 2 AS n;")
    assert (twice.exit_code, "a .parquet file has room for only one" in twice.stderr) == (1, True)
    assert "ends in none of .txt, .csv, .tsv, .json, .parquet, .xlsx" in run("\\o a.docx").stderr


def test_a_failed_first_result_is_replaced(run: Run, tmp_path: Path) -> None:
    r"""After `\o FILE`, a statement that fails leaves the old file, and the next result replaces it."""
    (tmp_path / "a.csv").write_text("old")
    run("\\o a.csv\nSELECT 1 / (length(c0) - 6) AS n FROM wide;")
    assert (tmp_path / "a.csv").read_text() == "old"
    run("\\o a.csv\nSELECT 1 AS n;")
    assert (tmp_path / "a.csv").read_text() == '"n"\n1\n'


def test_files_with_ai_calls_are_not_answered_by_chance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    r"""The statements of `\i FILE` ask the configured engine, and made-up answers never stand in for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "t.csv").write_text("note\nfine\n")
    (tmp_path / "ai.sql").write_text("SELECT ai_classify(note, ['good', 'bad']) AS c FROM t;")
    arguments = ["shell", "t.csv", "--engine", "openai", "--model", "nope"]
    for script in (r"\i ai.sql", ".read ai.sql"):
        ran = CliRunner().invoke(main, arguments, input=script)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert "OPENAI_API_KEY" in ran.stderr


def test_edit(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r"""`\e` runs what the editor leaves of the last statement."""
    editor = "import os, pathlib, sys; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text().replace('40', '42'))"
    (tmp_path / "editor.py").write_text(f"{editor}; os.utime(p, (9e9, 9e9))")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {tmp_path / 'editor.py'}")
    ran = run("SELECT 40 AS n;\n\\e\n")
    assert ran.exit_code == 0, ran.output
    assert "42" in ran.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [(".once x", r"type \o FILE"), (r"\c db", "flightllm shell --uri"), (r"\zz", r"\? lists the commands")],
)
def test_commands_of_others(run: Run, command: str, said: str) -> None:
    """An unknown command is one line with the words to type."""
    ran = run(command)
    assert ran.exit_code == 1
    assert said in ran.stderr
    assert ran.output.count("\n") == 1


@pytest.mark.parametrize("word", [r"\q", "quit;", ".exit", "exit"])
def test_leaving(run: Run, word: str) -> None:
    """A script can leave before its end."""
    ran = run(f"SELECT 41 AS n;\n{word}\n" + ("SELECT 42 AS n;" if word.startswith(("\\", ".")) else ""))
    assert ran.exit_code == 0, ran.output
    assert "42" not in ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
@pytest.mark.parametrize("columns", [80, 200])
def test_a_wide_table_in_a_terminal(uri: str, tmp_path: Path, columns: int) -> None:
    r"""In a terminal the shell shows whole columns, says how many it left out, and shows all after `\x`."""
    from tests.terminals import Terminal

    command = [sys.executable, "-m", "flightllm", "shell", "--uri", uri]
    terminal = Terminal(command, columns=columns, environment={"FLIGHTLLM_HOME": str(tmp_path)})
    terminal.read_until(lambda: "flightllm>" in terminal.text)
    terminal.type("SELECT * FROM wide;\r")
    terminal.read_until(lambda: r"\x shows all" in terminal.text)
    hidden = {80: 38, 200: 24}[columns]
    assert f"… {hidden} more columns: " in terminal.text
    assert "a text │ … │ a text" in terminal.text
    terminal.type("\\x\r")
    terminal.type("SELECT * FROM wide;\r")
    terminal.read_until(lambda: "c45 │ a text" in terminal.text)
    terminal.type("\\q\r")
    assert terminal.finish() == 0


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
def test_a_pager_shows_all_columns(uri: str, tmp_path: Path) -> None:
    """The program of `$PAGER` gets the whole table; `.pager off` ends that."""
    from tests.terminals import Terminal

    command = [sys.executable, "-m", "flightllm", "shell", "--uri", uri]
    kept = tmp_path / "paged"
    pager = f"tee {kept}"
    terminal = Terminal(command, columns=80, environment={"FLIGHTLLM_HOME": str(tmp_path), "PAGER": pager})
    terminal.read_until(lambda: "flightllm>" in terminal.text)
    terminal.type(".pager on\r")
    terminal.type("SELECT * FROM wide;\r")
    terminal.read_until(lambda: "(1 row)" in terminal.text)
    assert all(f"c{number} " in kept.read_text() for number in range(45))
    terminal.type(".pager off\r")
    terminal.type("SELECT * FROM wide;\r")
    terminal.read_until(lambda: r"\x shows all" in terminal.text)
    terminal.type("\\q\r")
    assert terminal.finish() == 0


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["-c", "SELECT 41 AS n", "--command", "SELECT 42 AS n;"], "4142"),
        (["SELECT 41 AS n; SELECT 42 AS n"], "4142"),
        (["-f", "script.sql", "-c", "SELECT 40 AS n"], "4041"),
    ],
)
def test_sql_in_the_command_line(
    uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], values: str
) -> None:
    """`-c` and `-f` of psql, and SQL in the place of a file as in duckdb, run and leave."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.sql").write_text("\ufeffSELECT 41 AS n;\n", encoding="utf-8")
    ran = CliRunner().invoke(main, arguments, input="SELECT 50 AS n", env={"FLIGHTLLM_URI": uri})
    assert ran.exit_code == 0, ran.output
    assert re.sub(r"\(1 row\)|\D", "", ran.stdout) == values


def test_sql_after_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`flightllm FILE SQL` opens the file and asks; one wrong statement is an error without a line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("n\n1\n2\n")
    ran = CliRunner().invoke(main, ["t.csv", "SELECT sum(n) AS n FROM t"])
    assert (ran.exit_code, ran.stdout.split()[2:3], ran.stderr) == (0, ["3"], "")
    wrong = CliRunner().invoke(main, ["t.csv", "SELECT nope FROM t"])
    assert (wrong.exit_code, wrong.stderr) == (1, "error: No field named nope. Valid fields are t.n.\n")
    long = f"SELECT sum(n) AS n FROM t /* {'x' * 5_000} */"
    assert CliRunner().invoke(main, ["t.csv", long]).stdout == ran.stdout
    absent = CliRunner().invoke(main, ["my file.csv"])
    assert (absent.exit_code, "there is no file or folder" in absent.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["t.csv", "selct 1"], "no statement starts with 'selct'"),
        (["t.csv", "orders"], "no statement starts with 'orders'"),
        (["nofile.csv", "SELECT 1"], "there is no file or folder"),
        (["t.csv", "nofile.csv", "SELECT 1"], "there is no file or folder"),
    ],
)
def test_a_mistyped_argument_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], said: str
) -> None:
    """What is neither a file nor SQL ends with an error, and never with the help and success."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("n\n1\n")
    ran = CliRunner().invoke(main, arguments)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert said in ran.stderr


def test_a_pattern_of_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A pattern in quotes is opened as the files that it matches."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("n\n41\n")
    ran = CliRunner().invoke(main, ["*.csv", "-c", "SELECT n + 1 AS n FROM t"])
    assert (ran.exit_code, "42" in ran.stdout) == (0, True)
