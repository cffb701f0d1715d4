"""Full-text search by tantivy: finds rows that share words with a query, scored by BM25."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError, MissingExtraError
from flightllm.storage.disk import as_disk_error
from flightllm.vector.kinds.base import Ids, Vectors

try:
    import tantivy
except ImportError as error:
    raise MissingExtraError("a text search", "vector") from error

_TEXT, _ROW = "text", "row"
_HEAP_BYTES = 64 << 20
_NO_WORD = re.compile(r"\W+")
"""Characters that are removed from a query, because tantivy's query language gives some of them a meaning."""


class Words:
    """A text index: ids from 0, English stemming. Threads can search at the same time."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._searcher = index.searcher()

    @classmethod
    def add(cls, texts: Iterable[str], folder: Path, first: int = 0) -> Self:
        """Add texts to the index in a folder, with ids from `first` on.

        Raises:
            OSError: the disk is full or fails.
        """
        folder.mkdir(exist_ok=True)
        schema = tantivy.SchemaBuilder()
        schema.add_text_field(_TEXT, stored=False, tokenizer_name="en_stem")
        schema.add_integer_field(_ROW, stored=True, indexed=False)
        with _disk_errors():
            index = tantivy.Index(schema.build(), path=str(folder), reuse=True)
            writer = index.writer(_HEAP_BYTES, 1)
        for row, text in enumerate(texts, first):
            with _disk_errors():
                writer.add_document(tantivy.Document(text=text, row=row))
        with _disk_errors():
            writer.commit()
            writer.wait_merging_threads()
            index.reload()
            return cls(index)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Open an index that `add` wrote.

        Raises:
            InvalidInputError: tantivy cannot read the folder.
        """
        try:
            return cls(tantivy.Index.open(str(folder)))
        except ValueError as error:
            raise InvalidInputError(f"the text index {folder.name} cannot be read") from error

    def search(self, query: str, count: int, within: NDArray[np.bool_] | None = None) -> tuple[Vectors, Ids]:
        """Return scores and ids of up to `count` texts that share words with the query; `within` restricts them."""
        words = _NO_WORD.sub(" ", query).strip()
        most = count
        while words:
            hits = self._searcher.search(self._query(words), max(1, most), count=False).hits
            found = [(score, self._searcher.doc(place)[_ROW][0]) for score, place in hits]
            kept = [(score, row) for score, row in found if within is None or within[row]]
            if len(kept) >= count or len(found) < most:
                scores, rows = zip(*kept[:count], strict=True) if kept else ((), ())
                return np.array(scores, np.float32), np.array(rows, np.int64)
            most *= 4
        return np.empty(0, np.float32), np.empty(0, np.int64)

    def _query(self, words: str) -> Any:
        query, _ = self._index.parse_query_lenient(words.lower(), [_TEXT])
        return query


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Turn tantivy's errors about a disk into `OSError`."""
    try:
        yield
    except ValueError as error:
        raise as_disk_error(error) from error
