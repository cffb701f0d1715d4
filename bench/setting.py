"""The setting of the benchmarks: the tables, a database over them, and four query shapes over movies and products."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from bench.common import data_table, machine
from flightllm.config import Config, EngineConfig, LogConfig
from flightllm.engines.registry import Engines
from flightllm.llm.engine import Engine
from flightllm.log import configure_logging
from flightllm.session.database import Database

TABLES: Final = ("movies", "movie_reviews", "products", "product_reviews")


def announce(script: str, arguments: Sequence[str] | None) -> None:
    """Print the command and the machine it runs on."""
    given = sys.argv[1:] if arguments is None else arguments
    print(f"$ python -m bench.{' '.join([script, *given])}")
    print("# " + ", ".join(f"{key} {value}" for key, value in machine().items()), flush=True)


def tables() -> Mapping[str, Path]:
    """Return the files of the four tables by name."""
    return {name: data_table(name) for name in TABLES}


@contextmanager
def open_database(engine: EngineConfig, files: Mapping[str, Path] | None = None) -> Iterator[Database]:
    """Open a database in this process over `files`, else over the four tables.

    Its answer cache ends with the database.
    """
    configure_logging(LogConfig(level="error"))
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        database = Database.open(
            Config(engine=engine, tables=tables() if files is None else files, data_folder=Path(folder))
        )
        try:
            yield database
        finally:
            database.close()


@contextmanager
def database_over(engine: Engine, config: EngineConfig, files: Mapping[str, Path]) -> Iterator[Database]:
    """Open a new database over `files` and an open engine, which stays open when the database ends.

    Prompts have the format of the model in `config`, also if `engine` is another one.
    """
    with open_database(EngineConfig("fake"), files) as opened:
        services = opened._services  # noqa: SLF001 - only benchmarks and tests put another engine under a database
        engines = Engines(config, services.objects.engine, create=lambda _: engine)
        yield Database(replace(services, engines=engines), opened.queries)


@dataclass(frozen=True, slots=True)
class Topic:
    """Reviews joined with their subjects. `about` is a long text that several reviews share."""

    name: str
    join: str
    about: str
    review: str
    group: str
    plain: str
    """A predicate without AI calls."""

    def rows(self, count: int) -> str:
        """Return a SELECT of `count` joined rows that have a review, in the order of the join."""
        columns = f"{self.about}, {self.review}, {self.group}, {self.plain} AS plain"
        return f"SELECT {columns} FROM {self.join} WHERE {self.review} IS NOT NULL LIMIT {count}"

    def queries(self, source: str) -> Mapping[str, str]:
        """Return the four shapes over `source`, a table or a subquery of `rows`.

        Answers are short, because the benchmarks measure the prompts and not the model's decoding.
        """
        both = f"{self.about}, {self.review}"
        return {
            "projection": f"SELECT ai_gen('Sum up in a few words.', {both},"
            f" max_tokens => 8, on_truncated => 'keep') AS answer FROM {source}",
            "filter": f"SELECT {self.group} FROM {source} WHERE ai_filter('Is the review fair?', {both}) AND plain",
            "multi_call": (
                f"SELECT ai_gen('Who is this for?', {self.about},"
                f" max_tokens => 8, on_truncated => 'keep') AS audience, "
                f"ai_sentiment({self.review}) AS mood FROM {source} "
                f"WHERE ai_filter('Is this suitable for children?', {self.about})"
            ),
            "average": (
                f"SELECT {self.group}, avg(ai_score('How pleased is the writer?', {both})) AS score "
                f"FROM {source} GROUP BY {self.group}"
            ),
        }


def topics() -> tuple[Topic, Topic]:
    """Return movies and products with their reviews. The sample tables have another name for the key of products."""
    names = [set(pq.read_schema(data_table(name)).names) for name in ("products", "product_reviews")]
    (key,) = names[0] & names[1]
    return (
        Topic(
            "movies",
            "movies JOIN movie_reviews USING (movie_id)",
            "movie_info",
            "review_content",
            "genre",
            "NOT top_critic",
        ),
        Topic(
            "products",
            f"products JOIN product_reviews USING ({key})",
            "description",
            "review_text",
            "brand",
            "overall >= 3",
        ),
    )
