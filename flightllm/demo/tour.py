"""The tour of `flightllm demo`: a few AI queries over ADBC, their results and what each cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from flightllm.cli.render import as_table, put, rows_of

_SHOWN_ROWS = 6


@dataclass(frozen=True, slots=True)
class Stop:
    """One query of the tour and what it shows."""

    title: str
    sql: str


STOPS = (
    Stop(
        "Filter: the plain predicate runs first, so only comedies' reviews reach the model",
        """SELECT m.title, r.review_score, r.review_content
FROM reviews r JOIN movies m USING (movie_id)
WHERE m.genre = 'Comedy' AND ai_filter('Does the review praise the acting? {review_content}', r.review_content)""",
    ),
    Stop(
        "Projection: a film's reviews share its synopsis, so that prefix of the prompts is computed once",
        """SELECT m.title, r.review_score, ai_gen('Recommend it?', m.movie_info, r.review_content) AS verdict
FROM reviews r JOIN movies m USING (movie_id)
WHERE m.movie_id <= 3 AND r.review_content IS NOT NULL ORDER BY r.review_id LIMIT 20""",
    ),
    Stop(
        "Classify and count: labels are constrained, so every answer is one of them",
        """SELECT ai_classify(body, ['billing', 'shipping', 'defect', 'account', 'question']) AS about,
       count(*) AS tickets
FROM tickets WHERE status = 'open' GROUP BY 1 ORDER BY 2 DESC""",
    ),
    Stop(
        "Score by group: an average over the model's ratings",
        """SELECT p.category, avg(ai_score('How satisfied is the customer?', r.review_text)) AS satisfaction,
       count(*) AS reviews
FROM product_reviews r JOIN products p USING (product_id)
WHERE r.overall <= 2 GROUP BY p.category ORDER BY p.category""",
    ),
    Stop(
        "Several calls: the second is made only for rows that pass the first",
        """SELECT ticket_id, ai_sentiment(body) AS mood, ai_extract(body, ['order_number', 'customer']) AS about
FROM tickets WHERE priority = 'high' AND ai_filter('Is a refund asked for? {body}', body) ORDER BY ticket_id LIMIT 5""",
    ),
)

_COST = """
SELECT sql, calls, distinct_prompts, cache_hits, prompt_tokens, cached_tokens, completion_tokens, failed_rows, seconds
FROM system.queries WHERE status <> 'running' ORDER BY started_at DESC LIMIT 10
"""


def run_tour(uri: str, console: Console) -> None:
    """Run every stop's query against the server at `uri` and print SQL, rows and cost."""
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        for number, stop in enumerate(STOPS, 1):
            console.print(Text(f"\n{number}. {stop.title}", style="bold"), soft_wrap=True)
            put(console, Padding(Syntax(stop.sql, "sql", background_color="default", word_wrap=True), (0, 2)))
            with console.status("asking the model …"):
                cursor.execute(stop.sql)
                result = cursor.fetch_arrow_table()
            _show(console, result)
            cursor.execute(_COST)
            costs = cursor.fetch_arrow_table().to_pylist()
            console.print(
                Text(cost_line(next(cost for cost in costs if cost["sql"] == stop.sql)), style="green"), soft_wrap=True
            )


def cost_line(cost: Mapping[str, Any]) -> str:
    """Say in one line what a row of `system.queries` cost."""
    prompt, cached = cost["prompt_tokens"], cost["cached_tokens"]
    share = f" ({cached / prompt:.0%})" if prompt else ""
    known = f", {cost['cache_hits']:,} answers known already" if cost["cache_hits"] else ""
    failed = f", {cost['failed_rows']:,} rows without a usable answer" if cost["failed_rows"] else ""
    return (
        f"  {cost['calls']:,} model calls for {cost['distinct_prompts']:,} distinct prompts{known}; "
        f"{prompt:,} prompt tokens, {cached:,} of them cached{share}; "
        f"{cost['completion_tokens']:,} tokens written{failed}; {cost['seconds']:.1f} s"
    )


def _show(console: Console, result: pa.Table) -> None:
    rows = list(rows_of(result.slice(0, _SHOWN_ROWS).to_batches()))
    put(console, Padding(as_table(result.schema, rows, width=56), (0, 2)))
    if result.num_rows > len(rows):
        console.print(f"  … {result.num_rows:,} rows in all", style="dim")


def connecting(uri: str) -> str:
    """Return how other programs connect to the server at `uri`."""
    return f"""Connect with
  DBeaver, JDBC   jdbc:arrow-flight-sql://{uri.removeprefix("grpc://")}/?useEncryption=false
                  (driver: Apache Arrow Flight SQL JDBC, org.apache.arrow:flight-sql-jdbc-driver)
  Python          import adbc_driver_flightsql.dbapi as flight_sql
                  connection = flight_sql.connect("{uri}", autocommit=True)
  pandas          pandas.read_sql("SELECT title FROM movies", connection)
  shell           flightllm query --uri {uri} "SELECT title FROM movies\""""
