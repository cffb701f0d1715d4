"""Files that hold several tables: spreadsheets, SQLite files and zip files."""

from pathlib import Path

from flightllm.file_formats.excel import ENDINGS as SHEETS
from flightllm.file_formats.excel import sheets
from flightllm.file_formats.sqlite import ENDINGS as SQLITE
from flightllm.file_formats.sqlite import sqlite_tables
from flightllm.file_formats.zip_files import ENDINGS as ZIP
from flightllm.file_formats.zip_files import zip_members

ENDINGS = (*SHEETS, *SQLITE, *ZIP)
MEMBERS = (".csv", ".tsv", ".tab", ".json", ".jsonl", ".ndjson", ".parquet", *SHEETS)
"""The endings of the members of zip files that become tables."""


def parts_of(path: Path, most_bytes: int | None = None) -> list[str]:
    """Return the names of the tables of a file.

    Raises:
        MissingExtraError: the extra `excel` is not installed.
        InvalidInputError: the file cannot be read.
        LimitExceededError: the files in a zip file have more than `most_bytes` bytes together.
    """
    name = path.name.lower()
    if name.endswith(ZIP):
        return zip_members(path, MEMBERS, most_bytes)
    return sqlite_tables(path) if name.endswith(SQLITE) else sheets(path)
