"""Workloads for routing: the prompts of our own SQL queries, in the order in which the planner sends them.

Tables and queries are those of `bench.suite` (movies, products) and `bench.rag` (questions about SQuAD's contexts), and
two queries over the nine columns of beer reviews. They run through a database with all rules on an engine that only
records. So the order of prompts, of fields and of contexts is the planner's own.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import data_table
from bench.rag import prepare, query
from bench.recording import CONFIG, Asked, asked_by
from bench.samples import PAPER_ROWS, sample, write
from bench.setting import open_database
from bench.suite import suites
from flightllm.llm.engine import PrefixCache
from flightllm.session.database import Database

HORIZON: Final = 4_096
"""The number of prompts that the operator sends before it has answers."""
CONTEXTS: Final = 3
_BEER: Final = (
    'beer_name, beer_style, "beer_beerId", "review_profileName", review_time, review_overall, review_taste, '
    "review_palate, review_appearance"
)
_BEER_QUERIES: Final = {
    "q1": f"SELECT ai_gen('Sum up the review in a few words.', {_BEER},"
    f" max_tokens => 8, on_truncated => 'keep') AS opinion FROM beer",
    "q2": f"SELECT beer_name FROM beer WHERE ai_filter('Does this beer come from Europe?', {_BEER})",
}
TOPICS: Final = ("movies", "products", "beer", "squad")


@dataclass(frozen=True, slots=True)
class Stream:
    """The prompts of one query in the order in which it sends them."""

    topic: str
    query: str
    prompts: tuple[Asked, ...]

    @property
    def name(self) -> str:
        """Return the topic and the query as one name."""
        return f"{self.topic} {self.query}"


def queries(topic: str) -> Mapping[str, str]:
    """Return the queries of a topic by name."""
    if topic == "beer":
        return _BEER_QUERIES
    if topic == "squad":
        return {"q5": query(CONTEXTS, contexts_first=False, ordered=False)}
    named = suites()[topic].queries
    return {name: named[name] for name in ("q1", "q2", "q3", "q4")}


@cache
def streams(
    topic: str, names: tuple[str, ...], rows: int = PAPER_ROWS, cache_blocks: int = 4_096
) -> tuple[Stream, ...]:
    """Return the prompts of queries of a topic over at most `rows` rows. They stay in memory for the next call.

    `cache_blocks` is the size of a replica's prefix cache, in blocks of 16 tokens, as told to the planner.

    Raises:
        FileNotFoundError: there is no such table; see `bench.common.data_table`.
    """
    with _opened(topic, rows) as database:
        shape = PrefixCache(16, cache_blocks)
        return tuple(Stream(topic, name, asked_by(database, queries(topic)[name], HORIZON, shape)) for name in names)


@contextmanager
def _opened(topic: str, rows: int) -> Iterator[Database]:
    with (
        tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder,
        open_database(CONFIG, write(_tables(topic, rows), Path(folder))) as database,
    ):
        if topic == "squad":
            prepare(database, CONTEXTS)
        yield database


def _tables(topic: str, rows: int) -> Mapping[str, pa.Table]:
    if topic == "beer":
        return {"beer": pq.read_table(data_table("beer")).slice(0, rows)}
    if topic == "squad":
        found = {name: pq.read_table(data_table(name)) for name in ("squad_contexts", "squad_questions")}
        return {**found, "squad_questions": found["squad_questions"].slice(0, rows)}
    return sample(suites()[topic].pair, rows)
