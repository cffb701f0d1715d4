"""Ask PostgreSQL for the rows of all texts, and write them beside the list of texts that differ here.

    python -m tests.sql.reference [--check] [KIND …]
    python -m tests.sql.reference random [--count 10000] [--seed 0]

`--check` writes nothing: it ends with 1 if PostgreSQL's answers or the list differ from the files.
`random` asks both for random queries, and prints each one that differs.
"""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Sequence

import structlog

from tests.postgres import Postgres, binaries, cluster
from tests.sql.reference.answers import DIFFERENCES, Text, read, steps, text_of, written
from tests.sql.reference.kinds import KINDS, REFUSED, generated, rows_of, texts
from tests.sql.reference.ours import Outcome, listed, our_session, outcome, written_list
from tests.sql.reference.tables import TABLES

_NO_SQL = ("42", "0A")
"""The classes of errors of a text that PostgreSQL cannot plan."""


def main() -> int:
    """Run from the command line."""
    arguments = sys.argv[1:]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if binaries() is None:
        print("PostgreSQL is not installed: apt-get install postgresql")
        return 1
    if arguments[:1] == ["random"]:
        from tests.sql.reference.random_run import run_random

        return run_random(arguments[1:])
    parser = argparse.ArgumentParser(description="rows that PostgreSQL gives")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="kinds of texts; all if none is named")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    options = parser.parse_args(arguments)
    kinds = options.kinds or KINDS
    with cluster() as server:
        problems = [problem for kind in kinds for problem in _rows(server, kind, check=options.check)]
    problems += _differences(kinds, check=options.check)
    print(*(f"{problem}\n" for problem in problems), sep="", end="")
    return int(bool(problems))


def _rows(server: Postgres, kind: str, *, check: bool) -> list[str]:
    """Ask for the rows of a kind of texts and write them; return what is wrong."""
    asked = texts(kind)
    setup = [statement for statements in TABLES.values() for statement in statements]
    setup = ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public", *setup]
    answers = server.answers(setup, [steps(sql) for sql in asked])
    given = [text_of(sql, answer) for sql, answer in zip(asked, answers, strict=True)]
    no_sql = [one for one in given if one.given.error.startswith(_NO_SQL)]
    problems = []
    if generated(kind):
        given = [one for one in given if one not in no_sql]
    elif kind != REFUSED:
        problems += [f"{kind}: {one.sql}\n  {one.given.error}" for one in no_sql]
    else:
        problems += [f"{kind}: is no error: {one.sql}" for one in given if not one.given.error]
    path = rows_of(kind)
    if not check:
        path.write_text(written(given), encoding="utf-8")
    elif _codes(read(path)) != _codes(given):
        problems.append(f"{path} differs from the answers of PostgreSQL {server.version}")
    return problems


def _codes(given: Sequence[Text]) -> list[str]:
    """Return texts as a file holds them, errors only by their codes: the words differ between versions."""
    return [f"{one.sql} {one.given.error[:5]}" if one.given.error else written([one]) for one in given]


def _differences(kinds: Sequence[str], *, check: bool) -> list[str]:
    """Run the texts here and write the list of those that differ; return what is wrong."""
    before = listed()
    found = {key: kind for key, kind in before.items() if key[0] not in kinds and key[0] in KINDS}
    counts = Counter[tuple[str, Outcome]]()
    with our_session() as session:
        for kind in kinds:
            for text in read(rows_of(kind)):
                result, _ = outcome(session, text)
                counts[kind, result] += 1
                if result != "same":
                    found[kind, text.sql] = result
    outcomes: tuple[Outcome, ...] = ("same", "refused", "wrong", "accepted", "crashed")
    for kind in kinds:
        print(f"{kind:18}", *(f"{counts[kind, result]:6} {result}" for result in outcomes))
    if check:
        return [
            f"{key}: {found.get(key)}, not {before.get(key)}"
            for key in found | before
            if found.get(key) != before.get(key)
        ]
    DIFFERENCES.write_text(written_list([(found[key], *key) for key in sorted(found)]), encoding="utf-8")
    return []


if __name__ == "__main__":
    sys.exit(main())
