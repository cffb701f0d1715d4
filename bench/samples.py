"""A sample of joined rows that keeps as many rows to a movie or product as the paper's tables have.

Source: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821: 15,000 rows of a join, about
thirteen for each movie. Fewer rows are all the rows of fewer movies, else no two of them would share anything.
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
    """Two tables: reviews, and the subjects they are about. Rows without a text in `subject_text` or `text` are out."""

    subjects: str
    reviews: str
    subject_text: str
    text: str

    @property
    def key(self) -> str:
        """Return the column that joins them; the packaged tables name that of products otherwise than the real ones."""
        names = [set(pq.read_schema(data_table(name)).names) for name in (self.subjects, self.reviews)]
        (key,) = names[0] & names[1]
        return str(key)


def sample(pair: Pair, rows: int, *, stored: bool = False, seed: int = 0) -> Mapping[str, pa.Table]:
    """Return both tables by name, cut down so that their join has at most `rows` rows.

    Reviews come in random order, or with `stored` in that of their file, which has those of a subject side by side.
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


def write(tables: Mapping[str, pa.Table], folder: Path) -> Mapping[str, Path]:
    """Write tables as Parquet files into `folder`; return the files by table name."""
    paths = {name: folder / f"{name}.parquet" for name in tables}
    for name, path in paths.items():
        pq.write_table(tables[name], path)
    return paths


def _with_text(table: pa.Table, column: str) -> pa.Table:
    return table.filter(pc.greater(pc.fill_null(pc.utf8_length(table[column]), 0), 0))
