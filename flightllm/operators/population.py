"""The distinct prompts of a call with a promise: how many rows each has, and the answers that are known so far."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.errors import check_cancelled
from flightllm.operators.arrange import ArgumentColumns, Arranged, split
from flightllm.operators.batches import PromptBatch
from flightllm.operators.encoded_rows import EncodedRows
from flightllm.operators.prompts import PromptLister

Units: TypeAlias = NDArray[np.int64]
"""Numbers of distinct prompts, which a population counts from 0."""

_KEY_BYTES: Final = 16
_KEY: Final = f"S{_KEY_BYTES}"
_MOST_TUPLES: Final = 512
"""The most tuples of a batch of prompts."""
_CHUNK: Final = 4_096
"""The most keys that are looked up at once."""


class Population:
    """The distinct prompts of the rows that need an answer, ordered by a hash of their values. One thread uses it.

    The order of the rows does not change the order of the units, so a rerun asks the same questions.
    """

    def __init__(
        self,
        arranged: Arranged,
        rows: EncodedRows | None,
        columns: ArgumentColumns,
        lister: PromptLister,
        cancelled: Callable[[], bool],
    ) -> None:
        """Read all rows once. `rows` has them in memory; without it, each call of `batches` reads them again."""
        self._arranged = arranged
        self._rows = rows
        self._columns = columns
        self._lister = lister
        self._cancelled = cancelled
        keys, weights, numbers, orders = bytearray(), array("q"), array("q"), array("i")
        self._orders: dict[tuple[int, ...], int] = {}
        for batch in self.rows():
            found = _needing(batch, lister)
            if found is None:
                continue
            places, counts, firsts, own = found
            keys += b"".join(own)
            weights.extend(counts)
            numbers.extend([-1] * len(own) if batch.numbers is None else batch.numbers[firsts].tolist())
            orders.extend([self._order(batch.orders[place] if batch.orders else ()) for place in places])
        every = np.frombuffer(bytes(keys), _KEY)
        self._keys, first, unit = np.unique(every, return_index=True, return_inverse=True)
        self.weights: Units = np.bincount(unit, weights=np.asarray(weights), minlength=len(self._keys)).astype(np.int64)
        """The rows of each unit."""
        self._place: Units = first
        """The place of each unit in the order in which prompts are sent."""
        self._numbers = np.asarray(numbers, np.int64)[first]
        self._order_of = np.asarray(orders, np.int32)[first]

    def __len__(self) -> int:
        """Return the number of distinct prompts."""
        return len(self._keys)

    def rows(self) -> Iterator[PromptBatch]:
        """Yield all rows in the order in which prompts are sent.

        Raises:
            CancelledError: the query was cancelled.
        """
        for batch in self._arranged.batches():
            check_cancelled(self._cancelled)
            yield batch

    def keys(self, units: Units) -> list[bytes]:
        """Return the keys of prompts to the call's own model."""
        raw = np.ascontiguousarray(self._keys[units]).tobytes()
        return [raw[start : start + _KEY_BYTES] for start in range(0, len(raw), _KEY_BYTES)]

    def chunks(self, units: Units) -> Iterator[Units]:
        """Yield units in parts that can be looked up at once."""
        for start in range(0, len(units), _CHUNK):
            yield units[start : start + _CHUNK]

    def units(self, keys: Sequence[bytes]) -> Units:
        """Return the units with these keys; all of them must be there."""
        return np.searchsorted(self._keys, np.frombuffer(b"".join(keys), _KEY))

    def prompts(self, units: Units) -> Iterator[tuple[Units, PromptBatch]]:
        """Yield units in the order in which prompts are sent, with a batch that has one row for each of them.

        Raises:
            CancelledError: the query was cancelled.
        """
        if self._rows is None:
            yield from self._reread(units)
            return
        ordered = units[np.argsort(self._place[units], kind="stable")]
        names = list(self._orders)
        lists = self._lists
        for start in range(0, len(ordered), _MOST_TUPLES):
            check_cancelled(self._cancelled)
            own = ordered[start : start + _MOST_TUPLES]
            rows = self._rows.take(pa.array(self._numbers[own]))
            orders = [names[order] for order in self._order_of[own]] if any(names) else []
            (batch,) = split(rows, np.arange(len(own)), self._columns.columns, lambda: _MOST_TUPLES, orders, lists)
            yield own, batch

    def _reread(self, units: Units) -> Iterator[tuple[Units, PromptBatch]]:
        """Find the rows of units by reading all rows again."""
        wanted = np.zeros(len(self), bool)
        wanted[units] = True
        for batch in self.rows():
            found = _needing(batch, self._lister)
            if found is None:
                continue
            places, _, firsts, keys = found
            unit = self.units(keys)
            chosen = np.flatnonzero(wanted[unit])
            _, once = np.unique(unit[chosen], return_index=True)
            chosen = chosen[np.sort(once)]
            if not len(chosen):
                continue
            wanted[unit[chosen]] = False
            rows = batch.rows.take(pa.array(firsts[chosen]))
            tuples = [batch.tuples[places[one]] for one in chosen]
            orders = [batch.orders[places[one]] for one in chosen] if batch.orders else []
            yield unit[chosen], PromptBatch(rows, np.arange(len(chosen)), tuples, orders)

    @property
    def _lists(self) -> dict[int, int]:
        """Return the positions that each argument takes which is a list."""
        if self._arranged.keeps_field_order:
            return {}
        placed = zip(self._columns.columns, self._arranged.places, strict=True)
        return {column: len(own) for column, own in placed if column in self._columns.lists}

    def _order(self, order: tuple[int, ...]) -> int:
        return self._orders.setdefault(order, len(self._orders))


def _needing(batch: PromptBatch, lister: PromptLister) -> tuple[list[int], list[int], Units, list[bytes]] | None:
    """Return the tuples of a batch that need a prompt, their numbers of rows, their first rows and their keys.

    Return None if no tuple needs one. Rows with a false guard do not count.
    """
    listed = lister.listed(batch, 0)
    if not listed:
        return None
    guard = batch.guards.get(0)
    tuple_of_row = batch.tuple_of_row
    rows = np.arange(len(tuple_of_row)) if guard is None else np.flatnonzero(guard)
    counts = np.bincount(tuple_of_row[rows], minlength=len(batch.tuples))
    firsts = np.zeros(len(batch.tuples), np.int64)
    firsts[tuple_of_row[rows[::-1]]] = rows[::-1]  # of equal places, the last value stays: that of the first row
    places = [place for place, _, _ in listed]
    return places, counts[places].tolist(), firsts[places], [key for _, _, key in listed]
