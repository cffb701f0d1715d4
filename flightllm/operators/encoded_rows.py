"""Keep an AI operator's rows in memory, with each distinct text of its arguments once."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_LEAST_WAITING = 16 << 20
_WAITING_DIVISOR = 16
"""The bytes of new texts that wait to be encoded, at least: 16 MiB, or a sixteenth of the room if that is less. Later
as many as the texts that are already known, while the rows stay within the room."""
_TAKEN_DIVISOR = 16
"""The rows of one batch can take the room divided by this number."""
_MOST_APART = 1_000
"""The batches that are joined at once, because each column of a batch takes some hundred bytes beside its values."""


class EncodedRows:
    """Rows whose text columns `encoded` are codes into a dictionary of their texts. One thread uses it.

    Add all batches first, then call `seal`, and read the rows after that. `room` is the number of bytes that they can
    take: the caller stops to add rows when `nbytes` exceeds it.

    Example: the column `encoded` of the batches (red, blue) and (red, NULL) has the dictionary (red, blue) and the
    codes (0, 1, 0, NULL).
    """

    def __init__(self, schema: pa.Schema, encoded: Sequence[int], room: int) -> None:
        self._schema = schema
        self._room = room
        least = min(_LEAST_WAITING, room // _WAITING_DIVISOR)
        self._texts = {column: _Texts(least) for column in encoded}
        self._others = [column for column in range(len(schema)) if column not in self._texts]
        self._other_schema = pa.schema([schema.field(column) for column in self._others])
        self._batches: list[pa.RecordBatch] = []
        """The other columns."""
        self._apart = 0
        """The newest batches that are not joined yet."""
        self._lengths: list[int] = []
        self._table: pa.Table
        self._bytes = 0
        self.most_taken = max(1, room // _TAKEN_DIVISOR)
        """The most bytes that the caller takes at once, unless one row has more: see `row_bytes`."""
        self.rows = 0
        """The number of rows."""

    @property
    def nbytes(self) -> int:
        """Return the bytes that the rows take in memory, or will take while the waiting texts are encoded."""
        return self._bytes + sum(texts.nbytes for texts in self._texts.values())

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        for column, texts in self._texts.items():
            texts.add(batch.column(column))
        if self._others:  # as copies: a column can hold the memory of its whole batch, texts included
            others = [pa.concat_arrays([batch.column(column)]) for column in self._others]
            self._batches.append(pa.RecordBatch.from_arrays(others, schema=self._other_schema))
            self._bytes += self._batches[-1].nbytes
            self._apart += 1
            if self._apart == _MOST_APART:
                self._join()
        if self.nbytes > self._room:
            for texts in self._texts.values():
                texts.shrink()
        self._lengths.append(batch.num_rows)
        self.rows += batch.num_rows

    def seal(self) -> None:
        """Encode the last texts and join the rows; afterwards no rows can be added."""
        for texts in self._texts.values():
            texts.seal()
        self._table = pa.Table.from_batches(self._batches, self._other_schema).combine_chunks()
        self._batches.clear()

    def _join(self) -> None:
        """Join the newest batches if they are small; joining large ones takes their memory twice, and saves little."""
        apart = self._batches[-self._apart :]
        size = sum(batch.nbytes for batch in apart)
        if size < _LEAST_WAITING:
            joined = pa.Table.from_batches(apart, self._other_schema).combine_chunks().to_batches()
            self._batches[-self._apart :] = joined
            self._bytes += sum(batch.nbytes for batch in joined) - size
        self._apart = 0

    def column(self, column: int) -> pa.ChunkedArray | pa.DictionaryArray:
        """Return a column of all rows; an encoded one as a dictionary array of large strings."""
        if column in self._texts:
            return self._texts[column].column
        return self._table.column(self._others.index(column))

    def row_bytes(self) -> NDArray[np.int64]:
        """Return for each row the bytes that it takes with plain texts; of the other columns their mean."""
        others = self._table.nbytes // max(1, self.rows) if self._others else 0
        found = np.full(self.rows, others, dtype=np.int64)
        for texts in self._texts.values():
            found += texts.row_bytes()
        return found

    def take(self, rows: pa.Array) -> pa.RecordBatch:
        """Return the rows with these numbers, as plain texts.

        A text that many of the rows have is there once for each of them: see `row_bytes` and `most_taken`.
        """
        found: dict[int, pa.Array] = {}
        if self._others:
            for column, values in zip(self._others, self._table.take(rows).columns, strict=True):
                found[column] = values.combine_chunks()
        for column, texts in self._texts.items():
            found[column] = texts.take(rows).cast(self._schema.field(column).type)
        return pa.RecordBatch.from_arrays([found[column] for column in range(len(self._schema))], schema=self._schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches as they were added."""
        start = 0
        for length in self._lengths:
            yield self.take(pa.array(np.arange(start, start + length)))
            start += length


class _Texts:
    """The texts of one column: a dictionary and codes, and the newest texts as they are.

    At least `least` bytes of new texts wait before they are encoded.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._known = pa.array([], pa.large_string())
        self._codes: list[pa.Array] = []
        self._waiting: list[pa.Array] = []
        self._codes_bytes = 0
        self.waiting_bytes = 0
        """The bytes of the texts that are not encoded yet."""
        self.column: pa.DictionaryArray

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory. While texts wait, this counts the next dictionary, as if all texts were new."""
        texts = int(self._known.nbytes) + self.waiting_bytes
        return (2 * texts if self._waiting else texts) + self._codes_bytes

    def add(self, texts: pa.Array) -> None:
        """Add texts; encode those that wait once they are many, so that encoding again costs little."""
        self._waiting.append(texts)
        self.waiting_bytes += texts.nbytes
        if self.waiting_bytes >= max(self._least, self._known.nbytes):
            self._encode()

    def shrink(self) -> None:
        """Encode the waiting texts if they are enough for that."""
        if self.waiting_bytes >= self._least:
            self._encode()

    def seal(self) -> None:
        """Encode the rest."""
        self._encode()
        codes = pa.concat_arrays(self._codes) if self._codes else pa.array([], pa.int32())
        self.column = pa.DictionaryArray.from_arrays(codes, self._known, safe=False)
        self._codes.clear()

    def row_bytes(self) -> NDArray[np.int64]:
        """Return the bytes of each row's text; 0 for NULL."""
        lengths = np.append(np.asarray(pc.binary_length(self._known), dtype=np.int64), 0)
        codes = pc.fill_null(self.column.indices, len(self._known))
        found: NDArray[np.int64] = lengths[np.asarray(codes)]
        return found

    def take(self, rows: pa.Array) -> pa.Array:
        """Return the texts of rows."""
        return self._known.take(self.column.indices.take(rows))

    def _encode(self) -> None:
        """Encode the waiting texts. The known texts come first, so they keep their codes."""
        texts = [chunk.cast(pa.large_string()) for chunk in self._waiting if len(chunk)]
        self._waiting.clear()
        self.waiting_bytes = 0
        if not texts:
            return
        coded = pc.dictionary_encode(pa.chunked_array([self._known, *texts]))
        codes = pa.concat_arrays([chunk.indices for chunk in coded.chunks])
        self._codes.append(pa.concat_arrays([codes.slice(len(self._known))]))
        self._codes_bytes += self._codes[-1].nbytes
        self._known = coded.chunk(coded.num_chunks - 1).dictionary
