"""A snapshot of the catalog: a statement runs on the same tables for which it was planned."""

from collections.abc import Mapping

from datafusion import SessionContext

from flightllm.catalog.catalog import Catalog
from flightllm.catalog.entries import Entry
from flightllm.common.names import TableName


class FrozenCatalog(Catalog):
    """A catalog for one statement: it reads the tables of one moment, and changes the present tables."""

    def __init__(self, catalog: Catalog, own: str = "") -> None:
        """Take a snapshot of the tables, with the temporary tables of the schema `own`."""
        self.store = catalog.store
        self.owner = catalog.owner
        self._own = own
        self._entries = self.store.visible(own)
        self._frozen = self.store.catalog_of(self._entries)

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return the tables of the snapshot."""
        return self._entries

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over the tables of the snapshot; see `Catalog.context`."""
        return self.store.context_over(self._frozen, planning=planning, parallel=parallel)

    def schemas(self) -> list[str]:
        """Return the names of all schemas: the temporary schema first, `system` last."""
        return [*([self._own] if self._own else []), *super().schemas()]
