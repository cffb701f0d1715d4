"""`%load_ext flightllm`: `%sql` and `%%sql` in notebooks and in IPython."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Final

from flightllm.connection.connect import connect
from flightllm.connection.connection import Connection, statements
from flightllm.connection.cost import Cost, may_call
from flightllm.connection.parameters import Parameters
from flightllm.connection.result import Result
from flightllm.errors import FlightLLMError, InvalidInputError, LimitExceededError
from flightllm.sql.parameters import parameter_names
from flightllm.sql.parsed_text import ParsedText

ASK_ABOVE: Final = 1.0
"""By default, a statement with a predicted cost above this, in dollars, needs a yes."""
_OPTION: Final = re.compile(r"\s*--(connection|ask-above|yes)\b(?:[ =]+(?=\S))?", re.IGNORECASE)
_UNKNOWN: Final = re.compile(r"\s*--([A-Za-z][\w-]*)")
"""Matches what has the form of an option; an SQL comment has a blank after `--`, or is in a later line."""
_HELP: Final = """\
%sql [OPTIONS] [NAME <<] SQL          run a line
%%sql [OPTIONS] [NAME <<]             run a cell
%sql FILE, ADDRESS or VARIABLE        choose the connection

--connection NAME      choose the connection: a variable, a file or an address
--ask-above DOLLARS    ask before a statement with a higher predicted cost (default 1)
--yes                  never ask
--help                 show this text

NAME << puts the result into a variable; NAME =<< shows the result too. :name takes a variable's value."""
_NAME: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(=?)<<\s*")
_FILE: Final = re.compile(r"[\w.~:/\\-]*(?:[/\\]|\w\.)\w+")
"""Matches what looks like a file rather than SQL."""
_WORD: Final = re.compile(r"\s*(\S+)")


@dataclass(frozen=True, slots=True)
class Options:
    """The options before the SQL text, and that text."""

    text: str
    connection: str = ""
    ask_above: float | None = ASK_ABOVE
    """The dollars above which a statement needs a yes; None for never."""
    assigned: str = ""
    """The name of the variable that gets the result."""
    shows: bool = True


def read_options(line: str) -> Options:
    """Read `--connection NAME`, `--ask-above DOLLARS`, `--yes` and `name <<` before SQL; `name =<<` shows too.

    Raises:
        InvalidInputError: an option lacks its value, or an option in the first line is unknown.
    """
    options = Options(line)
    while found := _OPTION.match(options.text):
        rest = options.text[found.end() :]
        if found[1].lower() == "yes":
            options = replace(options, ask_above=None, text=rest)
            continue
        value = _WORD.match(rest)
        if value is None:
            raise InvalidInputError(f"--{found[1]} needs a value")
        options = replace(options, text=rest[value.end() :])
        if found[1].lower() == "connection":
            options = replace(options, connection=value[1])
            continue
        try:
            options = replace(options, ask_above=float(value[1]))
        except ValueError as error:
            raise InvalidInputError(f"--ask-above needs dollars, such as 0.5, and not {value[1]!r}") from error
    unknown = _UNKNOWN.match(options.text)
    if unknown and len(line) - len(options.text) + unknown.start(1) < len(line.partition("\n")[0]):
        raise InvalidInputError(
            f"there is no option --{unknown[1]}: the options are --connection, --ask-above, --yes and --help; an SQL"
            " comment has a blank after --"
        )
    if named := _NAME.match(options.text):
        options = replace(options, assigned=named[1], shows=bool(named[2]), text=options.text[named.end() :])
    return replace(options, text=options.text.strip())


class SqlMagic:
    """The magics of one shell of IPython, with the connection that they use."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._connection: Connection | None = None
        self._opened: dict[str, Connection] = {}
        """The connections that a magic opened, by file or address."""

    def sql(self, line: str, cell: str | None = None) -> Result | None:
        """Run SQL, or choose a connection by a variable's name, a file or an address."""
        if line.strip() in {"--help", "-h"}:
            print(_HELP)  # noqa: T201 - a magic prints into its cell
            return None
        try:
            options = read_options(line if cell is None else f"{line}\n{cell}")
            if options.connection:
                self._connection = self._found(options.connection)
            if not options.text:
                return None
            if cell is None and not options.assigned and self._chooses(options.text):
                self._connection = self._found(options.text)
                return None
            return self._run(options)
        except FlightLLMError as error:
            self._fail(error)
            return None

    def _fail(self, error: FlightLLMError) -> None:
        """Raise an error without its traceback, which tells nothing about the SQL."""
        from IPython.core.error import UsageError

        raise UsageError(str(error)) from error

    def _chooses(self, text: str) -> bool:
        """Return whether a line names a connection, and does not hold SQL."""
        if any(letter.isspace() for letter in text) or text.endswith(";"):
            return False
        if isinstance(self._variables.get(text), Connection) or text == ":memory:":
            return True
        return "://" in text or Path(text).expanduser().exists() or _FILE.fullmatch(text) is not None

    @property
    def _variables(self) -> Mapping[str, Any]:
        variables: Mapping[str, Any] = self._shell.user_ns
        return variables

    def _found(self, name: str) -> Connection:
        """Return the connection of a variable, or to a file or address; a file is opened once."""
        value = self._variables.get(name)
        if isinstance(value, Connection):
            if value.closed:
                raise InvalidInputError(f"the connection {name} is closed: connect again")
            return value
        known = self._opened.get(name)
        if known is None or known.closed:
            known = self._opened[name] = connect(name)
        return known

    def _current(self) -> Connection:
        if self._connection is None:
            self._connection = connect()
        if self._connection.closed:
            raise InvalidInputError("the connection is closed: choose another, as in %sql NAME or %sql :memory:")
        return self._connection

    def _run(self, options: Options) -> Result | None:
        connection, result = self._current(), None
        for text in statements(options.text):
            parameters, asks = self._parameters(text), may_call(text)
            if asks:
                predicted: Cost | None = None
                with suppress(FlightLLMError):  # running the statement reports the error
                    predicted = connection.forecast(text, parameters, (self._variables,))
                _agree(predicted, options.ask_above)
            result = connection.sent(text, parameters, (self._variables,))
            if not asks:  # a view can have AI calls
                _agree(result.unpaid(), options.ask_above)
            result.arrow()
            if (spent := result.cost()).calls or spent.cached:
                print(spent)  # noqa: T201 - a magic prints into its cell
        if options.assigned:
            self._shell.push({options.assigned: result})
        return result if options.shows else None

    def _parameters(self, text: str) -> Parameters | None:
        """Return the variables for `:name` and `$name`; None if a statement has only others."""
        names = [name for name in parameter_names(ParsedText(text)) if not name.isdecimal()]
        missing = [name for name in names if name not in self._variables]
        if missing:
            raise InvalidInputError(
                f"the statement takes the variable {missing[0]!r}, which the notebook does not have"
            )
        return {name: self._variables[name] for name in names} or None


def _agree(predicted: Cost | None, above: float | None) -> None:
    """Print the predicted cost, if a model is asked; ask the user if the cost is above `above` dollars.

    Raises:
        LimitExceededError: the user does not want it, or nobody can answer.
    """
    if predicted is None or not (predicted.calls or predicted.cached):
        return
    print(predicted)  # noqa: T201 - a magic prints into its cell
    if above is None or predicted.price is None or predicted.price <= above:
        return
    try:
        agreed = input(f"This is more than ${above:,.2f}. Run it? [y/N] ").strip().lower() in {"y", "yes"}
    except (EOFError, RuntimeError, NotImplementedError):  # nobody can type
        agreed = False
    if not agreed:
        raise LimitExceededError(f"not run: {predicted}, which is more than ${above:,.2f}; --yes runs it")


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; `%load_ext flightllm` calls it."""
    from IPython.core.magic import no_var_expand

    magic = SqlMagic(shell)

    @no_var_expand  # `{body}` is a field of a prompt
    @wraps(magic.sql)
    def run(line: str, cell: str | None = None) -> Result | None:
        return magic.sql(line, cell)

    shell.register_magic_function(run, "line_cell", "sql")
