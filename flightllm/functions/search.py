"""The answer of a search in a vector index: rows of the index, each with its score."""

from typing import TYPE_CHECKING, Final, Protocol, cast

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.base import Answer
from flightllm.functions.own import OwnFunction

if TYPE_CHECKING:
    from flightllm.vector.index import Mode


VECTOR_BYTES = "__vector_bytes"
"""The name of `vector_bytes` as an SQL function."""


class Searched(Protocol):
    """An open index."""

    @property
    def rows(self) -> pa.Table:
        """Return the rows of the index."""

    @property
    def generation(self) -> str:
        """Return an id that differs between versions of the index with this name."""

    @property
    def name(self) -> str:
        """Return the name of the index."""

    @property
    def of_vectors(self) -> bool:
        """Return whether its queries are vectors, not texts."""

    def check(self, condition: str, mode: str) -> None:
        """Check that the index supports the condition and the mode; raise `SqlError` if it does not."""


def search_answer(index: Searched, count: int, mode: str, condition: str, returning: str = "") -> Answer:
    """Answer with up to `count` rows of an index that fulfil `condition`.

    The rows are structs with a `score`, or the values of the one column that `returning` names.

    Raises:
        AICallError: the index does not have the column `returning`.
    """
    from flightllm.vector.engine import IndexQuery, found_type

    index.check(condition, mode)
    kind = found_type(index.rows.schema)
    if returning and returning not in kind.names:
        raise AICallError(f"the index has no column {returning!r} to return; it has {', '.join(kind.names)}")
    search = IndexQuery(index.name, index.generation, count, cast("Mode", mode), condition, returning)
    output = pa.list_(kind.field(returning).type if returning else kind)
    return Answer(search.as_text(), output, parse=str, through=VECTOR_BYTES if index.of_vectors else "")


def vector_bytes(vectors: pa.Array) -> pa.Array:
    """Return lists of numbers as their bytes, with NaN in place of NULL numbers; NULL where there is no list."""
    numbers = vectors.values.to_numpy(zero_copy_only=False).astype("<f4", copy=False)
    ends = vectors.offsets.to_numpy() * numbers.itemsize
    there = pa.array(vectors.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
    buffers = [there, pa.py_buffer(ends), pa.py_buffer(numbers)]
    return pa.Array.from_buffers(pa.binary(), len(vectors), buffers)


FUNCTIONS: Final = (OwnFunction(vector_bytes, (pa.list_(pa.float32()),), pa.binary(), VECTOR_BYTES),)
