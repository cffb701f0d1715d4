"""The AND of filters keeps its promise where proxies mislead, filters depend on each other, or prompts recur."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from flightllm.session.session import Session
from tests.databases import ask, open_database
from tests.quality.simulated import plausible
from tests.simulated import Labels, Model, simulated

ROWS, SEEDS = 400, 12
TARGET, DELTA = 0.8, 0.1
QUALITY = f"recall {TARGET}, precision {TARGET}, confidence {1 - DELTA}"
PROXIES = {
    "inverted": {"error": 0.05, "scores": "inverted"},
    "random": {"error": 0.5, "scores": "random"},
    "sly": {"error": 0.3, "scores": "sly"},
}
WORLDS = ("independent", "same", "opposite", "shared")
_FEW = 20
"""The different first texts of a table in which many rows share a prompt."""

_TABLE = f"""CREATE TABLE t AS SELECT world, s.value AS seed, r.value AS i,
    world || ' ' || s.value || ' a' || CASE world WHEN 'shared' THEN r.value % {_FEW} ELSE r.value END AS a,
    world || ' ' || s.value || ' b' || r.value AS b
    FROM (VALUES {", ".join(f"('{world}')" for world in WORLDS)}) AS w(world),
    generate_series(0, {SEEDS - 1}) AS s, generate_series(0, {ROWS - 1}) AS r"""


def table(world: str, seed: int) -> tuple[list[tuple[str, str]], dict[str, bool], dict[str, bool]]:
    """Return the two texts of each row, and the labels of the first and of the second texts.

    Half of the first texts are red. Of `same`, nearly all red rows are big too; of `opposite`, few are.
    """
    drawn = np.random.default_rng((WORLDS.index(world), seed))
    texts = [(f"{world} {seed} a{i % _FEW if world == 'shared' else i}", f"{world} {seed} b{i}") for i in range(ROWS)]
    red = {a: bool(drawn.random() < 0.5) for a in dict.fromkeys(a for a, _ in texts)}
    share = {"same": (0.1, 0.9), "opposite": (0.9, 0.1)}.get(world, (0.5, 0.5))
    return texts, red, {b: bool(drawn.random() < share[red[a]]) for a, b in texts}


@pytest.fixture(scope="module", params=PROXIES)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with a promise, over the tables of all worlds and seeds, whose model has one proxy."""
    red, big = dict[str, bool | float | str](), dict[str, bool | float | str]()
    for world in WORLDS:
        for seed in range(SEEDS):
            _, first, second = table(world, seed)
            red.update(first)
            big.update(second)
    questions: dict[str, Labels] = {"red": red, "big": big}
    models = {"demo": Model(questions), "small": Model(questions, **PROXIES[request.param])}  # type: ignore[arg-type]
    with simulated(models), closing(open_database(tmp_path_factory.mktemp("adversaries"))) as database:
        opened = database.session()
        opened.update("CREATE MODEL small OPTIONS (engine 'fake', model 'small', proxy_for 'default')")
        opened.update(_TABLE)
        opened.update(f"SET flightllm.quality = '{QUALITY}'")
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_both_targets_hold(session: Session, world: str) -> None:
    """Of the rows that the models themselves give, enough are there, and enough of the rows are among those."""
    missed = 0
    for seed in range(SEEDS):
        texts, red, big = table(world, seed)
        right = {i for i, (a, b) in enumerate(texts) if red[a] and big[b]}
        sql = "SELECT i FROM t WHERE ai_filter('Is it red?', a) AND ai_filter('Is it big?', b)"
        ran = ask(session, f"{sql} AND world = '{world}' AND seed = {seed}")
        (figures,) = [site["promise"] for site in ran.record.call_rows() if (site["promise"] or {}).get("filters")]
        found = {row["i"] for row in ran.rows}
        both = len(found & right)
        missed += both < TARGET * len(right) or both < TARGET * len(found)
        assert figures["held"]
        assert figures["prompts"] == ROWS
    assert plausible(missed, SEEDS, DELTA)
