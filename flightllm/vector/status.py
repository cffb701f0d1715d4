"""Whether an index is up to date with its table."""

from collections.abc import Callable

from flightllm.common.names import TableName
from flightllm.errors import NotFoundError
from flightllm.vector.manifest import IndexManifest


def status(manifest: IndexManifest, revision: Callable[[TableName], str], model: str) -> str:
    """Return `ready`, or the reason why an index is out of date.

    `revision` returns a table's present revision; `model` is the server's embedding model.
    """
    table = TableName(*manifest.table)
    try:
        fresh = revision(table) == manifest.source
    except NotFoundError:
        return f"the table {table.display!r} is gone"
    if manifest.model not in {"", model}:
        return f"stale: its embedding model was {manifest.model!r}; REFRESH VECTOR INDEX {manifest.name}"
    return "ready" if fresh else f"stale: {table.display!r} has changed; REFRESH VECTOR INDEX {manifest.name}"
