"""Searches as an engine: a request's one field is what to look for, the answer the numbers and scores of rows."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError
from flightllm.llm.base import Completion, PrefixCache, Request
from flightllm.llm.embed.base import Vectors
from flightllm.llm.embed.engine import in_batches, text_of, vector_of
from flightllm.vector.index import Found, Mode, VectorIndex
from flightllm.vector.store import VectorIndexes

WINDOW = 8_192
"""Searches of one batch."""
_FILTERS = 16
Embed = Callable[[Sequence[str]], Vectors]
Matching = Callable[[VectorIndex, str], NDArray[np.bool_]]
"""Tells for each row of an index whether a condition, in SQL, is true for it."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a call looks for its queries in; `generation` is the one that it was planned for."""

    index: str
    generation: str
    count: int
    mode: Mode = "vector"
    filter: str = ""

    def as_text(self) -> str:
        """Return the search as an instruction."""
        return json.dumps(asdict(self))


class SearchEngine:
    """Answers all searches of a batch together."""

    def __init__(self, indexes: VectorIndexes, embed: Embed, matching: Matching) -> None:
        self._indexes = indexes
        self._embed = embed
        self._matching = matching
        self._lock = Lock()
        self._masks: OrderedDict[tuple[str, str], NDArray[np.bool_]] = OrderedDict()
        self.name = "vector indexes"
        self.revision = "search-1"
        self.prefix_cache: PrefixCache | None = None

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Search; see `Engine.generate`."""
        return in_batches(requests, cancelled, WINDOW, self._answer)

    def count_tokens(self, text: str) -> int:
        """Return nothing: a search costs no tokens."""
        del text
        return 0

    def close(self) -> None:
        """Do nothing: the indexes are the server's."""

    def _answer(self, batch: list[Request]) -> list[Completion]:
        """Answer each search of the batch.

        Raises:
            InvalidInputError: the index is damaged, or a query is a vector of another length than its vectors.
        """
        answers: list[Completion] = []
        for instruction in dict.fromkeys(request.instruction for request in batch):
            some = [request for request in batch if request.instruction == instruction]
            found = self._search(Search(**json.loads(instruction)), [text_of(request) for request in some])
            answers += [Completion(one.id, found_text(rows)) for one, rows in zip(some, found, strict=True)]
        return answers

    def _search(self, search: Search, queries: Sequence[str]) -> list[Found]:
        index = self._indexes.open(search.index, search.generation)
        within = self._mask(index, search.filter) if search.filter else None
        if not index.manifest.model:
            return index.search(search.count, search.mode, None, _vectors(queries), within)
        vectors = None if search.mode == "text" else self._embed(queries)
        return index.search(search.count, search.mode, queries, vectors, within)

    def _mask(self, index: VectorIndex, condition: str) -> NDArray[np.bool_]:
        key = index.manifest.generation, condition
        with self._lock:
            if key not in self._masks:
                self._masks[key] = self._matching(index, condition)
                if len(self._masks) > _FILTERS:
                    self._masks.popitem(last=False)
            return self._masks[key]


def found_text(found: Found) -> str:
    """Return what was found as text."""
    return json.dumps([found.ids.tolist(), found.scores.tolist()])


def found_of(text: str) -> tuple[list[int], list[float]]:
    """Return the numbers and scores of rows that `found_text` wrote."""
    ids, scores = json.loads(text)
    return ids, scores


def _vectors(texts: Sequence[str]) -> Vectors:
    """Read vectors that SQL passes.

    Raises:
        InvalidInputError: they have different lengths, or no numbers in them.
    """
    vectors = [vector_of(text) for text in texts]
    if len(lengths := sorted({len(vector) for vector in vectors})) > 1:
        raise InvalidInputError(f"the vectors searched for have different lengths: {', '.join(map(str, lengths))}")
    found = np.stack(vectors)
    if not np.isfinite(found).all():
        raise InvalidInputError("a vector searched for has NULL, NaN or infinity in it")
    return found
