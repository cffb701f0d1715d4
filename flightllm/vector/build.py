"""Builds a vector index: writes rows and their vectors as a new generation of the index's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flightllm.engines.embed.base import Vectors
from flightllm.errors import InvalidInputError
from flightllm.vector.folder import IndexFolder
from flightllm.vector.kinds import load_kind
from flightllm.vector.kinds.base import Neighbors, prepared
from flightllm.vector.manifest import IndexManifest
from flightllm.vector.words import Words

INDEX, ROWS, WORDS = "vectors.faiss", "rows.arrow", "words"
_VECTORS = "vectors.raw"


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Some rows to index: the columns that a search returns, their vectors and, for text search, their texts."""

    rows: pa.RecordBatch
    vectors: Vectors
    texts: pa.Array | None
    nulls: int = 0
    """The number of rows that are left out, because their value is NULL."""
    failed: int = 0
    """The number of rows that are left out, because the embedding model rejects their text."""


def build(
    folder: IndexFolder, manifest: IndexManifest, schema: pa.Schema, parts: Iterable[IndexedRows]
) -> IndexManifest:
    """Build an index of all parts, in place of the present one; return its manifest.

    `schema` is the rows' schema. `manifest` has everything except the counts, which this function adds. The memory
    holds the index, one part and a sample of the vectors at once.

    Raises:
        InvalidInputError: vectors have different lengths, NaN or infinity, or an option does not fit them.
    """
    made, options = load_kind(manifest.options.type), manifest.options
    with folder.writing() as path:
        if made.trains:
            with (path / _VECTORS).open("wb") as raw:
                counted = _written(path, manifest, schema, parts, lambda ready: raw.write(ready.data))
            if counted.rows:
                shape = counted.rows, counted.dimensions
                made.build(np.memmap(path / _VECTORS, np.float32, "r", shape=shape), options).write(path / INDEX)
            (path / _VECTORS).unlink()
        else:
            found: list[Neighbors] = []

            def add(ready: Vectors) -> None:
                if not found:
                    found.append(made(made.create(ready[:0], options), options))
                found[0].append(ready)

            counted = _written(path, manifest, schema, parts, add)
            for index in found:
                index.settle(index.vectors())
                index.write(path / INDEX)
        return folder.commit(path, replace(counted, trained=counted.rows))


def extend(
    folder: IndexFolder, there: IndexManifest, manifest: IndexManifest, schema: pa.Schema, parts: Iterable[IndexedRows]
) -> IndexManifest:
    """Write an index of the present rows and of all parts; return its manifest.

    Parts of the index that were trained when it was built are not trained again.

    Raises:
        InvalidInputError: see `build`.
    """
    before = folder.generation(there)
    with folder.writing() as path:
        if (before / WORDS).is_dir():
            shutil.copytree(before / WORDS, path / WORDS)
        index = load_kind(manifest.options.type).read(before / INDEX, manifest.options)
        known = replace(manifest, rows=there.rows, dimensions=there.dimensions)
        counted = _written(path, known, schema, parts, index.append, before)
        index.write(path / INDEX)
        return folder.commit(path, replace(counted, trained=there.trained))


def _written(
    path: Path,
    manifest: IndexManifest,
    schema: pa.Schema,
    parts: Iterable[IndexedRows],
    take: Callable[[Vectors], object],
    before: Path | None = None,
) -> IndexManifest:
    """Write rows and words after those of `before`, and pass the vectors to `take`; return the manifest with counts."""
    rows, dimensions, nulls, failed = manifest.rows, manifest.dimensions, manifest.nulls, manifest.failed
    with pa.ipc.new_file(path / ROWS, schema) as written:
        for batch in read_rows(before / ROWS).to_batches() if before else ():
            written.write_batch(batch)

        def texts() -> Iterator[str]:
            nonlocal rows, dimensions, nulls, failed
            for part in parts:
                nulls += part.nulls
                failed += part.failed
                if not len(part.rows):
                    continue
                ready = prepared(part.vectors, manifest.options.metric)
                if rows and ready.shape[1] != dimensions:
                    raise InvalidInputError(
                        f"one column has vectors of {dimensions} and of {ready.shape[1]} numbers: store one length"
                    )
                if not np.isfinite(ready).all():
                    raise InvalidInputError("a vector has NaN or infinity in it: store finite numbers, or NULL")
                dimensions = ready.shape[1]
                rows += len(ready)
                written.write_batch(part.rows)
                take(ready)
                yield from () if part.texts is None else part.texts.to_pylist()

        stream = texts()
        first = next(stream, None)
        if first is not None:
            Words.add(_again(first, stream), path / WORDS, manifest.rows)
    return replace(manifest, rows=rows, dimensions=dimensions, nulls=nulls, failed=failed)


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def read_rows(path: Path) -> pa.Table:
    """Return the rows of an index; they stay on disk until they are used."""
    source: Any = pa.memory_map(str(path))
    return pa.ipc.open_file(source).read_all()
