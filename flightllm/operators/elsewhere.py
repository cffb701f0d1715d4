"""Run stages outside of this process, if they can take more than their share of its memory."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from substrait.plan_pb2 import Plan

from flightllm.datafusion.run import Batches

Held = Mapping[str, tuple[pa.Schema, Sequence[pa.RecordBatch] | Path]]
"""Rows of stage inputs by table: batches, or an Arrow file."""


class Elsewhere(Protocol):
    """A runner for stages of one query outside of this process."""

    def bounded(self, context: SessionContext, frame: DataFrame) -> bool:
        """Return whether a stage can run in this process."""

    def stream(self, context: SessionContext, cancelled: Callable[[], bool], source: Plan, own: Held) -> Batches:
        """Yield the rows of a stage that runs under the settings of a context."""
