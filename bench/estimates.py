"""Compare the calls and output tokens that EXPLAIN predicts with what 30 queries then take, cold and warm.

    python -m bench.estimates [--model demo] [--rows 24] [--json] [--quick]

The target is an error of at most 20 % at the median, for calls and output tokens, cold and warm. Every prediction is
made before its query runs. A cold query finds no cached answers and no statistics of earlier answers. A warm query
is the same text over other rows, after the cold one ran: it finds statistics, but hardly any cached answers.

The model is `fake`, `demo`, or the folder of a model for the engine `local`. An error is the distance between predicted
and actual figure, as a share of the actual figure.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.common import machine, markdown, read_to_end
from bench.setting import announce, open_database
from flightllm.access.store import User
from flightllm.config import EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session

TARGET: Final = 0.2
COUNTED: Final = ("calls", "completion_tokens")
_QUICK_ROWS: Final = 6
_LABELS: Final = "['plot', 'actors', 'music', 'something else']"

QUERIES: Final[Mapping[str, str]] = {
    "filter": "SELECT id FROM {r} WHERE ai_filter('Is the review positive?', text)",
    "filter of long texts": "SELECT title FROM {m} WHERE ai_filter('Is it a film for children?', info)",
    "filter by a condition": "SELECT id FROM {r} WHERE ai_filter('Is it about music?', text) AND length(text) > 100",
    "two filters": "SELECT id FROM {r} WHERE ai_filter('Is it fair?', text) AND ai_filter('A comedy?', info)",
    "filter or filter": "SELECT id FROM {r} WHERE ai_filter('Is it short?', text) OR ai_filter('Is it witty?', text)",
    "filter LIMIT": "SELECT id FROM {r} WHERE ai_filter('Is the critic angry?', text) LIMIT 3",
    "filter of pairs": "SELECT id FROM {r} WHERE ai_filter('Does the review fit the film?', text, info)",
    "classify": f"SELECT id, ai_classify(text, {_LABELS}) AS c FROM {{r}}",
    "classify by group": f"SELECT ai_classify(text, {_LABELS}) AS c, count(*) AS n FROM {{r}} GROUP BY 1",
    "classify, distinct": "SELECT DISTINCT ai_classify(info, ['comedy', 'drama', 'thriller']) AS c FROM {r}",
    "classify, several": f"SELECT ai_classify(text, {_LABELS}, multi => true) AS c FROM {{r}}",
    "sentiment": "SELECT ai_sentiment(text) AS s FROM {r}",
    "score": "SELECT id, ai_score('How pleased is the critic?', text) AS s FROM {r}",
    "best scores": "SELECT id FROM {r} ORDER BY ai_score('How funny is it?', text) DESC LIMIT 3",
    "mean score": "SELECT movie_id, avg(ai_score('How harsh is it?', text)) AS s FROM {r} GROUP BY movie_id",
    "HAVING": "SELECT movie_id FROM {r} GROUP BY movie_id HAVING avg(ai_score('How long is it?', text)) > 4",
    "short answer": "SELECT ai_gen('Name the mood in one word.', text) AS g FROM {r}",
    "answer": "SELECT ai_gen('Reply in one sentence.', text, max_tokens => 80, on_truncated => 'keep') AS g FROM {r}",
    "answer, limited": "SELECT ai_gen('Go on.', text, max_tokens => 12, on_truncated => 'keep') AS g FROM {r}",
    "answer LIMIT": "SELECT ai_gen('What did the critic like?', text, max_tokens => 80, on_truncated => 'keep') AS g"
    " FROM {r} LIMIT 5",
    "summary of long texts": "SELECT ai_summarize(info) AS s FROM {m}",
    "summary of short texts": "SELECT ai_summarize(text) AS s FROM {r}",
    "translation": "SELECT ai_translate(text, 'German') AS t FROM {r} LIMIT 8",
    "grammar": "SELECT ai_fix_grammar(text) AS t FROM {r} LIMIT 8",
    "extract": "SELECT ai_extract(text, ['actor', 'opinion']) AS e FROM {r}",
    "filter, then summary": "SELECT ai_summarize(info) AS s FROM {m} WHERE ai_filter('Is there a murder?', info)",
    "CASE": "SELECT CASE WHEN ai_filter('Does he like it?', text) THEN 'yes' ELSE"
    " ai_gen('Why not?', text, max_tokens => 30, on_truncated => 'keep') END AS c FROM {r}",
    "join": "SELECT m.title, ai_sentiment(r.text) AS s FROM {m} AS m JOIN {r} AS r ON r.movie_id = m.movie_id"
    " WHERE ai_filter('Is it about a family?', m.info)",
    "IN": "SELECT id FROM {r} WHERE movie_id IN (SELECT movie_id FROM {m} WHERE ai_filter('Is it a war film?', info))",
    "three functions": f"SELECT ai_sentiment(text) AS a, ai_classify(text, {_LABELS}) AS b,"
    " ai_score('How clear is it?', text) AS c FROM {r} WHERE length(text) < 150",
}
"""The queries by name; `{r}` are reviews and `{m}` films."""


@dataclass
class Errors:
    """The predicted and the real figures, by query; and the errors of one kind of run."""

    found: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict)

    def error(self, query: str, name: str) -> float:
        """Return the distance of a query's prediction from its figure, as a share of the figure."""
        predicted, actual = self.found[query][name]
        return abs(predicted - actual) / max(1, actual)

    def median(self, name: str) -> float:
        """Return the median error of all queries."""
        return statistics.median(self.error(query, name) for query in self.found)


def make_tables(database: Database, rows: int) -> None:
    """Make two tables of films and two of their reviews, with no film in both."""
    session = database.session()
    for number in (1, 2):
        session.update(
            f"CREATE TABLE films{number} AS SELECT movie_id, 'film ' || movie_id AS title, movie_info AS info"
            f" FROM movies WHERE movie_info IS NOT NULL ORDER BY md5('f' || movie_id)"
            f" OFFSET {number * rows} LIMIT {rows}"
        )
        session.update(
            f"CREATE TABLE reviews{number} AS SELECT review_id AS id, f.movie_id, review_content AS text, info FROM"
            f" (SELECT *, row_number() OVER (PARTITION BY movie_id ORDER BY md5('r' || review_id)) AS n FROM"
            f" movie_reviews WHERE review_content IS NOT NULL) AS r JOIN films{number} AS f ON f.movie_id = r.movie_id"
            f" WHERE n <= 3 ORDER BY md5('r' || review_id) LIMIT {rows}"
        )


def compare(session: Session, sql: str) -> dict[str, tuple[float, int]]:
    """Predict a query, then run it; return both figures by name."""
    result = session.execute(f"EXPLAIN (FORMAT json) {sql}")
    (text,) = (text for batch in result.batches for text in batch.column(0).to_pylist())
    predicted = json.loads(text)["total"]["predicted"]
    ran = session.execute(sql)
    read_to_end(ran.batches)
    row = ran.query.row()
    return {name: (predicted[name], row[name]) for name in COUNTED}


def measure(database: Database) -> Iterator[tuple[str, str, dict[str, tuple[float, int]]]]:
    """Yield the kind of run, the query's name, and its figures.

    Each query has a user of its own, because predictions come only from the answers to the same user.
    """
    for number, (name, sql) in enumerate(QUERIES.items()):
        user = User(f"user{number}", "admin")
        database.access.store.add_user(user)
        session = database.session(user.principal)
        session.update("TRUNCATE TABLE system.cache")
        for tables, kind in ((1, "cold"), (2, "warm")):
            yield kind, name, compare(session, sql.format(r=f"reviews{tables}", m=f"films{tables}"))


def engine(model: str) -> EngineConfig:
    """Return the configuration of the engine for a model."""
    if model == "fake":
        return EngineConfig("fake", options={"latency_ms": 5})
    return EngineConfig("local", str(Path(model)) if Path(model).is_dir() else model, 16)


def shown(name: str, found: Mapping[str, Errors]) -> str:
    """Return one figure of all queries as a Markdown table."""
    heads = {
        f"{kind} {what}": (lambda query, kind=kind, at=at: f"{found[kind].found[query][name][at]:,.0f}")
        for kind in found
        for at, what in enumerate(("predicted", "found"))
    }
    return markdown(name, heads, {query: query for query in QUERIES})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="demo", help="fake, demo, or a folder with a model (default: demo)")
    parser.add_argument("--rows", type=int, default=24, help="rows of each table (default: 24)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="few rows and no model, under a minute")
    options = parser.parse_args(arguments)
    announce("estimates", arguments)
    rows, model = (_QUICK_ROWS, "fake") if options.quick else (options.rows, options.model)
    found = {"cold": Errors(), "warm": Errors()}
    with open_database(engine(model)) as database:
        make_tables(database, rows)
        for kind, name, compared in measure(database):
            found[kind].found[name] = compared
            print(f"{kind} {name}: {compared}", flush=True)
    figures: dict[str, Any] = {
        f"{kind}_{name}_error": round(errors.median(name), 3) for kind, errors in found.items() for name in COUNTED
    }
    for name in COUNTED:
        print(shown(name, found))
    print(", ".join(f"{name} {value:.1%}" for name, value in figures.items()))
    if options.json:
        print(
            json.dumps({"bench": "estimates", "quick": options.quick, "model": model, **figures, "machine": machine()})
        )


if __name__ == "__main__":
    main()
