"""The answer of a search in a vector index: rows of the index, each with its score."""

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.base import Answer

if TYPE_CHECKING:
    from flightllm.vector.index import Mode


VECTOR_TEXT = "__vector_text"
"""The SQL function that `vector_texts` is."""


class Searched(Protocol):
    """An open index."""

    @property
    def rows(self) -> pa.Table:
        """Return the rows that can be found."""

    @property
    def generation(self) -> str:
        """Return what tells it from the index of the same name before and after."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def of_vectors(self) -> bool:
        """Tell whether it is searched for vectors, not texts."""

    def check(self, condition: str, mode: str) -> None:
        """Check that it can be searched so; raises `SqlError`."""


def search_answer(index: Searched, count: int, mode: str, condition: str, returning: str = "") -> Answer:
    """Answer with up to `count` rows of an index for which `condition` is true.

    They are structs with a `score`, or the values of the one column that `returning` names.

    Raises:
        AICallError: the index has no such column.
    """
    from flightllm.vector.engine import Search, found_of

    index.check(condition, mode)
    rows = index.rows
    score = "score" if "score" not in rows.schema.names else "score_2"
    kind = pa.struct([*rows.schema, pa.field(score, pa.float32())])
    if returning and returning not in kind.names:
        raise AICallError(f"the index has no column {returning!r} to return; it has {', '.join(kind.names)}")

    batches = rows.to_batches()  # a value of a batch is read at once, one of a table of many batches is not
    ends = [*accumulate(map(len, batches))]

    def value(name: str, row: int) -> Any:
        place = bisect_right(ends, row)
        return batches[place].column(name)[row - ends[place]].as_py()  # counted from the batch's end

    def parse(text: str) -> list[Any]:
        ids, scores = found_of(text)
        if returning == score:
            return scores
        if returning:
            return [value(returning, row) for row in ids]
        names = rows.schema.names
        found = ({name: value(name, row) for name in names} for row in ids)
        return [{**row, score: near} for row, near in zip(found, scores, strict=True)]

    search = Search(index.name, index.generation, count, cast("Mode", mode), condition)
    output = pa.list_(kind.field(returning).type if returning else kind)
    return Answer(search.as_text(), output, parse, through=VECTOR_TEXT if index.of_vectors else "")


def vector_texts(vectors: pa.Array) -> pa.Array:
    """Return lists of numbers as texts; see `llm.embed.engine.vector_text`."""
    from flightllm.llm.embed.engine import vector_text

    numbers = vectors.values.to_numpy(zero_copy_only=False)
    ends, there = vectors.offsets.to_numpy(), vectors.is_valid().to_pylist()
    rows = zip(there, ends, ends[1:], strict=False)
    return pa.array([vector_text(numbers[start:end]) if given else None for given, start, end in rows], pa.string())
