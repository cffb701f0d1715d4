"""What do SemBench's ten questions about films cost, and how good are the answers?

    python -m bench.sembench [--error 0,5,10] [--queries Q1,Q7] [--forms natural,map] [--independent] [--seed 0]
        [--quick] [--json]

The model is a labelled one: it reads the reviews in a prompt, and answers from their hidden labels over HTTP, as a
server of OpenAI's chat completions. With an error of 5 % it takes one review in twenty for its opposite. Each question
is asked in the SQL that a user writes, and in better forms, each in a new database. Then the best forms of all ten are
asked in one database that keeps answers. A model with errors is asked in the best forms. Quality is by the benchmark's
own measures, beside DuckDB's result of its gold SQL.

The tables are in `FLIGHTLLM_DATA`, in the folder `sembench_movie`: `Movies.csv`, `Reviews.csv` and `gold.sql`.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.common import machine
from bench.sembench import report
from bench.sembench.ceilings import ceilings, whole_numbers
from bench.sembench.errors import Errors
from bench.sembench.forms import BEST, FORMS
from bench.sembench.goals import goals
from bench.sembench.gold import Rows, gold
from bench.sembench.labels import files, reviews, table, two_labels
from bench.sembench.measure import Running, asked, opened, running, total
from bench.sembench.published import as_figures
from bench.setting import announce

_QUICK: Final = ("Q2", "Q5", "Q6", "Q8")
_MOST: Final = 50


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--error", default="0,5,10", help="percent of reviews that the model mistakes, between commas")
    parser.add_argument("--queries", default="", help="the questions, such as Q1,Q7 (default: all ten)")
    parser.add_argument("--forms", default="", help="the forms, such as natural,map (default: all)")
    parser.add_argument("--independent", action="store_true", help="each prompt errs by itself, whatever its review")
    parser.add_argument("--seed", type=int, default=0, help="which reviews are mistaken (default: 0)")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(_QUICK)} without errors, in under a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    announce("sembench", arguments)
    data = Path(os.environ.get("FLIGHTLLM_DATA", ""))
    try:
        files(data)
    except FileNotFoundError as error:
        parser.error(f"{error}")
    names = _chosen(parser, "--queries", given.queries, _QUICK if given.quick else tuple(FORMS), tuple(FORMS))
    forms = _chosen(
        parser, "--forms", given.forms, (), tuple(dict.fromkeys(one for some in FORMS.values() for one in some))
    )
    percents = [0.0] if given.quick else _percents(parser, given.error)
    right = gold(data)
    found: dict[str, Any] = {}
    for percent in percents:
        errors = Errors(percent / 100, given.seed, independent=given.independent)
        with running(data, errors) as endpoint:
            found[f"{percent:g}"] = _measured(data, endpoint, right, names, forms, errs=percent > 0)
            tokenizer = endpoint.get("counted")["tokenizer"]
    best = ceilings(data, right)
    print(report.published())
    reached: Mapping[str, Any] = {}
    if without := found.get("0"):
        reached = goals(without["cold"], without["kept"], best)
        for name, goal in reached.items():
            print(f"{'reached' if goal['reached'] else 'missed ':8} {name}: {goal['value']:,} (goal {goal['goal']:,})")
    if given.json:
        reviewed = table(files(data)["Reviews"])
        labels = {
            "rows": reviewed.num_rows,
            "distinct_reviews": len(reviews(reviewed)),
            "texts_with_two_labels": len(two_labels(reviewed)),
            "ceilings": best,
            "ceilings_of_whole_numbers": whole_numbers(data, right),
        }
        figures = {"errors": found, "labels": labels, "goals": reached, "published": as_figures()}
        options = {"independent": given.independent, "seed": given.seed, "tokenizer": tokenizer}
        print(json.dumps({"bench": "sembench", "quick": given.quick, **options, **figures, "machine": machine()}))


def _measured(
    data: Path, endpoint: Running, right: Mapping[str, Rows], names: Sequence[str], forms: Sequence[str], *, errs: bool
) -> dict[str, Any]:
    """Return the figures of the questions: each form in a new database, then the best forms in one database.

    A model that `errs` is asked in the best forms, and only in new databases.
    """
    cold: dict[str, dict[str, Any]] = {}
    pairs: dict[str, dict[str, Rows]] = {}
    for name in names:
        for form, sql in FORMS[name].items():
            if form not in (forms or ((BEST[name],) if errs else FORMS[name])):
                continue
            with opened(data, endpoint.url) as database:
                one, rows = asked(database, endpoint, name, sql, right[name])
            cold.setdefault(name, {})[form], pairs.setdefault(name, {})[form] = one, rows
    if mapped := pairs.get("Q7", {}).get("map"):
        for form, rows in pairs["Q7"].items():
            cold["Q7"][form]["has_pairs_of_map"] = _pairs(rows) == _pairs(mapped)
    print(report.measured(cold), flush=True)
    if errs or not all(BEST[name] in cold.get(name, {}) for name in names):
        return {"cold": cold, "kept": {}}
    with opened(data, endpoint.url) as database:
        some = [asked(database, endpoint, name, FORMS[name][BEST[name]], right[name])[0] for name in names]
    kept = {**total(some), "by_question": dict(zip(names, (one["calls"] for one in some), strict=True))}
    fresh = total([cold[name][BEST[name]] for name in names])
    print(f"best forms: {fresh['calls']:,} calls cold, {kept['calls']:,} with kept answers", flush=True)
    return {"cold": cold, "kept": kept}


def _pairs(rows: Rows) -> set[tuple[Any, ...]]:
    return {tuple(sorted(row[1:3])) for row in rows}


def _chosen(
    parser: argparse.ArgumentParser, option: str, text: str, default: tuple[str, ...], known: tuple[str, ...]
) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if unknown := [word for word in words if word not in known]:
        parser.error(f"{option} has no {', '.join(unknown)}; choose from {', '.join(known)}")
    return tuple(name for name in known if name in words) if words else default


def _percents(parser: argparse.ArgumentParser, text: str) -> list[float]:
    try:
        percents = [float(word) for word in text.split(",")]
    except ValueError:
        parser.error(f"--error must have numbers between commas, got {text!r}")
    if not all(0 <= percent <= _MOST for percent in percents):
        parser.error(f"--error must be from 0 to {_MOST} percent, got {text!r}")
    return percents


if __name__ == "__main__":
    main()
