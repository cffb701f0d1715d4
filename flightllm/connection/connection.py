"""A connection: statements, frames as tables, and the end."""

import os
import re
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

import pyarrow as pa

from flightllm.client import BOOKKEEPING
from flightllm.common.names import quoted
from flightllm.connection.backend import Backend, Change, Planned
from flightllm.connection.callers import plain_errors, warn
from flightllm.connection.cost import Cost, may_call, read_prediction
from flightllm.connection.frames import is_frame, reader_of
from flightllm.connection.parameters import Parameters, check_names, row_of
from flightllm.connection.progress_bar import CallsBar, is_watched
from flightllm.connection.result import Description, Result
from flightllm.errors import InvalidInputError, NotFoundError, SqlError, UnknownTableError, UnsupportedError

_MOST_FRAMES: Final = 64
"""The most variables that one statement can read."""
_OWN: Final = __name__.rpartition(".")[0]
_PREDICTION: Final = f"{BOOKKEEPING}EXPLAIN (FORMAT JSON, SAVINGS off) "
_T = TypeVar("_T")
Variables: TypeAlias = Sequence[Mapping[str, Any]]
"""The namespaces in which a query can find a frame, the nearest first."""


class Connection:
    """A connection to a database in this process, or to a server. Safe to use from several threads.

    The threads share settings and temporary tables; `cursor` opens a session of its own. `reads_variables` lets queries
    read a frame by the name of the caller's variable, where no table has the name. `note` is a warning for the first AI
    call.
    """

    def __init__(
        self, backend: Backend, *, reads_variables: bool = False, progress: bool | None = None, note: str = ""
    ) -> None:
        self._backend = backend
        self._reads_variables = reads_variables
        self._progress = progress
        self._note = note
        self._last: Result | None = None
        self._process = os.getpid()
        self._registered: set[str] = set()
        """The names of the frames that `register` made tables, in lower case."""
        self._read: dict[str, Callable[[], Any]] = {}
        """The variables that are tables now, by name: each function returns the frame, or None once it is gone."""
        self._lock = RLock()
        self._end = weakref.finalize(self, backend.close)

    @plain_errors
    def sql(self, query: str, params: Parameters | None = None) -> Result:
        """Plan a query, which runs when somebody asks for its rows; or run a change at once.

        `params` are values for `?` and `$1`, or a dict of values for `:name` and `$name`. Of several statements between
        semicolons, all run, and the result is that of the last one.

        Raises:
            FlightLLMError: the statement is wrong, or a change fails.
            KeyboardInterrupt: Ctrl-C, or the stop button of a notebook, stopped the statement.
        """
        return self.sent(query, params, callers_variables())

    def sent(self, query: str, params: Parameters | None, variables: Variables) -> Result:
        """Do what `sql` does, with the variables that a query can read."""
        self._check()
        *before, last = statements(query)
        if before and params is not None:
            raise InvalidInputError("parameters belong to one statement, and the text has several")
        for text in before:
            for _ in self._sent(text, None, variables).batches():
                pass
        check_names(last, params)
        return self._sent(last, row_of(params), variables)

    @plain_errors
    def execute(self, query: str, params: Parameters | None = None) -> Result:
        """Run a statement at once, as `sql` does, and keep its rows.

        Raises:
            FlightLLMError: the statement is wrong, or fails.
        """
        result = self.sent(query, params, callers_variables())
        result.arrow()
        self._last = result
        return result

    @property
    def description(self) -> list[Description] | None:
        """Return the columns of the last `execute`, as Python's database API (PEP 249) does; None before it."""
        return None if self._last is None else self._last.description

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row of the last `execute`, or None after the last row."""
        return self._executed.fetchone()

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return at most `size` next rows of the last `execute`."""
        return self._executed.fetchmany(size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows of the last `execute` that were not fetched yet."""
        return self._executed.fetchall()

    @property
    def _executed(self) -> Result:
        if self._last is None:
            raise InvalidInputError("there are no rows: call execute() first, or use the result of sql()")
        return self._last

    @plain_errors
    def register(self, name: str, frame: Any) -> Self:
        """Make a frame a temporary table of this session, in place of a frame with this name.

        The frame is of pandas, polars or Arrow, or has Arrow's stream interface, or is a dict of columns. The table
        is a copy: register the frame again after a change.

        Raises:
            InvalidInputError: the value is not a frame, or a table cannot have its columns.
        """
        self._check()
        if not name.strip():
            raise InvalidInputError("a table needs a name: register('name', frame)")
        with self._lock:
            self._backend.upload(name, reader_of(frame, name))
            self._registered.add(name.lower())
            self._read.pop(name, None)
        return self

    @plain_errors
    def unregister(self, name: str) -> Self:
        """Remove the table of a registered frame.

        Raises:
            NotFoundError: no frame has this name.
        """
        self._check()
        with self._lock:
            if name.lower() not in self._registered:
                raise NotFoundError(f"no frame is registered as {name!r}")
            self._drop(name)
            self._registered.discard(name.lower())
        return self

    @plain_errors
    def cursor(self) -> "Connection":
        """Open another session, with settings and temporary tables of its own; close it too."""
        self._check()
        return Connection(
            self._backend.another(), reads_variables=self._reads_variables, progress=self._progress, note=self._note
        )

    @plain_errors
    def interrupt(self) -> None:
        """Stop the running statements of this session, from another thread. The connection stays usable."""
        self._check()
        self._backend.interrupt()

    def close(self) -> None:
        """Close the connection. Temporary tables and running statements end. Idempotent."""
        self._end()

    @property
    def closed(self) -> bool:
        """Return whether the connection is closed."""
        return not self._end.alive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<flightllm.Connection{', closed' if self.closed else ''}>"

    def bar(self) -> CallsBar:
        """Return the bar of a new statement."""
        return CallsBar(shown=is_watched() if self._progress is None else self._progress)

    def ready(self, frames: Mapping[str, Any]) -> None:
        """Check that the connection is open, and that the variables that a query reads are its tables."""
        self._check()
        with self._lock:
            for name, frame in frames.items():
                if not self._has(name, frame):
                    self._take(name, frame)

    def explained(self, sql: str, parameters: pa.RecordBatch | None, options: str) -> pa.Table:
        """Return the rows of EXPLAIN."""
        return self._explain(f"EXPLAIN {options} {sql}", parameters)

    def _explain(self, sql: str, parameters: pa.RecordBatch | None) -> pa.Table:
        with self.bar() as bar:
            found = self._backend.send(sql, parameters, bar.look)
            assert not isinstance(found, Change)  # noqa: S101 - EXPLAIN returns rows
            return pa.Table.from_batches(list(found.run(bar.look).batches), found.schema)

    def predicted(self, sql: str, parameters: pa.RecordBatch | None) -> Cost | None:
        """Return the predicted cost; None where the statement has no AI call."""
        try:
            rows = self._explain(f"{_PREDICTION}{sql}", parameters).to_pylist()
            return read_prediction(rows[0]["plan"])
        except (InvalidInputError, UnsupportedError):  # SHOW and others have no plan
            return Cost() if may_call(sql) else None

    def forecast(self, query: str, params: Parameters | None, variables: Variables) -> Cost | None:
        """Return the predicted cost of one statement without running it; None where it has no AI call.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        self._check()
        parameters = row_of(params)
        rows, _ = self._reading(query, variables, lambda: self._explain(f"{_PREDICTION}{query}", parameters))
        return read_prediction(rows.to_pylist()[0]["plan"])

    def _sent(self, sql: str, parameters: pa.RecordBatch | None, variables: Variables) -> Result:
        if self._note and may_call(sql):
            warn(self._note)
            self._note = ""

        def send() -> Planned | Change:
            with self.bar() as bar:
                return self._backend.send(sql, parameters, bar.look)

        found, frames = self._reading(sql, variables, send)
        return Result(self, sql, parameters, found, frames)

    def _reading(self, sql: str, variables: Variables, act: Callable[[], _T]) -> tuple[_T, dict[str, Any]]:
        """Do something with a statement; make tables of the variables that it reads, and return them too."""
        variables = variables if self._reads_variables else ()
        frames: dict[str, Any] = {}
        with self._lock:
            for name in [name for name in self._read if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)]:
                self._renew(name, () if _changes(sql, name) else variables, frames)
        for _ in range(_MOST_FRAMES):
            try:
                return act(), frames
            except SqlError as error:
                if not self._found(error, sql, variables, frames):
                    raise
        raise InvalidInputError(f"a statement can read at most {_MOST_FRAMES} frames by the names of their variables")

    def _renew(self, name: str, variables: Variables, frames: dict[str, Any]) -> None:
        """Read a variable again, because it can have changed; without it, remove its table."""
        variable, frame = _variable(variables, name)
        if frame is None:
            self._drop(name)
            del self._read[name]
        else:
            frames[variable] = frame
            if not (isinstance(frame, pa.Table | pa.RecordBatch) and self._has(variable, frame)):  # others can change
                self._take(variable, frame)

    def _has(self, name: str, frame: Any) -> bool:
        """Return whether the table of a variable was made of this very frame."""
        return name in self._read and self._read[name]() is frame

    def _found(self, error: SqlError, sql: str, variables: Variables, frames: dict[str, Any]) -> bool:
        """Make the variable that an error about a missing table names a table; return whether there is one."""
        missing = error.table if isinstance(error, UnknownTableError) else ""
        variable, frame = _variable(variables, missing) if missing else ("", None)
        if frame is None or variable in frames or _changes(sql, variable):
            return False
        with self._lock:
            self._take(variable, frame)
        frames[variable] = frame
        return True

    def _take(self, name: str, frame: Any) -> None:
        if isinstance(frame, Result):
            frame.check_free(name)
        self._backend.upload(name, reader_of(frame, name))
        try:
            self._read[name] = weakref.ref(frame)
        except TypeError:  # such as a reader of Arrow, which can be read once
            self._read[name] = lambda: frame

    def _drop(self, name: str) -> None:
        self._backend.send(f"{BOOKKEEPING}DROP TABLE IF EXISTS pg_temp.{quoted(name)}", None, lambda _: None)

    def _check(self) -> None:
        if self._process != os.getpid():
            raise InvalidInputError(
                f"the connection belongs to process {self._process}, from which this one was forked: start it by"
                " multiprocessing's 'spawn', and connect there"
            )
        if self.closed:
            raise InvalidInputError("the connection is closed: connect again")


def statements(text: str) -> Sequence[str]:
    """Return the statements between semicolons; a text without any is one statement."""
    if ";" not in text:
        return [text]
    from flightllm.sql.splitting import pieces

    return [text[begin:end].strip() for begin, end, _ in pieces(text, ())] or [text]


def _changes(sql: str, name: str) -> bool:
    """Return whether a statement changes a table of this name; a change of a variable's copy would be lost."""
    target = rf"\b(?:into|update|delete\s+from|truncate|table(?:\s+if\s+exists)?)\s+\"?{re.escape(name)}\b"
    return re.search(target, sql, re.IGNORECASE) is not None


def callers_variables() -> Variables:
    """Return the variables of the code that called this package."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the standard library's way to a caller
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_OWN):
        frame = frame.f_back
    return () if frame is None else (frame.f_locals, frame.f_globals)


def _variable(variables: Variables, name: str) -> tuple[str, Any]:
    """Return the name and the value of a variable that is a frame; names are compared as in SQL."""
    for namespace in variables:
        for spelled in [name, *(one for one in namespace if one.lower() == name.lower())]:
            if is_frame(namespace.get(spelled)):
                return spelled, namespace[spelled]
    return "", None
