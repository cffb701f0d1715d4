"""`frame.ai`: AI functions on frames of pandas and polars. It writes SQL and sends it by a connection."""

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from flightllm.common.names import quoted
from flightllm.errors import InvalidInputError

if TYPE_CHECKING:
    from flightllm.connection.connection import Connection

_ROW = "_ai_row"
_numbers = count()


class _OwnConnection:
    """The connection of calls that name none. It closes at the end of the process, as every connection does."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: tuple[int, Connection] | None = None
        if hasattr(os, "register_at_fork"):  # in a fork, the thread that holds the lock does not exist
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = Lock()

    def get(self) -> "Connection":
        """Return the open connection of this process, or open one. Safe to call from several threads.

        A forked process cannot use the connection of its parent, so it opens its own.
        """
        from flightllm.connection.connect import connect

        with self._lock:
            if self._open is None or self._open[0] != os.getpid() or self._open[1].closed:
                self._open = (os.getpid(), connect())
            return self._open[1]


_own = _OwnConnection()


def register_accessors() -> None:
    """Give `ai` to the frames of pandas and polars, as far as the program has imported them. Idempotent."""
    pandas: Any = sys.modules.get("pandas")
    polars: Any = sys.modules.get("polars")
    if hasattr(pandas, "DataFrame") and not hasattr(pandas.DataFrame, "ai"):
        pandas.api.extensions.register_dataframe_accessor("ai")(FrameAI)
    if hasattr(polars, "DataFrame") and not hasattr(polars.DataFrame, "ai"):
        polars.api.register_dataframe_namespace("ai")(FrameAI)


class FrameAI:
    """The AI functions of one frame. `{column}` in a prompt stands for a column's value.

    `connection` is one of `flightllm.connect`; by default one is opened by `connect()`, for all frames.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def filter(self, prompt: str, *, connection: "Connection | None" = None) -> Any:
        """Return the rows for which the model says yes; pandas keeps their index.

        Raises:
            FlightLLMError: the prompt names no column, or the query fails.
        """
        chosen = [answer is True for answer in self._asked("ai_filter", prompt, connection)]
        return self._frame.loc[chosen] if self._is_pandas else self._frame.filter(chosen)

    def gen(self, prompt: str, *, connection: "Connection | None" = None) -> Any:
        """Return a series with the model's text for each row; errors as for `filter`."""
        return self._series(self._asked("ai_gen", prompt, connection))

    def score(self, prompt: str, *, connection: "Connection | None" = None) -> Any:
        """Return a series with the model's number for each row; errors as for `filter`."""
        return self._series(self._asked("ai_score", prompt, connection))

    def classify(
        self, column: str, labels: Sequence[str] | Mapping[str, str], *, connection: "Connection | None" = None
    ) -> Any:
        """Return a series with the label of each value of a column; a mapping describes its labels.

        Raises:
            FlightLLMError: the frame has no such column, the labels are one text, or the query fails.
        """
        if isinstance(labels, str):
            raise InvalidInputError(f"the labels are one text: write a list, such as [{labels!r}, 'other']")
        if isinstance(labels, Mapping):
            items = "{" + ", ".join(f"{_text(name)}: {_text(told)}" for name, told in labels.items()) + "}"
        else:
            items = f"[{', '.join(map(_text, labels))}]"
        column = self._column(column)
        return self._series(self._answers(f"ai_classify({quoted(column)}, {items})", [column], connection))

    def agg(self, column: str, instruction: str, *, connection: "Connection | None" = None) -> str | None:
        """Return the model's answer about all texts of a column together; None if there are no texts.

        Raises:
            FlightLLMError: the frame has no such column, or the query fails.
        """
        column = self._column(column)
        found = self._answers(f"ai_agg({quoted(column)}, {_text(instruction)})", [column], connection, by_row=False)
        return None if found[0] is None else str(found[0])

    def topic(self, column: str, k: int = 8, *, connection: "Connection | None" = None) -> Any:
        """Return a series with the topic of each text, one of at most `k` that the model finds; errors as for `agg`."""
        column = self._column(column)
        return self._series(self._answers(f"ai_topic({quoted(column)}, k => {int(k)})", [column], connection))

    def dedup(self, column: str, *, connection: "Connection | None" = None) -> Any:
        """Return a series that has for each text the spelling kept for the same thing; errors as for `agg`."""
        column = self._column(column)
        return self._series(self._answers(f"ai_dedup({quoted(column)})", [column], connection))

    def rank(self, criterion: str, top: int | None = None, *, connection: "Connection | None" = None) -> Any:
        """Return the rows in the order of a criterion such as 'most urgent first: {body}', the first `top` of them.

        Raises:
            FlightLLMError: the criterion names no column, or the query fails.
        """
        places = self._asked("ai_rank", criterion, connection)
        order = sorted((place for place in range(len(places)) if places[place] is not None), key=places.__getitem__)
        order += [place for place, rank in enumerate(places) if rank is None]
        chosen = order if top is None else order[:top]
        return self._frame.iloc[chosen] if self._is_pandas else self._frame[chosen]

    @property
    def _is_pandas(self) -> bool:
        return type(self._frame).__module__.startswith("pandas")

    def _asked(self, function: str, prompt: str, connection: "Connection | None") -> list[Any]:
        """Return a function's answer for each row, in the order of the rows."""
        from flightllm.functions.guidance import names_of  # slow to import

        names = names_of(prompt)
        if not names:
            raise InvalidInputError("the prompt names no column: write {column} where its value belongs")
        columns = list(dict.fromkeys(map(self._column, names)))  # `{a}` and `{A}` can be one column
        return self._answers(f"{function}({', '.join([_text(prompt), *map(quoted, columns)])})", columns, connection)

    def _column(self, name: str) -> str:
        """Return the name of a column, which matches exactly, or else without regard to case."""
        columns = [str(column) for column in self._frame.columns]
        if name not in columns:
            alike = [column for column in columns if column.lower() == name.lower()]
            if not alike:
                raise InvalidInputError(f"the frame has no column {name!r}; its columns are {', '.join(columns)}")
            name = alike[0]
        return name

    def _answers(
        self, call: str, columns: Sequence[str], connection: "Connection | None", *, by_row: bool = True
    ) -> list[Any]:
        """Return the value of a call for each row, or of an aggregate for all rows; only `columns` are sent."""
        import pyarrow as pa

        from flightllm.connection.connection import Connection
        from flightllm.connection.frames import reader_of

        if connection is None:
            connection = _own.get()
        elif not isinstance(connection, Connection):
            raise InvalidInputError(f"connection is {connection!r}: give one of flightllm.connect()")
        places = [place for place, name in enumerate(self._frame.columns) if str(name) in columns]
        frame = self._frame.iloc[:, places] if self._is_pandas else self._frame.select(columns)
        table = reader_of(frame, "the frame").read_all()
        name = f"_ai_frame_{next(_numbers)}"  # of its own, because several threads can use the connection
        connection.register(name, table.append_column(_ROW, pa.array(range(table.num_rows))))
        try:
            order = f" ORDER BY {_ROW}" if by_row else ""
            found = connection.sql(f"SELECT {call} AS answer FROM {name}{order}").arrow()
        finally:
            connection.unregister(name)
        return list(found.column(0).to_pylist())

    def _series(self, values: list[Any]) -> Any:
        if self._is_pandas:
            return sys.modules["pandas"].Series(values, index=self._frame.index)
        return sys.modules["polars"].Series(values)


def _text(value: str) -> str:
    return "'" + str(value).replace("'", "''") + "'"
