"""`SET flightllm.quality` keeps its word: two filters and a classification over simulated models, against a recount."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from flightllm.config import EmbeddingConfig
from flightllm.functions.call import MODEL
from tests.databases import Ran, ask, open_database
from tests.simulated import Labels, Model, Scores, VectorModel, simulated

RECALL, PRECISION, CONFIDENCE = 0.9, 0.9, 0.9
ROWS = 1_000
SQL = """SELECT i, ai_classify(v, ['bug', 'praise', 'other']) AS kind FROM t
    WHERE ai_filter('Is it red?', v) AND ai_filter('Is it big?', v)"""


def calls(ran: Ran) -> int:
    """Return the calls of the server's own model."""
    return sum(site["calls"] for site in ran.record.call_rows() if site["model"] is None and site["backend"] == MODEL)


def missed(folder: Path, seed: int, scores: Scores, error: float) -> tuple[bool, float]:
    """Run the query over drawn rows; return whether a target was missed, and the share of calls that were saved.

    The same query without the setting, which keeps no answers, tells how many calls there would be.
    """
    drawn = np.random.default_rng(seed)
    values = [f"v{number}" for number in range(ROWS)]
    red = {value: bool(drawn.random() < 0.4) for value in values}
    # A row that is red is often not big: a filter on red that loses a few rows can lose many of the result.
    big = {value: bool(drawn.random() < (0.3 if red[value] else 0.8)) for value in values}
    kinds = {value: ("bug", "praise", "other")[drawn.integers(3)] for value in values}
    questions: dict[str, Labels] = {"red": red, "big": big, "label": kinds}
    models = {"demo": Model(questions), "small": Model(questions, error=error, scores=scores, seed=seed + 1)}
    embedding = EmbeddingConfig("fake", "simulated")
    with (
        simulated(models, VectorModel(big)),
        closing(open_database(folder / str(seed), embedding=embedding, price=10.0)) as database,
    ):
        session = database.session()
        session.update("CREATE MODEL small OPTIONS (engine 'fake', model 'small', proxy_for 'default')")
        session.update("CREATE TABLE t (i BIGINT, v VARCHAR)")
        rows = ", ".join(f"({number}, '{value}')" for number, value in enumerate(values))
        session.update(f"INSERT INTO t VALUES {rows}")
        exact = calls(ask(session, SQL, cache="off"))
        session.update(f"SET flightllm.quality = 'recall {RECALL}, precision {PRECISION}, confidence {CONFIDENCE}'")
        ran = ask(session, SQL)
    found = {(row["i"], row["kind"]) for row in ran.rows}
    wanted = {(i, kinds[value]) for i, value in enumerate(values) if red[value] and big[value]}
    right = len(found & wanted)
    assert len(found) == len(ran.rows)
    return right < RECALL * len(wanted) or right < PRECISION * len(found), 1 - calls(ran) / exact


@pytest.mark.parametrize(("scores", "error"), [("calibrated", 0.02), ("overconfident", 0.1)])
def test_kept(tmp_path: Path, scores: Scores, error: float) -> None:
    """The rows of the result keep both targets."""
    miss, _ = missed(tmp_path, 0, scores, error)
    assert not miss


@pytest.mark.slow
@pytest.mark.parametrize(("scores", "error"), [("calibrated", 0.02), ("overconfident", 0.1), ("random", 0.5)])
def test_kept_in_most_runs(tmp_path: Path, scores: Scores, error: float) -> None:
    """Over forty tables, at most the promised share of runs misses a target, and on average no call is added."""
    runs = [missed(tmp_path, seed, scores, error) for seed in range(40)]
    assert sum(miss for miss, _ in runs) <= 40 * (1 - CONFIDENCE)
    saved = float(np.mean([share for _, share in runs]))
    assert saved > -0.01, "a proxy without a use costs no calls of the model"
