"""How many calls do counts over reviews save with a promise and a proxy, and are the promises kept?

    python -m bench.promises [--seeds 100] [--error 0.05] [--quick] [--json]

The questions are SemBench's Q3, Q4 and Q8: the number of positive reviews, their share, and the number of positive and
negative ones. They are asked about one film, as in SemBench, and about all reviews. The last query returns the reviews
that pass two filters, with one promise for both; the second answer is drawn, and true for half of the reviews. Models
are simulated: the oracle answers the hidden labels, and the proxy is wrong in a share of the reviews, with true
probabilities. Each seed has another proxy and other samples. The reviews are those of SemBench in `FLIGHTLLM_DATA`, or
as many made-up ones.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from bench.common import Options, at_least_one, markdown, report
from bench.setting import announce, open_database
from flightllm.config import EngineConfig
from flightllm.session.session import Session
from tests.simulated import Model, Simulation, simulated

_FILM: Final = "taken_3"
_POSITIVE: Final = "POSITIVE"
_FILM_REVIEWS, _FILM_POSITIVE, _OTHER_REVIEWS = 120, 14, 1_880
"""The reviews of the film and of others in SemBench's table, which the made-up table repeats."""
_ABOUT: Final = 0.5
"""The share of reviews for which the second of two filters is true."""
_RATE: Final = 0.9
"""The recall and the precision that filters promise, and the accuracy that classifications promise."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question: its SQL without and with a promise; `{call}` is the AI call and `{film}` the condition."""

    sql: str
    call: str
    promise: str


_FILTER: Final = "ai_filter('Is this review positive? {{text}}{again}', reviewtext"
_BOTH: Final = "recall => {r}, precision => {r}"
QUERIES: Final = {
    "Q3": Query("SELECT 'POSITIVE' AS kind, reviewid FROM reviews WHERE {film} AND {call}", _FILTER, _BOTH),
    "Q4": Query(
        "SELECT CASE WHEN {call} THEN 'POSITIVE' ELSE 'NEGATIVE' END AS kind, reviewid FROM reviews WHERE {film}",
        _FILTER,
        _BOTH,
    ),
    "Q8": Query(
        "SELECT {call} AS kind, reviewid FROM reviews WHERE {film}",
        "ai_classify(reviewtext, ['POSITIVE', 'NEGATIVE'], instructions => 'Judge the review.{again}'",
        "accuracy => {r}",
    ),
}
HEADS: Final = {
    "rows": "rows",
    "positive": "positive",
    "calls_without": "calls without",
    "calls": "with",
    "times_fewer": "times fewer",
    "misses": "misses",
    "recall": "recall",
    "precision": "precision",
}
"""The heads of the table, by the names of the figures; misses are a share of the runs."""
_TWO: Final = """SELECT reviewid FROM reviews WHERE ai_filter('Is this review positive? {{text}}{again}', reviewtext)
    AND ai_filter('Is this review about actors? {{text}}{again}', reviewtext)"""
_COUNT = "SELECT kind, count(*) AS n, array_agg(reviewid) AS ids FROM ({rows}) AS found GROUP BY kind"
"""The count that is asked for, and beside it the rows that were counted, to compare them with the labels."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Count the calls of queries with a promise, and the promises kept.")
    parser.add_argument("--seeds", type=at_least_one, default=100, help="runs of each query (default %(default)s)")
    parser.add_argument("--error", type=float, default=0.05, help="the proxy's share of errors (default %(default)s)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of each promise (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="three seeds")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    announce("promises", arguments)
    seeds = 3 if given.quick else given.seeds
    table = reviews()
    found = {}
    for name, query in QUERIES.items():
        for where, film in (("one film", f"id = '{_FILM}'"), ("all reviews", "true")):
            found[f"{name}, {where}"] = measured(table, query, film, seeds, given.error, given.confidence)
    found["two filters, all reviews"] = measured_together(table, seeds, given.error, given.confidence)
    print(markdown("query", {head: partial(_shown, key) for key, head in HEADS.items()}, found), flush=True)
    if given.json:
        sizes = {"error": given.error, "confidence": given.confidence, "seeds": seeds, "reviews": table.num_rows}
        report("promises", Options(json=True, quick=given.quick, repeats=1), {**sizes, "queries": found})


def _shown(key: str, figures: Mapping[str, float]) -> str:
    return f"{figures[key]:.4g}"


def reviews() -> pa.Table:
    """Return the columns `id`, `reviewid`, `reviewtext` and `positive`; the texts are distinct if their labels are."""
    folder = os.environ.get("FLIGHTLLM_DATA")
    path = None if folder is None else Path(folder) / "sembench_movie" / "Reviews.csv"
    if path is not None and path.is_file():
        options = pc.ParseOptions(newlines_in_values=True)
        read = pc.read_csv(path, parse_options=options)
        labels = [label == _POSITIVE for label in read["scoreSentiment"].to_pylist()]
        films, ids, texts = (read[name].cast(pa.string()).to_pylist() for name in ("id", "reviewId", "reviewText"))
    else:
        films = [_FILM] * _FILM_REVIEWS + ["another"] * _OTHER_REVIEWS
        labels = [n < _FILM_POSITIVE or (n >= _FILM_REVIEWS and n % 4 > 0) for n in range(len(films))]
        ids = [str(n) for n in range(len(films))]
        texts = [f"review {n}" for n in range(len(films))]
    first: dict[str, bool] = {}
    kept = [first.setdefault(text, label) for text, label in zip(texts, labels, strict=True)]
    return pa.table({"id": films, "reviewid": ids, "reviewtext": texts, "positive": kept})


def measured(table: pa.Table, query: Query, film: str, seeds: int, error: float, confidence: float) -> dict[str, float]:
    """Return the calls of one query without and with its promise, and how well the promise is kept."""
    labels = dict(zip(table["reviewtext"].to_pylist(), table["positive"].to_pylist(), strict=True))
    named = {text: _POSITIVE if label else "NEGATIVE" for text, label in labels.items()}
    asked = labels if query.call == _FILTER else named
    models = {"demo": Model.of(asked)}
    models |= {f"p{n}": Model.of(asked, error=error, scores="calibrated", seed=n) for n in range(seeds)}
    with opened(table, models) as (session, simulation):
        exact = _rows(session, query.sql.format(call=query.call.format(again="") + ")", film=film))
        without = len(simulation.engines["demo"].asked)
        right = {row for kind, rows in exact.items() if kind == _POSITIVE for row in rows}
        total = sum(map(len, exact.values())) if query is not QUERIES["Q3"] else _count(table, film)
        calls, recalls, precisions, misses = [], [], [], 0
        for number in range(seeds):
            simulation.engines["demo"].asked.clear()
            promise = f"{query.promise.format(r=_RATE)}, confidence => {confidence}"
            call = f"{query.call.format(again=' ' * (number + 1))}, proxy => 'p{number}', {promise})"
            found = set(_rows(session, query.sql.format(call=call, film=film)).get(_POSITIVE, ()))
            calls.append(len(simulation.engines["demo"].asked))
            recalls.append(len(found & right) / len(right))
            precisions.append(len(found & right) / len(found) if found else 1.0)
            if query is QUERIES["Q8"]:
                misses += 1 - len(found ^ right) / total < _RATE
            else:
                misses += min(recalls[-1], precisions[-1]) < _RATE
    return {
        "rows": total,
        "positive": len(right),
        "calls_without": without,
        "calls": statistics.fmean(calls),
        "times_fewer": without / statistics.fmean(calls),
        "misses": misses / seeds,
        "recall": statistics.fmean(recalls),
        "precision": statistics.fmean(precisions),
    }


def measured_together(table: pa.Table, seeds: int, error: float, confidence: float) -> dict[str, float]:
    """Return the figures of the query with two filters, whose rows `SET flightllm.quality` promises."""
    positive = dict(zip(table["reviewtext"].to_pylist(), table["positive"].to_pylist(), strict=True))
    about = dict(zip(positive, np.random.default_rng(0).random(len(positive)) < _ABOUT, strict=True))
    questions = {"positive": positive, "actors": {text: bool(one) for text, one in about.items()}}
    models = {"demo": Model(questions)}
    models |= {f"p{n}": Model(questions, error=error, scores="calibrated", seed=n) for n in range(seeds)}
    quality = f"recall {_RATE}, precision {_RATE}, confidence {confidence}"
    with opened(table, models) as (session, simulation):
        asked = simulation.engines["demo"].asked
        right = _ids(session, _TWO.format(again=""), {"cache": "off"})
        without = len(asked)
        calls, recalls, precisions = [], [], []
        for number in range(seeds):
            session.update(f"CREATE MODEL small OPTIONS (engine 'fake', model 'p{number}', proxy_for 'default')")
            asked.clear()
            found = _ids(session, _TWO.format(again=" " * (number + 1)), {"cache": "off", "quality": quality})
            session.update("DROP MODEL small")
            calls.append(len(asked))
            recalls.append(len(found & right) / len(right))
            precisions.append(len(found & right) / len(found) if found else 1.0)
    return {
        "rows": table.num_rows,
        "positive": len(right),
        "calls_without": without,
        "calls": statistics.fmean(calls),
        "times_fewer": without / statistics.fmean(calls),
        "misses": sum(min(both) < _RATE for both in zip(recalls, precisions, strict=True)) / seeds,
        "recall": statistics.fmean(recalls),
        "precision": statistics.fmean(precisions),
    }


@contextmanager
def opened(table: pa.Table, models: Mapping[str, Model]) -> Iterator[tuple[Session, Simulation]]:
    """Open a database over the reviews with simulated models."""
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder, simulated(models) as simulation:
        path = Path(folder) / "reviews.parquet"
        pq.write_table(table.drop_columns(["positive"]), path)
        with open_database(EngineConfig("fake", "demo"), {"reviews": path}) as database:
            session = database.session()
            for name in models:
                if name != "demo":
                    session.update(f"CREATE MODEL {name} OPTIONS (engine 'fake', model '{name}')")
            yield session, simulation


def _rows(session: Session, rows: str) -> dict[str, list[str]]:
    """Run a query that counts rows by kind, without kept answers; return the ids of the rows of each kind."""
    result = session.execute(_COUNT.format(rows=rows), settings={"cache": "off"})
    found: dict[str, list[str]] = {}
    for batch in result.batches:
        for row in batch.to_pylist():
            if row["n"] != len(row["ids"]):
                raise ValueError(f"count(*) is {row['n']} for {len(row['ids'])} rows")
            found[row["kind"]] = row["ids"]
    return found


def _ids(session: Session, sql: str, settings: Mapping[str, str]) -> set[str]:
    """Run a query that returns ids of reviews; return them."""
    result = session.execute(sql, settings=dict(settings))
    return {row["reviewid"] for batch in result.batches for row in batch.to_pylist()}


def _count(table: pa.Table, film: str) -> int:
    ids: list[Any] = table["id"].to_pylist()
    return len(ids) if film == "true" else ids.count(_FILM)


if __name__ == "__main__":
    main()
