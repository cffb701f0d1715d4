"""Names in the folder of tables. Each kind of file has names of its own form."""

import re

MANIFEST, PREVIOUS = "manifest.json", "manifest.json.previous"
DAMAGED = "damaged.json"
"""The list of data files that were found damaged. So the next run refuses their rows before it compares the files."""
FILES, READING, SET_ASIDE = "files", "reading", "set-aside"
UNFINISHED = ".unfinished-"
"""Data files have this prefix until a manifest names them. So no manifest, lost or not, ever needs such a file."""
COPY = "copy-"
"""Folders below `reading` with this prefix have copies of files that are elsewhere, and no links to data files."""

_ID = "[0-9a-f]{32}"
DATA_FILE = re.compile(rf"{_ID}\.(parquet|arrow)")
UNFINISHED_FILE = re.compile(rf"{re.escape(UNFINISHED)}{_ID}\.(parquet|arrow)")
UNFINISHED_MANIFEST = re.compile(rf"\.({re.escape(MANIFEST)}|{re.escape(DAMAGED)})-{_ID}")
LINK_FOLDER, COPY_FOLDER = re.compile(_ID), re.compile(COPY + _ID)
LINK = re.compile(r"[0-9]{6,}\.(parquet|arrow)")
COPIED = re.compile(r"rows\.(parquet|texts|jsonl)")


def is_data(name: str) -> bool:
    """Return whether a file can have rows of tables: a lost manifest can have named it."""
    return name.endswith((".parquet", ".arrow")) and not UNFINISHED_FILE.fullmatch(name)
