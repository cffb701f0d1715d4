"""`flightllm` without a command, on a terminal: a shell for SQL."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from flightllm.cli.common import Server, SettingParameter, config_options, connect, load_config, server_options
from flightllm.cli.opened import opened_server
from flightllm.cli.price import ASK_ABOVE, confirmed
from flightllm.cli.query import run_text
from flightllm.cli.running import Interrupted, interruptible
from flightllm.cli.sources import named_tables, tell
from flightllm.client import BOOKKEEPING, Client
from flightllm.config import default_data_folder
from flightllm.errors import FlightLLMError
from flightllm.files import make_private

_HISTORY = "shell_history"
_HELP = """\\d          list tables
\\d TABLE    list the columns of a table
\\df         list the AI functions
\\q          leave; Ctrl-D too
SQL;        run a statement: a semicolon ends it, Enter alone begins a new line
"""
_NAMES = f"""{BOOKKEEPING}SELECT table_schema AS s, table_name AS t, column_name AS c FROM information_schema.columns
WHERE table_schema <> 'information_schema' ORDER BY 1, 2, ordinal_position"""
_TABLES = """SELECT table_schema AS "schema", table_name AS "table", table_type AS type FROM information_schema.tables
WHERE table_schema <> 'information_schema' ORDER BY table_schema = 'system', 1, 2"""
_KEYWORDS = (
    "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT USING ON AS AND OR NOT NULL IS IN LIKE BETWEEN CASE WHEN"
    " THEN ELSE END DISTINCT UNION ALL WITH INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW DROP EXPLAIN ANALYZE"
)


class Names(Completer):
    """Completes words of SQL, AI functions, and names of tables and columns, as they were when last asked for."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.functions = _functions()
        self._words: list[tuple[str, str]] = []

    def refresh(self) -> None:
        """Ask the server for its tables and columns; without an answer the former ones stay."""
        try:
            _, batches = self._client.query(_NAMES)
            rows = [row for batch in batches for row in batch.to_pylist()]
        except FlightLLMError:
            return
        tables = {(row["t"] if row["s"] == "public" else f"{row['s']}.{row['t']}"): "table" for row in rows}
        columns = {_written(row["c"]): f"column of {row['t']}" for row in rows if row["s"] != "system"}
        functions = dict.fromkeys(self.functions, "AI function")
        self._words = [*columns.items(), *tables.items(), *functions.items()]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what the word before the cursor can become."""
        del complete_event
        word = document.get_word_before_cursor(pattern=None, WORD=True)
        word = word[max(word.rfind(mark) for mark in "(,=") + 1 :]
        if not word:
            return
        for text, meaning in [*self._words, *((keyword, "") for keyword in _KEYWORDS.split())]:
            if text.lower().lstrip('"').startswith(word.lower().lstrip('"')):
                yield Completion(text, start_position=-len(word), display_meta=meaning)


def _written(name: str) -> str:
    """Return a column as SQL reads it: in quotes where it is not all lower case."""
    return name if name.isidentifier() and name == name.lower() else '"' + name.replace('"', '""') + '"'


def _functions() -> list[str]:
    from flightllm.functions.registry import FunctionRegistry

    return [function.name for function in FunctionRegistry.load(())]


@click.command()
@server_options
@click.option("--set", "settings", type=SettingParameter(), multiple=True, help="Setting for all queries. Repeatable.")
@click.option(
    "--open",
    "sources",
    multiple=True,
    metavar="FILE|FOLDER",
    help="Ask files without a server; each becomes a table of its name. Repeatable.",
)
@config_options
@click.option("--yes", is_flag=True, help="Never ask before a statement that is predicted to be dear.")
@click.option(
    "--ask-above",
    type=click.FloatRange(0),
    default=ASK_ABOVE,
    show_default=True,
    metavar="DOLLARS",
    help="Ask before a statement that is predicted to cost more.",
)
def shell(  # noqa: PLR0913 - one argument for each option
    *,
    server: Server,
    settings: tuple[tuple[str, str], ...],
    sources: tuple[str, ...],
    config_file: Path | None,
    engine: str | None,
    model: str | None,
    yes: bool,
    ask_above: float,
) -> None:
    """Ask a server, or files, from a prompt.

    `flightllm` alone does the same. Tab completes tables, columns and functions; a semicolon ends a statement. Ctrl-C
    cancels the statement that runs. \\? shows the commands of the shell.

    \b
    flightllm shell --open tickets.csv
    """
    with ExitStack() as stack:
        if sources:
            config = load_config(config_file, engine, model, tables=named_tables(sources, tell))
            server = Server(stack.enter_context(opened_server(config)))
        elif config_file or engine or model:
            raise click.UsageError("--config, --engine and --model are for --open: a server has its own.")
        client = stack.enter_context(connect(server, dict(settings)))
        for text in _statements(client):
            _run(client, text, None if yes else ask_above)


def _statements(client: Client) -> Iterator[str]:
    """Yield what is typed, until the end of input."""
    names = Names(client)
    session = _session(names)
    if sys.stdin.isatty():
        click.echo(r"FlightLLM: end statements with ;  \? shows help, \q leaves.")
    for _ in client.query(f"{BOOKKEEPING}SELECT 1")[1]:  # says at once where no server answers
        pass
    while True:
        names.refresh()
        try:
            text = session.prompt("flightllm> ", prompt_continuation="........> ").strip()
        except KeyboardInterrupt:  # drops what was typed
            continue
        except EOFError:
            return
        if text.rstrip(";").strip() in {r"\q", "exit", "quit"}:
            return
        if text.strip(";").strip():
            yield text


def _session(names: Names) -> "PromptSession[str]":
    folder = default_data_folder()
    make_private(folder)
    return PromptSession(
        completer=names,
        complete_while_typing=False,
        history=FileHistory(folder / _HISTORY),
        key_bindings=_keys(),
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        enable_history_search=True,
    )


def _keys() -> KeyBindings:
    """Let Enter end what is whole, and begin a new line elsewhere."""
    keys = KeyBindings()
    buffer_is_whole = Condition(_whole)

    @keys.add("enter", filter=buffer_is_whole)
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _whole() -> bool:
    from prompt_toolkit.application import get_app

    return is_whole(get_app().current_buffer.text)


def is_whole(text: str) -> bool:
    """Tell whether a text is to run: a command of the shell, nothing, or SQL whose last token is a semicolon."""
    from flightllm.sql.tokens import tokenize

    plain = text.strip()
    if not plain or plain.startswith("\\") or plain in {"exit", "quit"}:
        return True
    if not plain.endswith(";"):
        return False
    try:
        tokens = tokenize(plain)
    except FlightLLMError:  # a quote is open
        return plain.count("'") % 2 == 0
    return bool(tokens) and tokens[-1].is_symbol(";")


def _run(client: Client, text: str, ask_above: float | None) -> None:
    """Run a statement or a command of the shell; what is wrong with it is printed."""
    if text.startswith("\\"):
        command, _, name = text.rstrip("; ").partition(" ")
        statement = _statement_of(command, name.strip())
        if statement is None:
            return
        text = statement
    try:
        sql = text.rstrip().rstrip(";")
        if ask_above is None or confirmed(client, sql, ask_above):
            interruptible(client, lambda: run_text(client, sql, "table"))
    except (FlightLLMError, Interrupted) as error:
        message = error.format_message() if isinstance(error, Interrupted) else f"error: {error}"
        click.echo(message, err=True)


def _statement_of(command: str, name: str) -> str | None:
    """Return the SQL that a command of the shell stands for; one without SQL is done here."""
    if command == r"\d":
        return f"DESCRIBE {name}" if name else _TABLES
    if command == r"\df":
        click.echo("\n".join(_functions()))
        return None
    if command != r"\?":
        click.echo(f"there is no command {command}", err=True)
    click.echo(_HELP, nl=False)
    return None
