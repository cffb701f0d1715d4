"""Names for a query's columns without an alias."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a SELECT, with the name of its column.

    `name` is None for a plain column or an item with an alias, because these items already have names. If DataFusion
    gives the column a name in `kept`, the expression is a name after all, and the column keeps DataFusion's name.
    """

    name: str | None
    kept: frozenset[str] = frozenset()

    def named(self, name: str) -> str:
        """Return the name that the client sees for a column; `name` is DataFusion's name."""
        return name if self.name is None or name in self.kept else self.name


@dataclass(frozen=True, slots=True)
class OutputNames:
    """The items of a query's first SELECT; at most one item, such as a star, gives any number of columns."""

    items: tuple[Item, ...] = ()
    wide: int | None = None
    """The index of the item that gives any number of columns."""

    @property
    def fixed(self) -> bool:
        """Return whether each item is one column and some items have names."""
        return self.wide is None and any(item.name is not None for item in self.items)

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return the names that the client sees for columns; `names` are DataFusion's names.

        DataFusion's names stay if their number does not fit the items. They also stay for columns that would get the
        same new name although their old names differ.
        """
        more = len(names) - len(self.items)
        if not self.items or more < -1 or (more and self.wide is None):
            return list(names)
        items = list(self.items)
        if self.wide is not None and more:
            items[self.wide : self.wide + 1] = [Item(None)] * (more + 1)
        found = [item.named(name) for item, name in zip(items, names, strict=True)]
        while equal := _made_equal(found, names):
            found = [name if new in equal else new for new, name in zip(found, names, strict=True)]
        return found


def _made_equal(found: Sequence[str], names: Sequence[str]) -> set[str]:
    """Return the new names of columns whose names differed."""
    before = dict[str, set[str]]()
    for new, name in zip(found, names, strict=True):
        before.setdefault(new, set()).add(name)
    return {new for new, others in before.items() if len(others) > 1}


NO_NAMES = OutputNames()
