"""Keep the rows of the catalog that were made last, until a table or a right changes."""

from collections.abc import Callable, Hashable
from threading import Lock

from flightllm.common.newest import Newest
from flightllm.pg_catalog.rows import Rows

_MOST = 4
"""The catalog of 5,000 tables with 40 columns takes about 20 MB."""


class KeptCatalogs:
    """The last catalogs, by the rights and the temporary schema of their sessions. Thread-safe."""

    def __init__(self) -> None:
        self._kept = Newest[Hashable, tuple[object, Rows]](_MOST)
        self._lock = Lock()

    def of(self, key: Hashable, tables: object, make: Callable[[], Rows]) -> Rows:
        """Return the catalog that was made for `key` while the store held the object `tables`, or make it."""
        with self._lock:
            kept = self._kept.use(key)
            if kept is None or kept[0] is not tables:
                kept = (tables, make())
                self._kept[key] = kept
            return kept[1]
