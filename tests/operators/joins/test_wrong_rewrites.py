"""A property that finds a third of the pairs is rejected, and the join finds all pairs."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import ask, open_database
from tests.operators.joins.test_ways import Of, pairs, promise
from tests.simulated import Model, simulated

ROWS, KINDS, FOUND = 40, 4, 0.3
CALL = (
    "ai_filter('Are {x} and {y} of one kind?', x => a.t, y => b.t, strategy => 'map', recall => 0.9, precision => 0.9)"
)
PROPOSED = {
    "possible": True,
    "left_question": "What kind is the left one?",
    "right_question": "What kind is the right one?",
    "labels": [*(f"kind {k}" for k in range(KINDS)), "none"],
    "relation": "same",
    "unmatched": ["none"],
}


def kind(text: str) -> int:
    """Return the true kind of a text such as `left 7 12`: seed 7, row 12."""
    return int(text.split()[2]) % KINDS


def seen(text: str) -> str:
    """Return the label that the proposed question gets: right for each left text, and for a part of the right ones."""
    _, seed, row = text.split()
    place = (int(row) // KINDS * 7 + int(seed)) % (ROWS // KINDS)
    return f"kind {kind(text)}" if place < FOUND * (ROWS // KINDS) else "none"


def answers() -> Model:
    """Return a model whose proposal finds the share `FOUND` of the pairs, and no wrong one."""
    return Model(
        {
            "of one kind": Of(lambda a, b: kind(a) == kind(b)),
            "all pairs": Of(lambda *_: json.dumps(PROPOSED)),
            "left one": Of(lambda text: f"kind {kind(text)}"),
            "right one": Of(seen),
        }
    )


def fill(session: Session, seed: int) -> None:
    """Create the two tables of a seed."""
    for side in ("left", "right"):
        session.update(
            f"CREATE OR REPLACE TABLE {side}s AS SELECT value AS id, '{side} {seed} ' || value AS t"
            f" FROM generate_series(0, {ROWS - 1})"
        )


@pytest.mark.parametrize("seeds", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_a_rewrite_of_low_recall(tmp_path: Path, seeds: int) -> None:
    """It is rejected in at least 95 % of the seeds, and each rejected one returns all pairs."""
    wanted = {(i, j) for i in range(ROWS) for j in range(ROWS) if i % KINDS == j % KINDS}
    rejected = 0
    with simulated({"demo": answers()}), closing(open_database(tmp_path)) as database:
        session = database.session()
        for seed in range(seeds):
            fill(session, seed)
            ran = ask(session, f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON {CALL}")
            figures = promise(ran)
            if figures["proxy"] != "none":
                continue
            rejected += 1
            assert "'map' is not proved" in figures["reason"]
            assert pairs(ran) == wanted
            assert ran.calls <= ROWS * ROWS + 2 * ROWS + 1
    assert rejected >= 0.95 * seeds


def test_the_rewrite_is_what_it_seems() -> None:
    """The labels of the right side find the stated share of the pairs."""
    for seed in range(10):
        found = sum(
            seen(f"right {seed} {j}") == f"kind {kind(f'left {seed} {i}')}" for i in range(ROWS) for j in range(ROWS)
        )
        assert found == FOUND * ROWS * ROWS / KINDS
