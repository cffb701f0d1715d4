"""Samples of joined rows with as many rows per movie or product as the paper's tables.

Source: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821: 15,000 rows of a join, about
thirteen for each movie. A smaller sample has all the rows of fewer movies, because a random sample of rows would hardly
share texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.common import data_table

PAPER_ROWS: Final = 15_000


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables: reviews, and their subjects. Rows without a text in `subject_text` or `text` are left out."""

    subjects: str
    reviews: str
    subject_text: str
    text: str

    @property
    def key(self) -> str:
        """Return the column that joins the tables.

        The packaged tables and the real ones have different names for the products' key.
        """
        names = [set(pq.read_schema(data_table(name)).names) for name in (self.subjects, self.reviews)]
        (key,) = names[0] & names[1]
        return str(key)


def sample(pair: Pair, rows: int, *, stored: bool = False, seed: int = 0) -> Mapping[str, pa.Table]:
    """Return both tables by name, reduced so that their join has at most `rows` rows.

    Reviews are in random order. With `stored` they are in the order of their file, where the reviews of a subject are
    side by side.
    """
    random = np.random.default_rng(seed)
    key = pair.key
    subjects = _with_text(pq.read_table(data_table(pair.subjects)), pair.subject_text)
    reviews = _with_text(pq.read_table(data_table(pair.reviews)), pair.text)
    reviews = reviews.filter(pc.is_in(reviews[key], subjects[key]))
    places = random.permutation(len(reviews))[:PAPER_ROWS]
    codes = reviews[key].combine_chunks().dictionary_encode().indices.to_numpy()[places]
    counts = np.bincount(codes)
    order = random.permutation(np.flatnonzero(counts))
    enough = int(np.searchsorted(np.cumsum(counts[order]), rows)) + 1
    places = places[np.isin(codes, order[:enough])][:rows]
    reviews = reviews.take(pa.array(np.sort(places) if stored else places)).combine_chunks()
    subjects = subjects.filter(pc.is_in(subjects[key], reviews[key])).combine_chunks()
    return {pair.subjects: subjects, pair.reviews: reviews}


def first_rows(tables: Mapping[str, pa.Table], counts: Mapping[str, int]) -> dict[str, pa.Table]:
    """Return tables with only as many first rows as `counts` has for them; other tables stay whole.

    Benchmarks warm up with such tables.
    """
    return {name: one.slice(0, counts.get(name)) for name, one in tables.items()}


def write(tables: Mapping[str, pa.Table], folder: Path) -> Mapping[str, Path]:
    """Write tables as Parquet files into `folder`; return the files by table name."""
    folder.mkdir(exist_ok=True)
    paths = {name: folder / f"{name}.parquet" for name in tables}
    for name, path in paths.items():
        pq.write_table(tables[name], path)
    return paths


def _with_text(table: pa.Table, column: str) -> pa.Table:
    return table.filter(pc.greater(pc.fill_null(pc.utf8_length(table[column]), 0), 0))
