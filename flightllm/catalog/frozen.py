"""The catalog at one moment: what a statement is planned against, it runs on too, whatever is changed meanwhile."""

from collections.abc import Mapping

from datafusion import SessionContext

from flightllm.catalog.catalog import Catalog
from flightllm.catalog.entries import Entry
from flightllm.common.names import TableName


class FrozenCatalog(Catalog):
    """A catalog for one statement: it reads the tables as they were when this was made, and changes those there are."""

    def __init__(self, catalog: Catalog, own: str = "") -> None:
        """Freeze what there is now, temporary tables of the schema `own` among it."""
        self.store = catalog.store
        self.owner = catalog.owner
        self._own = own
        self._entries = self.store.visible(own)
        self._frozen = self.store.catalog_of(self._entries)

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return the tables that there were."""
        return self._entries

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over the tables that there were; see `Catalog.context`."""
        return self.store.context_over(self._frozen, planning=planning, parallel=parallel)

    def schemas(self) -> list[str]:
        """Return the names of all schemas, that of temporary tables among them; `system` last."""
        return [*([self._own] if self._own else []), *super().schemas()]
