"""Build an index: rows and their vectors in, a new generation of its folder out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flightllm.errors import InvalidInputError
from flightllm.llm.embed.base import Vectors
from flightllm.vector.folder import IndexFolder
from flightllm.vector.kinds import kind
from flightllm.vector.kinds.base import Neighbors, prepared
from flightllm.vector.manifest import Manifest
from flightllm.vector.words import Words

INDEX, ROWS, WORDS = "vectors.faiss", "rows.arrow", "words"
_VECTORS = "vectors.raw"


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows to be found: what a search returns of them, their vectors and, for a text search, their texts."""

    rows: pa.RecordBatch
    vectors: Vectors
    texts: pa.Array | None
    nulls: int = 0
    """Rows left out beside these, since there is nothing to find them by."""


def build(folder: IndexFolder, manifest: Manifest, schema: pa.Schema, parts: Iterable[Part]) -> Manifest:
    """Write an index of all parts in place of the one that is there; return its manifest.

    `schema` is that of the rows. `manifest` says all but what is counted here. What is in memory at once is the index,
    a part and a sample of the vectors.

    Raises:
        InvalidInputError: vectors have different lengths or no numbers in them, or an option does not fit them.
    """
    made, options = kind(manifest.options.type), manifest.options
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
    folder: IndexFolder, there: Manifest, manifest: Manifest, schema: pa.Schema, parts: Iterable[Part]
) -> Manifest:
    """Write an index of the rows that are there and of all parts in its place; return its manifest.

    What was trained when it was built is not trained anew.

    Raises:
        InvalidInputError: as `build`.
    """
    before = folder.generation(there)
    with folder.writing() as path:
        if (before / WORDS).is_dir():
            shutil.copytree(before / WORDS, path / WORDS)
        index = kind(manifest.options.type).read(before / INDEX, manifest.options)
        known = replace(manifest, rows=there.rows, dimensions=there.dimensions)
        counted = _written(path, known, schema, parts, index.append, before)
        index.write(path / INDEX)
        return folder.commit(path, replace(counted, trained=there.trained))


def _written(
    path: Path,
    manifest: Manifest,
    schema: pa.Schema,
    parts: Iterable[Part],
    take: Callable[[Vectors], object],
    before: Path | None = None,
) -> Manifest:
    """Write rows and words, after those of `before`, and let `take` have the vectors; return the manifest, counted."""
    rows, dimensions, nulls = manifest.rows, manifest.dimensions, manifest.nulls
    with pa.ipc.new_file(path / ROWS, schema) as written:
        for batch in read_rows(before / ROWS).to_batches() if before else ():
            written.write_batch(batch)

        def texts() -> Iterator[str]:
            nonlocal rows, dimensions, nulls
            for part in parts:
                nulls += part.nulls
                if not len(part.rows):
                    continue
                ready = prepared(part.vectors, manifest.options.metric)
                if rows and ready.shape[1] != dimensions:
                    raise InvalidInputError(
                        f"vectors of {dimensions} and of {ready.shape[1]} numbers are in one column"
                    )
                if not np.isfinite(ready).all():
                    raise InvalidInputError("a vector has NaN or infinity in it")
                dimensions = ready.shape[1]
                rows += len(ready)
                written.write_batch(part.rows)
                take(ready)
                yield from () if part.texts is None else part.texts.to_pylist()

        stream = texts()
        first = next(stream, None)
        if first is not None:
            Words.add(_again(first, stream), path / WORDS, manifest.rows)
    return replace(manifest, rows=rows, dimensions=dimensions, nulls=nulls)


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def read_rows(path: Path) -> pa.Table:
    """Return the rows of an index, left on disk until they are looked at."""
    source: Any = pa.memory_map(str(path))
    return pa.ipc.open_file(source).read_all()
