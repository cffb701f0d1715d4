"""Kinds of index over vectors, one per file; `kind` finds one by its name."""

from importlib import import_module

from flightllm.vector.kinds.base import Neighbors


def kind(name: str) -> type[Neighbors]:
    """Return the class of a kind of index.

    Raises:
        MissingExtraError: the extra `vector` is not installed.
    """
    found: type[Neighbors] = import_module(f"flightllm.vector.kinds.{name}").KIND
    return found
