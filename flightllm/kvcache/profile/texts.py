"""Texts to learn a profile from: the user's files, or the sample tables."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.common.package_data import sample_folder
from flightllm.errors import ConfigError


def read_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of files: each row of a Parquet file, the whole text of any other file.

    Raises:
        ConfigError: a file cannot be read.
    """
    for path in paths:
        try:
            if path.suffix == ".parquet":
                yield from _rows(path)
            else:
                yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, pa.ArrowInvalid) as error:
            raise ConfigError(f"--texts: cannot read {path} as Parquet or text: {error}") from error


def sample_texts() -> Iterator[str]:
    """Yield the rows of the packaged sample tables, in turn from each table."""
    tables = [list(_rows(path)) for path in sorted(sample_folder().glob("*.parquet"))]
    for place in range(max(map(len, tables))):
        yield from (rows[place] for rows in tables if place < len(rows))


def _rows(path: Path) -> Iterator[str]:
    """Yield each row of a Parquet file in the form of prompts, without NULL values."""
    for batch in pq.ParquetFile(path).iter_batches():
        for row in batch.to_pylist():
            yield "\n".join(f"{name}: {value}" for name, value in row.items() if value is not None)


def contexts(texts: Iterable[list[int]], tokens: int, count: int) -> Iterator[list[int]]:
    """Yield at most `count` contexts of `tokens` tokens each, cut from the concatenated texts."""
    held: list[int] = []
    for text in texts:
        held += text
        while len(held) >= tokens:
            if not count:
                return
            yield held[:tokens]
            held = held[tokens:]
            count -= 1
