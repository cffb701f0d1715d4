"""The sizes of the catalog's tables, from the metadata of their files only."""

from pathlib import Path

from flightllm.catalog.entries import Entry
from flightllm.datafusion.table_size import TableSize, size_of_files


def table_size(entry: Entry) -> TableSize | None:
    """Return the size of a table, or None if neither its files' metadata nor its source tells."""
    if entry.attached is not None:
        return None if entry.attached.rows is None else TableSize(entry.attached.rows)
    if entry.rows is not None:
        paths = [entry.rows.path(index) for index in range(len(entry.rows.files))]
        return size_of_files(paths) or TableSize(sum(file.rows for file in entry.rows.files))
    if entry.source is not None:
        return size_of_files([Path(entry.source.location)])
    if entry.path is None:
        return None
    try:
        whole = entry.path.is_dir()
        return size_of_files(sorted(p for p in entry.path.rglob("*") if p.is_file()) if whole else [entry.path])
    except OSError:
        return None
