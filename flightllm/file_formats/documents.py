"""Converts text files, such as Markdown, to one Parquet file with a row for each file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from flightllm.common.row_groups import gathered
from flightllm.errors import InvalidInputError
from flightllm.file_formats.compressed import open_bytes
from flightllm.file_formats.encodings import encoding_of
from flightllm.file_formats.rows import DAMAGED
from flightllm.file_formats.table_writer import table_writer

ENDINGS = (".txt", ".md", ".markdown", ".rst")
SCHEMA = pa.schema([("name", pa.string()), ("path", pa.string()), ("text", pa.string())])
_LONGEST = 1 << 26
"""The most bytes of a document, whose text is in memory as a whole."""


def convert_documents(paths: Sequence[Path], folder: Path, target: Path) -> list[str]:
    """Write a row with name, path and text for each file; paths are relative to `folder`. Return notes.

    Raises:
        InvalidInputError: a file is too large or damaged.
    """
    notes = list[str]()
    with table_writer(target, SCHEMA) as writer:
        for group in gathered(_rows(paths, folder, notes)):
            writer.write_table(pa.Table.from_batches(group, SCHEMA))
    return notes


def _rows(paths: Sequence[Path], folder: Path, notes: list[str]) -> Iterator[pa.RecordBatch]:
    guessed = list[str]()
    for path in paths:
        text, encoding = _text(path)
        if not encoding.startswith("utf"):
            guessed.append(path.name)
        row = {"name": path.name, "path": path.relative_to(folder).as_posix(), "text": text}
        yield pa.RecordBatch.from_pylist([row], SCHEMA)
    if guessed:
        notes.append(f"{len(guessed):,} of {len(paths):,} files are not UTF-8, such as {guessed[0]}: a guess was read")


def _text(path: Path) -> tuple[str, str]:
    """Return a file's text and its encoding."""
    try:
        with open_bytes(path) as file:
            content = file.read(_LONGEST + 1)
        if len(content) > _LONGEST:
            raise InvalidInputError(f"{path.name}: a document has at most {_LONGEST:,} bytes: split it")
        with open_bytes(path) as file:
            encoding = encoding_of(file)
        return content.decode(encoding).removeprefix("\ufeff"), encoding
    except UnicodeError as error:
        raise InvalidInputError(f"{path.name}: it is not valid {encoding}: convert it to UTF-8") from error
    except DAMAGED as error:
        raise InvalidInputError(f"{path.name}: it is damaged: {error}") from error
