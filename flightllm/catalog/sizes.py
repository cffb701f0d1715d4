"""How large the tables of the catalog are, as far as their files say it without being read."""

from pathlib import Path

from flightllm.catalog.entries import Entry
from flightllm.datafusion.table_size import TableSize, size_of_files


def table_size(entry: Entry) -> TableSize | None:
    """Return how large a table is, None where its files do not say."""
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
