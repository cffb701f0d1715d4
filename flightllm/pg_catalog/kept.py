"""Keep the rows of the catalog that were made last, until a table or a right changes."""

from collections.abc import Callable, Hashable
from threading import Lock

import pyarrow as pa

from flightllm.common.newest import Newest
from flightllm.pg_catalog.rows import Rows

_MOST = 4
"""The catalog of 5,000 tables with 40 columns takes about 20 MB."""
_MOST_SCHEMAS, _LONGEST_SHAPE = 256, 16_384
"""The described statements of one catalog, and the characters of the longest one that is kept."""


class KeptCatalog:
    """The rows of one catalog, and the columns of the statements that were described last over it. Thread-safe."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._schemas = Newest[str, pa.Schema](_MOST_SCHEMAS)
        self._lock = Lock()

    def schema(self, shape: str, make: Callable[[], pa.Schema]) -> pa.Schema:
        """Return the columns of the statements with a shape, or make them; see `Translated.shape`."""
        with self._lock:
            found = self._schemas.use(shape)
        if found is None:
            found = make()
            if len(shape) <= _LONGEST_SHAPE:
                with self._lock:
                    self._schemas[shape] = found
        return found


class KeptCatalogs:
    """The last catalogs, by the rights and the temporary schema of their sessions. Thread-safe."""

    def __init__(self) -> None:
        self._kept = Newest[Hashable, tuple[object, KeptCatalog]](_MOST)
        self._lock = Lock()

    def of(self, key: Hashable, tables: object, make: Callable[[], Rows]) -> KeptCatalog:
        """Return the catalog that was made for `key` while the store held the object `tables`, or make it."""
        with self._lock:
            kept = self._kept.use(key)
            if kept is None or kept[0] is not tables:
                kept = (tables, KeptCatalog(make()))
                self._kept[key] = kept
            return kept[1]
