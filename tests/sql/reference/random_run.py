"""Random queries, with PostgreSQL as the judge."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence

from flightllm.session.session import Session
from tests.postgres import Postgres, cluster
from tests.sql.reference.answers import Text, text_of
from tests.sql.reference.minimal import smaller
from tests.sql.reference.ours import our_session, outcome
from tests.sql.reference.random_texts import random_text
from tests.sql.reference.tables import TABLES
from tests.sql.reference.values import equal_spans

_BATCH = 250
_TRIES = 400
"""How many smaller queries are tried for each query that differs."""
_SETUP = [statement for statements in TABLES.values() for statement in statements]


def run_random(arguments: Sequence[str]) -> int:
    """Compare random queries; print each one that differs in its rows, made smaller, and what was refused most."""
    parser = argparse.ArgumentParser(prog="random", description="random queries, with PostgreSQL as the judge")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first query")
    parser.add_argument(
        "--whole", action="store_true", help="print the queries as they are, without making them smaller"
    )
    options = parser.parse_args(arguments)
    outcomes, refusals = Counter[str](), Counter[str]()
    with cluster() as server, our_session() as session:
        server.answers(_SETUP, [])
        for first in range(options.seed, options.seed + options.count, _BATCH):
            seeds = range(first, min(first + _BATCH, options.seed + options.count))
            for seed, wanted in zip(seeds, _judged(server, [random_text(seed) for seed in seeds]), strict=True):
                # Which rows meet an error, and before which row another part stops, is open.
                if wanted.given.error:
                    outcomes["error in PostgreSQL"] += 1
                    continue
                found, why = outcome(session, wanted, equal_spans)
                outcomes[found] += 1
                if found in {"wrong", "crashed"}:
                    shown = wanted if options.whole else _smallest(server, session, wanted)
                    found, why = outcome(session, shown, equal_spans)
                    print(f"seed {seed}: {found}: {shown.sql}\n {why}\n", flush=True)
                elif found == "refused":
                    refusals[why[:100]] += 1
    print(*(f"{count:6} {name}" for name, count in outcomes.most_common()), sep="\n")
    print("refused most:", *(f"{count:6} {why}" for why, count in refusals.most_common(20)), sep="\n")
    return int(bool(outcomes["wrong"] or outcomes["crashed"]))


def _judged(server: Postgres, asked: Sequence[str]) -> list[Text]:
    answers = server.answers((), [[sql] for sql in asked])
    return [text_of(sql, answer) for sql, answer in zip(asked, answers, strict=True)]


def _smallest(server: Postgres, session: Session, wanted: Text) -> Text:
    """Return the smallest query found that still differs in the same way."""
    tried = 0
    while tried < _TRIES:
        found = None
        for batch in _batches(smaller(wanted.sql)):
            tried += len(batch)
            judged = (one for one in _judged(server, batch) if not one.given.error)
            found = next((one for one in judged if outcome(session, one, equal_spans)[0] in {"wrong", "crashed"}), None)
            if found is not None or tried >= _TRIES:
                break
        if found is None:
            break
        wanted = found
    return wanted


def _batches(items: Iterator[str]) -> Iterator[list[str]]:
    every = list(items)
    yield from (every[i : i + 20] for i in range(0, len(every), 20))
