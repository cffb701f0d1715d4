"""The tour of `flightllm demo`: AI queries over ADBC, how many answers are right, and the cost of each query."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from flightllm.connection.render import as_table, put, rows_of
from flightllm.engines.offers import offers

_SHOWN_ROWS = 6
_WIDTH = 88
"""Characters of a cell: enough for a whole sentence."""


@dataclass(frozen=True, slots=True)
class TourQuery:
    """One query of the tour, and the check of its answers."""

    title: str
    sql: str
    checked: str
    """The known value with which the check compares an answer."""
    check: str
    """The query that counts rows and right answers. Its calls are those of `sql`, so the answers are in the cache."""


STOPS = (
    TourQuery(
        "Filter: the plain predicate runs first, so only comedies' reviews reach the model",
        """SELECT m.title, regexp_match(r.review_content, '[^. ][^.]*acting[^.]*[.]')[1] AS what_it_says_of_the_acting
FROM reviews r JOIN movies m USING (movie_id)
WHERE m.genre = 'Comedy' AND ai_filter('Does the review praise the acting? {review_content}', r.review_content)""",
        "the sentence in the text that praises an actor; a correct no counts as right",
        """SELECT count(*), count(*) FILTER (WHERE praised = (review_content LIKE '%never felt more real%')) FROM (
SELECT r.review_content, ai_filter('Does the review praise the acting? {review_content}', r.review_content) AS praised
FROM reviews r JOIN movies m USING (movie_id) WHERE m.genre = 'Comedy' AND r.review_content IS NOT NULL)""",
    ),
    TourQuery(
        "Classify: labels are constrained, so every answer is one of them",
        """SELECT regexp_match(body, '^[^!,]*[!,] ([^.!?]*[.!?])')[1] AS first_sentence, topic AS known,
       ai_classify(body, ['billing', 'shipping', 'defect', 'account', 'question']) AS answer
FROM tickets WHERE status = 'open'""",
        "the topic that the table knows",
        """SELECT count(*), count(*) FILTER (WHERE topic = answer) FROM (SELECT topic,
ai_classify(body, ['billing', 'shipping', 'defect', 'account', 'question']) AS answer
FROM tickets WHERE status = 'open')""",
    ),
    TourQuery(
        "Score by group: an average over the model's ratings, beside the average of the customers' stars",
        """SELECT p.category, count(*) AS reviews, round(avg(r.overall), 1) AS stars,
       round(avg(ai_score('How satisfied is the customer?', r.review_text, low => 1, high => 5)), 1) AS score
FROM product_reviews r JOIN products p USING (product_id)
WHERE p.brand = 'Wexley' AND r.overall <> 3 GROUP BY p.category ORDER BY p.category""",
        "the stars; a score within one star is right",
        """SELECT count(*), count(*) FILTER (WHERE abs(score - overall) <= 1) FROM (
SELECT r.overall, ai_score('How satisfied is the customer?', r.review_text, low => 1, high => 5) AS score
FROM product_reviews r JOIN products p USING (product_id) WHERE p.brand = 'Wexley' AND r.overall <> 3)""",
    ),
    TourQuery(
        "Extract: the second call is made only for rows that pass the first",
        """SELECT subject, regexp_match(body, 'F-[0-9]{5}')[1] AS known,
       ai_extract(body, ['order_number', 'customer'])['order_number'] AS answer
FROM tickets WHERE status = 'open' AND body LIKE '%F-%' AND ai_filter('Is a refund asked for? {body}', body)
ORDER BY ticket_id""",
        "the order number in the text",
        """SELECT count(*), count(*) FILTER (WHERE known = answer) FROM (
SELECT regexp_match(body, 'F-[0-9]{5}')[1] AS known,
       ai_extract(body, ['order_number', 'customer'])['order_number'] AS answer
FROM tickets WHERE status = 'open' AND body LIKE '%F-%' AND ai_filter('Is a refund asked for? {body}', body))""",
    ),
    TourQuery(
        "Join: a film's reviews share its synopsis, so that part of their prompts is computed once",
        """SELECT m.title, r.review_score, ai_gen('Recommend it?', m.movie_info, r.review_content) AS verdict
FROM reviews r JOIN movies m USING (movie_id)
WHERE m.movie_id BETWEEN 2 AND 6 AND (r.review_score < 2 OR r.review_score > 4) ORDER BY r.review_id""",
        "the critic's score: Yes above 4, No below 2",
        """SELECT count(*), count(*) FILTER (WHERE (review_score > 4) = starts_with(verdict, 'Yes')) FROM (
SELECT r.review_score, ai_gen('Recommend it?', m.movie_info, r.review_content) AS verdict
FROM reviews r JOIN movies m USING (movie_id)
WHERE m.movie_id BETWEEN 2 AND 6 AND (r.review_score < 2 OR r.review_score > 4) AND r.review_content IS NOT NULL)""",
    ),
)

COMPARED = """SELECT t.ticket_id, ai_classify(t.body, ['billing', 'shipping', 'defect', 'account', 'question']) AS about
FROM tickets t JOIN products p USING (product_id)
WHERE p.category = 'Kitchen' AND ai_filter('Does the customer wait for a parcel?', t.body) ORDER BY 1"""
"""A query whose join leaves few rows, so that the optimizer makes it much cheaper."""

_COST = """
SELECT sql, calls, distinct_prompts, cache_hits, prompt_tokens, cached_tokens, completion_tokens, failed_rows, seconds
FROM system.queries WHERE status <> 'running' ORDER BY started_at DESC LIMIT 10
"""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The cost of a run of a query, predicted or measured."""

    name: str
    calls: int
    prompt_tokens: int
    cached_tokens: int
    seconds: float


def run_tour(uri: str, console: Console) -> None:
    """Run each query of the tour on the server at `uri`; print SQL, rows, the number of right answers, and the cost."""
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        for number, stop in enumerate(STOPS, 1):
            _announce(console, number, stop.title, stop.sql)
            result = _ask(cursor, console, stop.sql)
            _show(console, result)
            console.print(Text(cost_line(_cost(cursor, stop.sql)), style="green"), soft_wrap=True)
            [(rows, right)] = rows_of(_ask(cursor, console, stop.check).to_batches())
            console.print(Text(agreement_line(rows, right, stop.checked), style="green"), soft_wrap=True)
        _announce(console, len(STOPS) + 1, "Optimizer: the calls that it saves, and EXPLAIN's prediction", COMPARED)
        put(console, Padding(comparison(compare(cursor)), (0, 2)))


def compare(cursor: Any) -> list[RunFigures]:
    """Run one query with the optimizer off and on, without cached answers; also predict the second run."""
    cursor.execute("SET flightllm.cache = 'off'")
    figures = []
    for switch in ("off", "on"):
        cursor.execute(f"SET flightllm.optimizer = '{switch}'")
        if switch == "on":
            figures.append(_forecast(cursor))
        cursor.execute(COMPARED)
        cursor.fetch_arrow_table()
        cost = _cost(cursor, COMPARED)
        figures.append(
            RunFigures(
                f"optimizer {switch}", cost["calls"], cost["prompt_tokens"], cost["cached_tokens"], cost["seconds"]
            )
        )
    for setting in ("cache", "optimizer"):
        cursor.execute(f"RESET flightllm.{setting}")
    return figures


def comparison(figures: list[RunFigures]) -> Table:
    """Return a table with one row per run, then a row with the ratio of the first figures to the last."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for name in ("", "model calls", "prompt tokens", "of them computed", "seconds"):
        table.add_column(name, justify="right" if name else "left")
    for one in figures:
        computed = one.prompt_tokens - one.cached_tokens
        table.add_row(one.name, f"{one.calls:,}", f"{one.prompt_tokens:,}", f"{computed:,}", f"{one.seconds:.1f}")
    first, last = figures[0], figures[-1]
    pairs = (
        (first.calls, last.calls),
        (first.prompt_tokens, last.prompt_tokens),
        (first.prompt_tokens - first.cached_tokens, last.prompt_tokens - last.cached_tokens),
        (first.seconds, last.seconds),
    )
    table.add_row("times less", *(f"{many / few:.1f}" if few else "" for many, few in pairs), style="green")
    return table


def agreement_line(rows: int, right: int, known: str) -> str:
    """Return a line that says how many answers agree with the known values."""
    share = f" ({right / rows:.0%})" if rows else ""
    return f"  {right:,} of {rows:,} answers are right{share}, checked against {known}"


def cost_line(cost: Mapping[str, Any]) -> str:
    """Return a line with the cost in a row of `system.queries`."""
    prompt, cached = cost["prompt_tokens"], cost["cached_tokens"]
    share = f" ({cached / prompt:.0%})" if prompt else ""
    known = f", {cost['cache_hits']:,} answers from the cache" if cost["cache_hits"] else ""
    failed = f", {cost['failed_rows']:,} rows without a usable answer" if cost["failed_rows"] else ""
    return (
        f"  {cost['calls']:,} model calls, as equal prompts are asked once{known}; "
        f"{prompt:,} prompt tokens, {cached:,} of them cached{share}; "
        f"{cost['completion_tokens']:,} tokens written{failed}; {cost['seconds']:.1f} s"
    )


def _announce(console: Console, number: int, title: str, sql: str) -> None:
    console.print(Text(f"\n{number}. {title}", style="bold"), soft_wrap=True)
    put(console, Padding(Syntax(sql, "sql", background_color="default", word_wrap=True), (0, 2)))


def _ask(cursor: Any, console: Console, sql: str) -> pa.Table:
    with console.status("asking the model …"):
        cursor.execute(sql)
        result: pa.Table = cursor.fetch_arrow_table()
    return result


def _cost(cursor: Any, sql: str) -> dict[str, Any]:
    """Return the cost of the latest run of a query."""
    cursor.execute(_COST)
    found: dict[str, Any] = next(one for one in cursor.fetch_arrow_table().to_pylist() if one["sql"] == sql)
    return found


def _forecast(cursor: Any) -> RunFigures:
    """Return EXPLAIN's prediction for the compared query; it calls no model."""
    cursor.execute(f"EXPLAIN (FORMAT JSON) {COMPARED}")
    [[text]] = cursor.fetchall()
    total = json.loads(text)["total"]["predicted"]
    return RunFigures(
        "EXPLAIN, before", total["calls"], total["prompt_tokens"], total["cached_tokens"], total["seconds"] or 0.0
    )


def _show(console: Console, result: pa.Table) -> None:
    rows = list(rows_of(result.slice(0, _SHOWN_ROWS).to_batches()))
    put(console, Padding(as_table(result.schema, rows, width=_WIDTH), (0, 2)))
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


def own_model() -> str:
    """Return how to ask a real model about the user's file.

    If this machine has an API key or Ollama, the text names it; nothing calls it.
    """
    found = offers()
    told = f"{found[0].why}. The demo did not use it." if found else "A real model can answer about your own file."
    commands = "  flightllm init\n  flightllm serve --config flightllm.toml FILE.csv"
    return f"{told} Choose a model, then serve your file:\n{commands}"
