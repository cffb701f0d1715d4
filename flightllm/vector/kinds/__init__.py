"""The kinds of vector index, one per file; `load_kind` imports a kind by its name."""

from importlib import import_module

from flightllm.vector.kinds.base import Neighbors


def load_kind(name: str) -> type[Neighbors]:
    """Return the class for a kind of index.

    Raises:
        MissingExtraError: the extra `vector` is not installed.
    """
    found: type[Neighbors] = import_module(f"flightllm.vector.kinds.{name}").KIND
    return found
