"""The right answers: SemBench's own SQL over the hidden labels, run by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.sembench.labels import FOLDER, files, table

_PART: Final = re.compile(r"^-- (Q\d+):.*$", re.MULTILINE)
Rows = Sequence[tuple[Any, ...]]


def gold(data: Path) -> Mapping[str, Rows]:
    """Return the rows of each question's gold SQL, which the file `gold.sql` has under a comment with its name."""
    import duckdb

    with duckdb.connect() as connection:
        for name, path in files(data).items():
            connection.register(name, table(path))
        texts = statements((data / FOLDER / "gold.sql").read_text(encoding="utf-8"))
        return {name: connection.execute(sql).fetchall() for name, sql in texts.items()}


def statements(text: str) -> Mapping[str, str]:
    """Return the statements of a file by the names in the comments before them."""
    _, *parts = _PART.split(text)
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}
