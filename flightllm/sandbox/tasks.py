"""What a process of its own is told to do, and what it says."""

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
    """What holds for all tasks of a process."""

    limits: LimitsConfig
    storage: StorageConfig


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function that is the server's: the process asks it for values."""

    name: str
    arguments: tuple[pa.DataType, ...]
    output: pa.DataType


@dataclass(frozen=True, slots=True)
class Task:
    """A query by its text or Substrait plan, with all that it reads and the settings that it is to run under."""

    source: str | bytes
    tables: Shipped
    own: Mapping[str, bytes | Path] = field(default_factory=dict)
    """The query's own tables by their whole names, as an Arrow stream or file."""
    settings: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[Function, ...] = ()
    wanted: Literal["rows", "plan"] = "rows"
    """Rows, or a text in one row: DataFusion's physical plan."""


class Kind(IntEnum):
    """What a message is."""

    READY = 1
    """The process is warm."""
    TASK = 2
    ROWS = 3
    """An Arrow stream of one batch."""
    CALL = 4
    """An Arrow stream of the arguments of a `Function`, whose name is the stream's metadata."""
    VALUES = 5
    """Its values."""
    FAILED = 6
    """JSON: the name of one of the product's errors, its text and limit."""
    DONE = 7
    """All rows were sent; JSON: bytes spilled."""
