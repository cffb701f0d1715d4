"""The messages between the server's process and a sandbox process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Literal

import pyarrow as pa

from flightllm.catalog.shipping import Shipped
from flightllm.config import LimitsConfig, StorageConfig


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings for all tasks of a process."""

    limits: LimitsConfig
    storage: StorageConfig


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function that only the server can compute: the process asks the server for its values."""

    name: str
    arguments: tuple[pa.DataType, ...]
    output: pa.DataType


@dataclass(frozen=True, slots=True)
class Task:
    """A query as text or Substrait plan, with the tables that it reads and the settings for its run."""

    source: str | bytes
    tables: Shipped
    own: Mapping[str, bytes | Path] = field(default_factory=dict)
    """The query's own tables by qualified name, as an Arrow stream or file."""
    settings: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[Function, ...] = ()
    wanted: Literal["rows", "plan"] = "rows"
    """`rows`, or `plan`: DataFusion's physical plan as text in one row."""


class MessageKind(IntEnum):
    """The kind of a message; it decides what the body holds."""

    READY = 1
    """The process is warm; empty body."""
    TASK = 2
    ROWS = 3
    """Body: an Arrow stream of one batch."""
    CALL = 4
    """Body: an Arrow stream with the arguments of a `Function`; the stream's metadata has the function's name."""
    VALUES = 5
    """Body: an Arrow stream with the function's values."""
    FAILED = 6
    """Body: JSON with the name of a FlightLLM error, its text and its limit."""
    DONE = 7
    """All rows were sent. Body: JSON with the bytes spilled."""
