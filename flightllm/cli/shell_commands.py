"""The commands of the shell, such as `\\d` and `\\x`: those of psql, and names of them in duckdb."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from flightllm.cli.labelling import label_rows
from flightllm.cli.results import Output
from flightllm.cli.run import run_statement
from flightllm.cli.statements import errors_at, is_command, located_statements, split_statements
from flightllm.cli.writers import WRITERS, form_of
from flightllm.client import Client
from flightllm.errors import InvalidInputError

HELP: Final = r"""\d, \dt     list tables                      .tables
\dS         list system tables
\d TABLE    list the columns of a table      .schema TABLE
\df         list the AI functions
\l          list schemas                     .databases
\x          show rows with one line for each column, or as a table again
\timing     show the seconds of each statement, or not    .timer
\i FILE     run the statements of a file     .read FILE
\o FILE     write results to a file (.csv, .tsv, .json, .parquet, .xlsx, .txt); without FILE, show them again
\copy …     copy a query or a table TO a file, or a file into a table: \copy t FROM 'new.csv'    COPY …;
\e          edit the last statement in $EDITOR, then run it
\label F Q  ask you about rows of the query Q, to teach the filter F
.mode FORM  show results as table, vertical, csv, tsv or json
.pager on   show results in $PAGER or less, with all rows and columns; .pager off ends that
\q          leave; Ctrl-D, exit and quit too
SQL;        run a statement: a semicolon ends it, Enter without a semicolon begins a new line
"""
_TABLES: Final = """SELECT table_schema AS "schema", table_name AS "table", table_type AS type
FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'system') ORDER BY 1, 2"""
_SYSTEM: Final = """SELECT table_schema AS "schema", table_name AS "table" FROM information_schema.tables
WHERE table_schema IN ('information_schema', 'system') ORDER BY 1, 2"""
_SCHEMAS: Final = """SELECT DISTINCT table_catalog AS "database", table_schema AS "schema"
FROM information_schema.tables ORDER BY 1, 2"""
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".tables": r"\dt", ".schema": r"\d", ".databases": r"\l", r"\dn": r"\l", ".timer": r"\timing", ".read": r"\i",
        ".output": r"\o", ".edit": r"\e", ".help": r"\?", r"\h": r"\?", "help": r"\?", r"\mode": ".mode",
        ".quit": r"\q", ".exit": r"\q", "quit": r"\q", "exit": r"\q", r"\quit": r"\q",
    }
)  # fmt: skip
"""Other names of commands."""
_INSTEAD: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".once": r"\o FILE, then the query, then \o",
        r"\c": "flightllm shell --uri grpc://HOST:PORT, in a new shell",
        ".open": "flightllm FILE, in a new shell",
        r"\set": "SET name = 'value';",
        r"\du": "SELECT * FROM system.users;",
        r"\dv": r"\dt",
        r"\pset": ".mode csv, or .pager on",
        r"\a": ".mode csv, or another form",
        r"\g": "a semicolon",
        r"\G": r"\x, then the statement",
    }
)
"""The words to type in place of commands of other shells."""
_MODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("table", "box", "duckbox", "column"), "table"),
        **dict.fromkeys(("vertical", "line"), "vertical"),
        **dict.fromkeys(("json", "jsonlines"), "json"),
        "csv": "csv",
        **dict.fromkeys(("tsv", "tabs"), "tsv"),
    }
)
_DEEPEST: Final = 16
"""The most files that run each other."""


class Shell:
    """A session of the shell: it runs statements and commands, and keeps what the commands set."""

    def __init__(self, client: Client, ask_above: float | None) -> None:
        self._client = client
        self._ask_above = ask_above
        self._output = Output(hint=r"\x")
        self._screen = self._output
        """The output on the terminal, while another one is a file."""
        self._timing = False
        self._last = ""
        self._depth = 0
        self._commands: Mapping[str, Callable[[str], str | None]] = {
            r"\d": lambda name: f"DESCRIBE {name}" if name else _TABLES,
            r"\dt": lambda name: f"DESCRIBE {name}" if name else _TABLES,
            r"\dS": lambda _: _SYSTEM,
            r"\l": lambda _: _SCHEMAS,
            r"\df": _functions,
            r"\?": lambda _: click.echo(HELP, nl=False),
            r"\x": self._turn,
            r"\timing": self._time,
            r"\i": self._include,
            r"\o": self._write,
            r"\e": self._edit,
            r"\q": _leave,
            ".mode": self._form,
            ".pager": self._page,
        }
        """The commands by name. They return the SQL to run, if there is any."""

    def run(self, text: str) -> None:
        """Run a statement or a command.

        Raises:
            FlightLLMError: it failed.
            ClickException: a statement of a file failed, or the user pressed Ctrl-C.
            Exit: the user wants to leave.
        """
        sql: str | None = text
        if text.lower().startswith("\\copy"):
            sql = text
        elif text.lower().startswith("\\label"):
            sql = None
            label_rows(self._client, text[len("\\label") :])
        elif is_command(text):
            name, _, argument = text.rstrip("; ").partition(" ")
            sql = self._command(name, argument.strip().strip("'\""))
        else:
            self._last = text
        if sql is not None:
            self._run_sql(sql.rstrip().rstrip(";"))

    def run_script(self, script: str) -> None:
        """Run the statements of a text up to the first that fails.

        Raises:
            CommandError: a statement failed; the error has its line.
        """
        found = list(located_statements(script))
        for text, line in found:
            with errors_at(line) if len(found) > 1 else nullcontext():
                self.run(text)

    def _run_sql(self, sql: str) -> None:
        started = time.monotonic()
        if run_statement(self._client, sql, self._output, self._ask_above) and self._timing:
            click.echo(f"time: {time.monotonic() - started:,.3f} s", err=True)

    def _command(self, name: str, argument: str) -> str | None:
        name = _NAMES.get(name.lower() if name.isalpha() else name, name)
        command = self._commands.get(name)
        if command is not None:
            return command(argument)
        instead = f"type {_INSTEAD[name]}" if name in _INSTEAD else r"\? lists the commands"
        raise InvalidInputError(f"there is no command {name}: {instead}")

    def _turn(self, wish: str) -> None:
        turned = self._screen.form != "vertical" if wish not in {"on", "off"} else wish == "on"
        self._form("vertical" if turned else "table")

    def _form(self, wish: str) -> None:
        if wish not in _MODES:
            raise InvalidInputError(
                f"there is no form {wish or 'without a name'}: choose table, vertical, csv, tsv or json"
            )
        self._screen.form = _MODES[wish]
        click.echo(f"results are shown as {_MODES[wish]}", err=True)

    def _page(self, wish: str) -> None:
        self._screen.paged = not self._screen.paged if wish not in {"on", "off"} else wish == "on"
        click.echo(f"results are {'' if self._screen.paged else 'not '}shown in a pager", err=True)

    def _time(self, wish: str) -> None:
        self._timing = not self._timing if wish not in {"on", "off"} else wish == "on"
        click.echo(f"the time of statements is {'' if self._timing else 'not '}shown", err=True)

    def _include(self, name: str) -> None:
        if not name:
            raise InvalidInputError(r"name the file with the statements: \i FILE")
        if self._depth == _DEEPEST:
            raise InvalidInputError(f"{_DEEPEST} files run each other: the last one is {name}")
        script = read_script(Path(name).expanduser())
        self._depth += 1
        try:
            self.run_script(script)
        finally:
            self._depth -= 1

    def _write(self, name: str) -> None:
        if not name:
            self._output = self._screen
            return
        path = Path(name).expanduser()
        form = form_of(path)
        if form is None:
            raise InvalidInputError(f"{name} ends in none of .txt, {', '.join(f'.{one}' for one in WRITERS)}")
        self._output = Output(form, path)
        click.echo(rf"results go to {name}, until \o", err=True)

    def _edit(self, _: str) -> None:
        text = click.edit(self._last, extension=".sql") or ""
        for statement in split_statements(text):
            click.echo(statement)
            self.run(statement)


def read_script(path: Path) -> str:
    """Return the text of a file with statements.

    Raises:
        InvalidInputError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInputError(f"cannot read {path}: {reason}") from error


def _functions(_: str) -> None:
    from flightllm.cli.prompt import function_names

    click.echo("\n".join(function_names()))


def _leave(_: str) -> None:
    raise click.exceptions.Exit(0)
