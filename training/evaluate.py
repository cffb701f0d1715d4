"""Measure the demo model through SQL on a running server: `python -m training.evaluate`.

All text is new and shares no sentence pattern with the training text; see `Split`. With `--data` or `FLIGHTLLM_DATA`
the model also judges real reviews.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flightllm.common.package_data import demo_model
from flightllm.config import EngineConfig
from flightllm.demo.process import running_server, sample_tables
from flightllm.engines import create_engine
from flightllm.llm.engine import Choice, Request
from flightllm.llm.tokenizer import PromptEncoder
from training.examples import Ask, held_out, held_out_writer
from training.passages.base import Passage
from training.phrases import Writer
from training.tasks.base import Example
from training.tasks.extracts import ask_extract, ask_question, respond, typed
from training.tasks.filters import ask_filter
from training.tasks.labels import ask_label, ask_sentiment, every_label
from training.tasks.needles import ask_needle
from training.tasks.scores import ask_score
from training.tasks.texts import ask_in_vain, ask_summary

SEED = 2
"""The seed of the test examples; training has another seed."""
_NEEDLE_TOKENS = (1400, 1600)
_FIELD_ORDER = "same answer with the fields in another order"
_BINS = 10

Equal = Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True)
class Result:
    """The number of right answers in `examples` examples of a measure."""

    measure: str
    examples: int
    right: int

    @property
    def share(self) -> float:
        """Return the share of right answers, 0 to 1."""
        return self.right / self.examples


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the report: its examples, and the test for a right answer."""

    name: str
    make: Callable[[int], list[Example]]
    equal: Equal = lambda answer, wanted: bool(answer == wanted)


def measures() -> tuple[Measure, ...]:
    """Return the measures on generated text, in the order of the report."""
    return (
        _of("filter", ask_filter),
        _of("classify", ask_label),
        _of("classify, label sets not seen in training", _ask_unseen_label),
        _of("sentiment", ask_sentiment),
        _of(
            "score of 1 to 5, within 1",
            _on_five,
            lambda answer, wanted: answer is not None and abs(answer - wanted) <= 1,
        ),
        _of("classify with multi, one label fits", _ask_every_label),
        _of("extract, all fields exact", ask_extract),
        _of("answer in a response_format, all fields exact", _ask_response),
        _of("extract by a schema with whole numbers, all fields exact", _ask_typed),
        _of("question, exact", ask_question),
        Measure(f"needle in {_NEEDLE_TOKENS[0]:,} to {_NEEDLE_TOKENS[1]:,} tokens, exact", needles),
        _of("summary, exact", ask_summary),
        _of("declines what it cannot do", ask_in_vain),
    )


def needles(count: int) -> list[Example]:
    """Return `count` prompts of about 1,500 tokens with a fact in their first third."""
    encoder = PromptEncoder(demo_model())
    writer = held_out_writer(SEED, "needle")
    low, high = _NEEDLE_TOKENS
    found: list[Example] = []
    words = (low + high) // 3
    while len(found) < count:
        example = ask_needle(writer, words, early=True)
        tokens = encoder.count(example.prompt())
        if example.task == "needle" and low <= tokens <= high:
            found.append(example)
        words += 20 if tokens < low else -20 if tokens > high else 0
    return found


def evaluate(cursor: Any, count: int, wanted: Sequence[Measure]) -> Iterator[Result]:
    """Yield the result of each measure: `count` examples asked through SQL, with one query for each example."""
    for measure in wanted:
        examples = measure.make(count)
        right = 0
        for example in track(examples, measure.name, console=Console(stderr=True), transient=True):
            right += measure.equal(ask(cursor, example), example.call().parse(example.answer))
        yield Result(measure.name, len(examples), right)


def field_order(cursor: Any, count: int) -> Result:
    """Return how many answers stay equal when each question is asked again with its fields in another order."""
    writer = held_out_writer(SEED, "order")
    asks: Sequence[Ask] = (ask_filter, ask_label, ask_score, ask_extract)
    examples: list[Example] = []
    for ask_one in asks:
        several = [example for example in held_out(ask_one, SEED + 1, 3 * count) if len(example.fields) > 1]
        examples += several[: count // len(asks) + 1]
    agreed = 0
    cursor.execute("SET flightllm.dedup = 'off'")  # cached answers do not depend on the order
    for example in track(examples[:count], "field order", console=Console(stderr=True), transient=True):
        fields = list(example.fields)
        while tuple(fields) == example.fields:
            writer.rng.shuffle(fields)
        agreed += ask(cursor, example) == ask(cursor, replace(example, fields=tuple(fields)))
    cursor.execute("SET flightllm.dedup = 'on'")
    return Result(_FIELD_ORDER, len(examples[:count]), agreed)


def ask(cursor: Any, example: Example) -> Any:
    """Run the example's call over a table of one row; return the answer."""
    values = ", ".join("'" + value.replace("'", "''") + "'" for _, value in example.fields)
    columns = ", ".join(f'"{name}"' for name, _ in example.fields)
    cursor.execute(f"SELECT {example.sql()} AS answer FROM (VALUES ({values})) AS t({columns})")
    return cursor.fetch_arrow_table().column("answer")[0].as_py()


def calibration_error(count: int, model: str = "demo") -> tuple[float, float]:
    """Return the expected calibration error of yes/no and label answers, and the mean confidence.

    Ten bins of equal width (Guo et al. 2017, section 2), on the local engine, which knows each choice's probability.
    """
    examples = [*held_out(ask_filter, SEED + 2, count), *held_out(ask_label, SEED + 2, count)]
    engine = create_engine(EngineConfig("local", model, 64, {}))
    try:
        requests = [
            Request(number, example.prompt(), example.call().parameters, example.function, "", example.fields)
            for number, example in enumerate(examples)
            if isinstance(example.call().parameters.constraint, Choice)
        ]
        outcomes = [
            (max(done.probabilities or (0.0,)), done.text == examples[done.id].answer)
            for done in engine.generate(iter(requests), lambda: False)
        ]
    finally:
        engine.close()
    confidence = np.array([known for known, _ in outcomes])
    right = np.array([is_right for _, is_right in outcomes], dtype=float)
    place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = [abs(float((confidence - right)[place == one].sum())) for one in range(_BINS)]
    return sum(gaps) / len(outcomes), float(confidence.mean())


def on_tables(cursor: Any, name: str, sql: str) -> Result:
    """Return how many rows of a query have an `answer` equal to `wanted`."""
    same = "answer IS NOT DISTINCT FROM wanted"
    cursor.execute(f"SELECT count(*), count(CASE WHEN {same} THEN 1 END) FROM ({sql})")
    rows, right = cursor.fetchone()
    return Result(name, rows, right)


SAMPLES = (
    (
        "sample tickets: topic",
        """SELECT topic AS wanted, ai_classify(body, ['billing', 'shipping', 'defect', 'account', 'question']) AS answer
        FROM tickets""",
    ),
    (
        "sample tickets: angry or not",
        "SELECT priority = 'high' AS wanted, ai_filter('Is the customer upset?', body) AS answer FROM tickets",
    ),
    (
        "sample film reviews: positive or not",
        """SELECT review_type = 'positive' AS wanted, ai_filter('Is the review positive?', review_content) AS answer
        FROM reviews WHERE review_content IS NOT NULL AND (review_score < 2 OR review_score > 4)""",
    ),
    (
        "sample tickets: refund asked for or not",
        """SELECT subject = 'Refund has not arrived' AS wanted,
        ai_filter('Is a refund asked for? {body}', body) AS answer FROM tickets""",
    ),
    (
        "sample tickets: order number",
        """SELECT regexp_match(body, 'F-[0-9]{5}')[1] AS wanted,
        ai_extract(body, ['order_number', 'customer'])['order_number'] AS answer FROM tickets""",
    ),
    (
        "sample film reviews: acting praised or not",
        """SELECT review_content LIKE '%never felt more real%' AS wanted,
        ai_filter('Does the review praise the acting? {review_content}', review_content) AS answer
        FROM reviews WHERE review_content IS NOT NULL""",
    ),
    (
        "sample film reviews: recommended or not",
        """SELECT review_score >= 4 AS wanted,
        starts_with(ai_gen('Recommend it?', m.movie_info, r.review_content), 'Yes') AS answer
        FROM reviews r JOIN movies m USING (movie_id)
        WHERE review_content IS NOT NULL AND (review_score < 2 OR review_score > 4)""",
    ),
    (
        "sample product reviews: stars, within 1",
        """SELECT true AS wanted,
        abs(ai_score('How satisfied is the customer?', review_text, low => 1, high => 5) - overall) <= 1 AS answer
        FROM product_reviews""",
    ),
)
"""Measures on the packaged tables, whose columns have the right answers.

Film reviews with a score of 2 to 4 both praise and criticize, so measures of the verdict leave them out.
"""

REAL = (
    (
        "real film reviews: fresh or rotten",
        """SELECT review_type = 'fresh' AS wanted, ai_filter('Is the review positive?', review_content) AS answer
        FROM (SELECT * FROM real_movie_reviews WHERE review_content IS NOT NULL ORDER BY review_id LIMIT 2000)""",
    ),
    (
        "real product reviews: stars",
        """SELECT overall AS wanted,
        ai_score('How satisfied is the customer?', review_text, low => 1, high => 5) AS answer
        FROM real_product_reviews WHERE review_text IS NOT NULL""",
    ),
    (
        "real product reviews: stars, within 1",
        """SELECT true AS wanted,
        abs(ai_score('How satisfied is the customer?', review_text, low => 1, high => 5) - overall) <= 1 AS answer
        FROM real_product_reviews WHERE review_text IS NOT NULL""",
    ),
)
"""Measures on reviews written by people."""


@contextmanager
def connected(arguments: Sequence[str], data: Path | None) -> Iterator[Any]:
    """Start a server; yield a cursor whose session keeps the fields in the order of the SQL."""
    tables = dict(sample_tables())
    if data:
        tables |= {f"real_{name}": data / f"{name}.parquet" for name in ("movie_reviews", "product_reviews")}
    with (
        running_server(arguments, tables, ready_seconds=240) as server,
        flight_sql.connect(server.uri, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET flightllm.ordering = 'none'")
        yield cursor


@dataclass(frozen=True, slots=True)
class Report:
    """All results of a model on an engine.

    `calibration_error` and `confidence` describe the calibration of choices; only the local engine has them.
    """

    engine: str
    model: str
    results: Sequence[Result]
    calibration_error: float | None
    confidence: float | None

    def as_json(self) -> str:
        """Return the report as a JSON document."""
        rows = [{**asdict(result), "share": result.share} for result in self.results]
        return json.dumps({**asdict(self), "results": rows}, indent=2)

    def show(self, console: Console) -> None:
        """Print the report as a table."""
        table = Table("measure", "examples", "right", title=f"The model {self.model} on the engine {self.engine}")
        for result in self.results:
            table.add_row(result.measure, f"{result.examples:,}", f"{result.share:.1%}")
        console.print(table)
        if self.calibration_error is not None:
            said = f"expected calibration error of choices {self.calibration_error:.3f}"
            console.print(f"{said}, mean confidence {self.confidence:.3f}")


def report(engine: str, model: str, count: int, data: Path | None, only: str = "") -> Report:
    """Measure a model on an engine with `count` examples of each measure whose name contains `only`.

    `data` is the folder of real text.
    """
    with connected(["--engine", engine, "--model", model], data) as cursor:
        results = [*evaluate(cursor, count, [measure for measure in measures() if only in measure.name])]
        if only in _FIELD_ORDER:
            results.append(field_order(cursor, count))
        tables = (*SAMPLES, *(REAL if data else ()))
        results += [on_tables(cursor, name, sql) for name, sql in tables if only in name]
    calibration = calibration_error(count, model) if engine == "local" and only in "calibration" else (None, None)
    return Report(engine, model, results, *calibration)


def main() -> None:
    """Print the report as a table or as JSON."""
    parser = argparse.ArgumentParser(description="Measure the demo model through SQL on a running server.")
    parser.add_argument("--engine", default="local", choices=("local", "vllm"), help="who answers")
    parser.add_argument("--model", default="demo", help="its model")
    parser.add_argument("--count", type=positive, default=500, help="examples of each measure")
    parser.add_argument(
        "--data", type=Path, default=_data(), help="folder of movie_reviews and product_reviews.parquet"
    )
    parser.add_argument("--only", default="", help="only measures whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    names = [*(measure.name for measure in measures()), _FIELD_ORDER, "calibration", *(n for n, _ in (*SAMPLES, *REAL))]
    if not any(arguments.only in name for name in names):
        parser.error(
            f"--only {arguments.only}: no measure's name contains this text; the measures are {'; '.join(names)}"
        )
    found = report(arguments.engine, arguments.model, arguments.count, arguments.data, arguments.only)
    if arguments.json:
        sys.stdout.write(found.as_json() + "\n")
    else:
        found.show(Console())


def _of(name: str, ask_one: Ask, equal: Equal | None = None) -> Measure:
    measure = Measure(name, lambda count: held_out(ask_one, SEED, count))
    return replace(measure, equal=equal) if equal else measure


def _ask_unseen_label(writer: Writer, passage: Passage) -> Example | None:
    """Return a question for a topic or a thing. Too few genres are unseen to make a choice among them hard."""
    return None if passage.kind == "synopsis" else ask_label(writer, passage, unseen=True)


def _ask_every_label(writer: Writer, passage: Passage) -> Example | None:
    example = ask_label(writer, passage)
    return example and every_label(example)


def _ask_response(writer: Writer, passage: Passage) -> Example | None:
    example = ask_extract(writer, passage)
    return example and respond(example, "Extract the facts.")


def _ask_typed(writer: Writer, passage: Passage) -> Example | None:
    example = ask_extract(writer, passage)
    return example and typed(example)


def _on_five(writer: Writer, passage: Passage) -> Example | None:
    return ask_score(writer, passage, (1, 5))


def positive(text: str) -> int:
    """Return a number from the command line.

    Raises:
        ArgumentTypeError: the text is not a whole number from 1 on.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def _data() -> Path | None:
    folder = os.environ.get("FLIGHTLLM_DATA")
    return Path(folder) if folder else None


if __name__ == "__main__":
    main()
