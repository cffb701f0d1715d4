"""Facts about scans that DataFusion keeps from data sets: the limit of a scan, and the SELECT that a scan sends.

DataFusion asks a data set for its scan in the thread that makes the physical plan, so variables of its context do.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final

from datafusion import DataFrame, LogicalPlan
from datafusion.expr import TableScan

_SCAN: Final = "TableScan: "
_NO_LIMIT: Final = 10**12
"""Row filters have a limit above all numbers of rows, which keeps conditions above them."""
_LIMIT = ContextVar[int | None]("the limit of the only scan", default=None)
_SENT = ContextVar[dict[tuple[str, str], None] | None]("the texts that scans send", default=None)


def scan_limit() -> int | None:
    """Return how many rows of the scan that is planned now are enough; None for all."""
    return _LIMIT.get()


@contextmanager
def limited(frame: DataFrame) -> Iterator[None]:
    """Give the limit of a plan's only scan to that scan, while the block plans the frame physically."""
    limit = _limit_of(frame)
    if limit is None:
        yield
        return
    token = _LIMIT.set(limit)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def _limit_of(frame: DataFrame) -> int | None:
    text = frame.logical_plan().display_indent()  # with subqueries, unlike `inputs()`
    if "Limit: " not in text or text.count(_SCAN) != 1:
        return None
    with suppress(Exception):  # the physical plan has the same error, and reports it
        scans = list(_scans(frame.optimized_logical_plan()))
        if len(scans) == 1:
            found: int | None = scans[0].fetch()
            return found if found is not None and found < _NO_LIMIT else None
    return None


def _scans(plan: LogicalPlan) -> Iterator[TableScan]:
    node = plan.to_variant()
    if isinstance(node, TableScan):
        yield node
    for below in plan.inputs():
        yield from _scans(below)


@contextmanager
def noted_scans() -> Iterator[dict[tuple[str, str], None]]:
    """Collect the names of databases and the texts for them, of all scans that the block plans."""
    found = dict[tuple[str, str], None]()
    token = _SENT.set(found)
    try:
        yield found
    finally:
        _SENT.reset(token)


def notes_scans() -> bool:
    """Return whether somebody collects the texts of scans."""
    return _SENT.get() is not None


def note_scan(database: str, text: str) -> None:
    """Note the text that a scan sends."""
    if (found := _SENT.get()) is not None:
        found[database, text] = None
