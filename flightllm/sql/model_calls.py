"""Tell the functions that ask a model by their names, before a plan knows them."""

from collections.abc import Collection
from typing import Final

_PREFIXES: Final = ("ai_", "vector_")
_OTHERS: Final = frozenset({"llm"})


def asks_model(name: str, own_functions: Collection[str] = ()) -> bool:
    """Return whether a function of this lower-case name asks a model, or searches an index.

    `own_functions` are the functions in the configuration's folders, which can ask a model, too.
    """
    return name.startswith(_PREFIXES) or name in _OTHERS or name in own_functions
