"""The names of a query's columns that have no alias."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a SELECT: the name of its column, and those that it has where its expression is a name after all.

    `name` is None for a column or an item with an alias, which are named already.
    """

    name: str | None
    kept: frozenset[str] = frozenset()

    def named(self, name: str) -> str:
        """Return what a column is shown as that DataFusion gave a name."""
        return name if self.name is None or name in self.kept else self.name


@dataclass(frozen=True, slots=True)
class OutputNames:
    """The items of a query's first SELECT; at most one of them, such as a star, stands for any number of columns."""

    items: tuple[Item, ...] = ()
    wide: int | None = None
    """The place of that item."""

    @property
    def fixed(self) -> bool:
        """Tell whether each item is one column and some have names of their own."""
        return self.wide is None and any(item.name is not None for item in self.items)

    def shown(self, names: Sequence[str]) -> list[str]:
        """Return names for columns that DataFusion gave some.

        These stay where they do not fit the items, and for those columns that would get one name though theirs differ.
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
