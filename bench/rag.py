"""Retrieval and generation (the paper's Q5): for each question, find the nearest contexts and generate one answer.

    python -m bench.rag [--questions 1190] [--top-k 3] [--contexts-first] [--model bench|FOLDER]
        [--quick] [--json]

The steps are those of `bench.llm_queries` up to sorted rows, then the greedy order, then contexts in any order too. In
the original order, the questions come as in their file. The script also prints the least tokens that any order must
compute. Only the last step has `any_order_tokens`, because its contexts are fields of their own. Elsewhere the contexts
of a prompt are one field, so that a bound over the order of fields would not cover the order of contexts.

The instruction has the paper's length. The question precedes its contexts, as in the paper. With `--contexts-first` it
follows them, and neighbouring questions share contexts even in the order of the file. Source: Liu et al., "Optimizing
LLM Queries in Relational Workloads", arXiv 2403.05821, query 5 (SQuAD, K = 3). The default embeddings find the contexts
in an exact index. The vectors of the questions are computed before the timing begins. The script also prints the share
of questions whose right context is the first result, among the first three, or among the first five. It prints this for
search by meaning, by words and by both.

Without `FLIGHTLLM_DATA` the contexts are the packaged films, and each question quotes a review.

The first step with failed rows ends the run with exit code 1. The JSON then has the steps before it, and the message in
`failed`.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.cold import FailedRowsError, Figures, Step, cold_runs, merged
from bench.common import at_least_one, data_table, end_unfinished, machine, missing_table_ends, read_to_end
from bench.engines import engine_config
from bench.llm_queries import GREEDY, STEPS, Rounds, add_engine_arguments, read_model, table
from bench.paper import QUESTION
from bench.samples import first_rows, write
from bench.setting import announce, open_database
from flightllm.config import EngineConfig
from flightllm.session.database import Database

STEPS_OF_RAG: Final = (
    *STEPS[:4],
    GREEDY,
    Step("and context order", prefix_cache=True, settings=GREEDY.settings),
)
_DEPTHS: Final = (1, 3, 5)


def tables() -> dict[str, pa.Table]:
    """Return `squad_contexts` with the columns context_id and context, and `squad_questions`, which name a context."""
    if "FLIGHTLLM_DATA" in os.environ:
        return {name: pq.read_table(data_table(name)) for name in ("squad_contexts", "squad_questions")}
    films, reviews = pq.read_table(data_table("movies")), pq.read_table(data_table("movie_reviews"))
    texts = reviews["review_content"].to_pylist()
    questions = [f"What is the film about that this review means: {text}" for text in texts]
    return {
        "squad_contexts": pa.table({"context_id": films["movie_id"], "context": films["movie_info"]}),
        "squad_questions": pa.table(
            {"question_id": reviews["review_id"], "context_id": reviews["movie_id"], "question": questions}
        ),
    }


def query(
    count: int, *, contexts_first: bool, ordered: bool, words: str = "Answer the question from the contexts."
) -> str:
    """Return the SQL of Q5. With `ordered`, the contexts stay in the order of their scores."""
    found = f"vector_search('contexts', q.question, top_k => {count}, returning => 'context')"
    keep = ", ordered => true" if ordered else ""
    fields = [f"contexts => {found}", "question => q.question"]
    given = ", ".join(fields if contexts_first else reversed(fields))
    return (
        f"SELECT q.question_id, ai_gen('{words}', {given},"
        f" max_tokens => 8, on_truncated => 'keep'{keep})"
        " AS answer FROM squad_questions q"
    )


def found_shares(database: Database) -> dict[str, dict[str, float]]:
    """Return, for each search mode, the share of questions whose gold context is among the first 1, 3 and 5 results."""
    shares = {}
    for mode in ("vector", "text", "hybrid"):
        near = (
            f"vector_search('contexts', question, top_k => {max(_DEPTHS)}, mode => '{mode}', returning => 'context_id')"
        )
        result = database.session().execute(f"SELECT context_id, {near} AS near FROM squad_questions")
        rows = [row for batch in result.batches for row in batch.to_pylist()]
        places = [row["near"].index(row["context_id"]) if row["context_id"] in row["near"] else None for row in rows]
        shares[mode] = {
            f"top {depth}": round(sum(place is not None and place < depth for place in places) / len(rows), 4)
            for depth in _DEPTHS
        }
    return shares


def prepare(database: Database, count: int) -> None:
    """Build the index and search once for all questions, so that their vectors are cached."""
    session = database.session()
    session.update("CREATE VECTOR INDEX contexts ON squad_contexts(context)")
    near = f"vector_search('contexts', question, top_k => {count})"
    read_to_end(session.execute(f"SELECT {near} FROM squad_questions").batches)


def measure(
    given: argparse.Namespace, files: Mapping[str, Path], few: Mapping[str, Path]
) -> tuple[dict[str, dict[str, Rounds]], dict[str, str]]:
    """Return the figures of one round by step, and the failures. `few` has the files with the rows of the warm-up.

    The first step with failed rows ends the run. Its message is then the only failure, and the figures are those of the
    steps before it.
    """
    engine = partial(engine_config, given.engine, given.model, given.cache_blocks, given.in_flight, kv_eviction="none")
    ready = partial(prepare, count=given.top_k)
    found: dict[str, dict[str, Rounds]] = {}
    for prefix_cache, steps in groupby(STEPS_OF_RAG, key=lambda step: step.prefix_cache):
        with cold_runs(engine, files, prefix_cache=prefix_cache, prepare=ready) as run:
            asked = [
                (step, query(given.top_k, contexts_first=given.contexts_first, ordered=ordered, words=QUESTION))
                for step, ordered in ((step, step is not STEPS_OF_RAG[-1]) for step in steps)
            ]
            last, _ = asked[-1]
            run.warm([sql for _, sql in asked], few, last)
            for step, sql in asked:
                try:
                    figures = run(sql, step)
                except FailedRowsError as error:
                    return found, {error.step: f"{error}"}
                figures = figures if step is STEPS_OF_RAG[-1] else without_field_orders(figures)
                found[step.name] = {"q5": [figures]}
                print(f"{step.name}: {json.dumps(figures)}", flush=True)
    return found, {}


def without_field_orders(figures: Figures) -> Figures:
    """Return a step's figures with None as the bound over any order of fields: the contexts are one field."""
    return figures | dict.fromkeys(("any_order_tokens", "undivided_prompts"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Retrieval and generation, one optimisation after the other.")
    add_engine_arguments(parser)
    parser.add_argument(
        "--questions", type=at_least_one, default=1_190, help="questions, from the first on (default %(default)s)"
    )
    parser.add_argument(
        "--top-k", type=at_least_one, default=3, help="contexts for each question (default %(default)s)"
    )
    parser.add_argument("--contexts-first", action="store_true", help="put the question after its contexts")
    parser.add_argument("--quick", action="store_true", help="40 questions on the fake engine")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    if given.quick:
        given.questions, given.engine = 40, "fake"
    names = ("quick", "questions", "top_k", "engine", "model", "cache_blocks", "contexts_first")
    head = {"bench": "rag", **{name: getattr(given, name) for name in names}}
    given.model = read_model(parser, given.model)
    announce("rag", arguments)
    with missing_table_ends(parser):
        read = tables()
    questions = read["squad_questions"] = read["squad_questions"].slice(0, given.questions)
    if given.quick:
        near = pc.is_in(read["squad_contexts"]["context_id"], questions["context_id"].combine_chunks())
        read["squad_contexts"] = read["squad_contexts"].filter(near)
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
        counts = {"squad_contexts": given.top_k, "squad_questions": 2}
        files, few = write(read, Path(folder)), write(first_rows(read, counts), Path(folder, "few"))
        with open_database(EngineConfig("fake"), files) as database:
            prepare(database, given.top_k)
            shares = found_shares(database)
        print(f"gold context found: {json.dumps(shares)}", flush=True)
        found, failed = measure(given, files, few)
    if not failed:
        told = f"{given.questions} questions, {given.top_k} contexts each; the paper's speed-up is 1.4"
        print(f"\n{told}\n\n{table(found)}\n")
    if given.json:
        queries = {step: {"q5": merged(one["q5"])} for step, one in found.items()}
        figures = {"found": shares, "queries": queries, **({"failed": failed} if failed else {})}
        print(json.dumps({**head, **figures, "machine": machine()}))
    end_unfinished(failed)


if __name__ == "__main__":
    main()
