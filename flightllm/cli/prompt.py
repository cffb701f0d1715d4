"""The input at the shell's prompt: completion, history, and the detection of a statement's end."""

from collections.abc import Iterable, Iterator

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from flightllm.cli.statements import is_command
from flightllm.client import BOOKKEEPING, Client
from flightllm.common.atomic_files import make_private
from flightllm.common.names import quoted
from flightllm.config import default_data_folder
from flightllm.errors import FlightLLMError

_HISTORY = "shell_history"
_NAMES = f"""{BOOKKEEPING}SELECT table_schema AS s, table_name AS t, column_name AS c FROM information_schema.columns
WHERE table_schema <> 'information_schema' ORDER BY 1, 2, ordinal_position"""
_KEYWORDS = (
    "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT USING ON AS AND OR NOT NULL IS IN LIKE BETWEEN CASE WHEN"
    " THEN ELSE END DISTINCT UNION ALL WITH INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW DROP EXPLAIN ANALYZE"
)


class NameCompleter(Completer):
    """Completes SQL keywords, AI functions, and the names of tables and columns as of the last refresh."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.functions = function_names()
        self._words: list[tuple[str, str]] = []

    def refresh(self) -> None:
        """Ask the server for its tables and columns; if it does not answer, the old names stay."""
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
        """Yield the completions of the word before the cursor."""
        del complete_event
        word = document.get_word_before_cursor(pattern=None, WORD=True)
        word = word[max(word.rfind(mark) for mark in "(,=") + 1 :]
        if not word:
            return
        for text, meaning in [*self._words, *((keyword, "") for keyword in _KEYWORDS.split())]:
            if text.lower().lstrip('"').startswith(word.lower().lstrip('"')):
                yield Completion(text, start_position=-len(word), display_meta=meaning)


def _written(name: str) -> str:
    """Return a column's name as SQL reads it: in quotes, unless it is all lower case."""
    return name if name.isidentifier() and name == name.lower() else quoted(name)


def function_names() -> list[str]:
    """Return the names of the shipped AI functions."""
    from flightllm.functions.registry import FunctionRegistry

    return [function.name for function in FunctionRegistry.load(())]


def statements(client: Client) -> Iterator[str]:
    """Yield the statements that the user types, until the end of input."""
    names = NameCompleter(client)
    session = _session(names)
    click.echo(r"FlightLLM: end statements with ;  help lists the commands, \q leaves.")
    for _ in client.query(f"{BOOKKEEPING}SELECT 1")[1]:  # fails at once if no server answers
        pass
    while True:
        names.refresh()
        try:
            text = session.prompt("flightllm> ", prompt_continuation="........> ").strip()
        except KeyboardInterrupt:  # drops the typed text
            continue
        except EOFError:
            return
        if text.strip(";").strip():
            yield text


def _session(names: NameCompleter) -> "PromptSession[str]":
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
    """Make Enter run a complete statement, and otherwise start a new line."""
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
    """Return whether Enter runs a text: a shell command, an empty text, or SQL that ends with a semicolon."""
    from flightllm.sql.tokens import tokenize

    plain = text.strip()
    if not plain or is_command(plain):
        return True
    if not plain.endswith(";"):
        return False
    try:
        tokens = tokenize(plain)
    except FlightLLMError:  # a quote is open
        return plain.count("'") % 2 == 0
    return bool(tokens) and tokens[-1].is_symbol(";")
