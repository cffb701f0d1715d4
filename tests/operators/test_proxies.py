"""Proxies of calls with a promise, on simulated models: the embedding proxy, and the choice among several."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.execution.backends import Backends, _LateEngine
from flightllm.operators.answer_store import AnswerStore
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.simulated import Labels, Model, Simulation, VectorModel, simulated

pytest.importorskip("sklearn", reason="the extra 'learn' is not installed")

ROWS = 1_000
YES = {f"row {n}": n % 3 == 0 for n in range(ROWS)}
KINDS = {f"row {n}": ("bug", "praise", "question")[n % 3] for n in range(ROWS)}
EASY = Model.of(YES, error=0.02, scores="calibrated", seed=1)
USELESS = Model.of(YES, scores="random", seed=2)
GOAL = "recall => 0.9, precision => 0.9"


@dataclass
class World:
    """A session on simulated models, and its table `r` of the rows."""

    session: Session
    models: Simulation

    def ask(self, call: str, *, cache: str = "off", columns: str = "t") -> Ran:
        """Ask which rows fulfil a call, or what it says about each; forget what was asked before."""
        for engine in self.models.engines.values():
            engine.asked.clear()
        if self.models.embedder is not None:
            self.models.embedder.asked = 0
        if call.startswith("ai_classify"):
            return ask(self.session, f"SELECT {columns}, {call} AS kind FROM r", cache=cache)
        return ask(self.session, f"SELECT {columns} FROM r WHERE {call}", cache=cache)

    def asked(self, name: str = "demo") -> int:
        """Return how many prompts a model got."""
        engine = self.models.engines.get(name)
        return 0 if engine is None else len(engine.asked)


@contextmanager
def world(
    folder: Path, labels: Labels = YES, *, noise: float = 1.0, price: float | None = 10.0, **proxies: Model
) -> Iterator[World]:
    """Open a database whose own model answers the labels."""
    models = {"demo": Model.of(labels), **proxies}
    with (
        simulated(models, VectorModel(labels, noise)) as simulation,
        closing(open_database(folder, embedding=EmbeddingConfig("fake", "any"), price=price)) as database,
    ):
        session = database.session()
        for name in proxies:
            session.update(f"CREATE MODEL {name} OPTIONS (engine 'fake', model '{name}')")
        session.update(f"CREATE TABLE r AS SELECT 'row ' || value AS t FROM generate_series(0, {ROWS - 1})")
        yield World(session, simulation)


def promise(ran: Ran) -> dict[str, Any]:
    """Return the figures of the one call with a promise."""
    (found,) = [call.promise for call in ran.record._calls if call.promise is not None]
    return found


def rates(ran: Ran, labels: Labels = YES) -> tuple[float, float]:
    """Return the recall and the precision of the returned rows."""
    found, right = {row["t"] for row in ran.rows}, {value for value, label in labels.items() if label is True}
    return len(found & right) / len(right), len(found & right) / max(len(found), 1)


def test_embedding_proxy(tmp_path: Path) -> None:
    """It embeds each row once, asks for a few labels, and its rows are as good as promised; the figures say so."""
    with world(tmp_path) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => 'embedding', {GOAL})")
        figures = promise(ran)
        assert min(rates(ran)) >= 0.9
        assert here.models.embedder is not None
        assert here.models.embedder.asked == ROWS
        assert figures["proxy"] == "embedding"
        assert figures["asked_prompts"] == here.asked() < 0.6 * ROWS
        assert 0 < figures["taught_prompts"] <= figures["asked_prompts"] / 2
        assert figures["known"] == 0
        assert figures["accepted"] == len(ran.rows)


def test_embedding_proxy_of_classes(tmp_path: Path) -> None:
    """It learns more than two labels too."""
    with world(tmp_path, KINDS) as here:
        call = "ai_classify(t, ['bug', 'praise', 'question'], proxy => 'embedding', accuracy => 0.9)"
        ran = here.ask(call)
        assert sum(row["kind"] == KINDS[row["t"]] for row in ran.rows) >= 0.9 * ROWS
        assert here.asked() < 0.4 * ROWS


def test_vectors_are_those_of_ai_embed(tmp_path: Path) -> None:
    """Vectors that `ai_embed` made before cost nothing, and a rerun asks nothing at all."""
    call = f"ai_filter('Good? {{t}}', t, proxy => 'embedding', {GOAL})"
    with world(tmp_path) as here:
        ask(here.session, "SELECT count(ai_embed(t)) AS n FROM r")
        first = here.ask(call, cache="on")
        assert here.models.embedder is not None
        assert here.models.embedder.asked == 0
        assert here.asked() > 0
        again = here.ask(call, cache="on")
        assert here.asked() == 0
        assert sorted(row["t"] for row in again.rows) == sorted(row["t"] for row in first.rows)


def test_label_budget_pays_for_lessons(tmp_path: Path) -> None:
    """The labels that the embedding proxy learns from are part of the budget."""
    with world(tmp_path, noise=8.0) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => 'embedding', label_budget => 100, {GOAL})")
        assert here.asked() <= 100
        assert promise(ran)["taught_prompts"] <= 25
        assert not promise(ran)["held"]


def test_one_label_teaches_nothing(tmp_path: Path) -> None:
    """Where hardly a row is right, the query says that the proxy learned nothing, and keeps its promise."""
    labels = {value: value == "row 7" for value in YES}
    with world(tmp_path, labels) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => 'embedding', {GOAL})")
        assert rates(ran, labels) == (1.0, 1.0)
        assert "learning needs two" in (ran.record.error or "")


@pytest.mark.parametrize("proxies", ["easy, useless", "useless, easy", "useless, embedding"])
def test_the_better_proxy_is_chosen(tmp_path: Path, proxies: str) -> None:
    """A pilot finds the better one of two proxies; the other one is asked about the pilot's rows alone."""
    with world(tmp_path, noise=0.5, easy=EASY, useless=USELESS) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => '{proxies}', {GOAL})")
        assert min(rates(ran)) >= 0.9
        assert promise(ran)["proxy"] == ("embedding" if "embedding" in proxies else "easy")
        assert here.asked("useless") == 60
        assert promise(ran)["asked_prompts"] == here.asked() < 0.6 * ROWS


def test_no_proxy_is_chosen(tmp_path: Path) -> None:
    """Where no proxy can save anything, all rows are asked, and the proxies only about the pilot."""
    other = Model.of(YES, scores="constant")
    with world(tmp_path, useless=USELESS, other=other) as here:
        ran = here.ask("ai_filter('Good? {t}', t, proxy => 'useless, other', recall => 0.99, precision => 0.99)")
        assert rates(ran) == (1.0, 1.0)
        assert promise(ran)["proxy"] == "none"
        assert (here.asked(), here.asked("useless"), here.asked("other")) == (ROWS, 60, 60)
        assert "useless and other would save nothing" in (ran.record.error or "")


@pytest.mark.parametrize("budget", [10, 80, 200])
def test_a_budget_includes_the_choice(tmp_path: Path, budget: int) -> None:
    """The pilot and the lessons of a choice are part of the budget, and every row gets an answer by a proxy."""
    with world(tmp_path, easy=EASY) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => 'embedding, easy', label_budget => {budget}, {GOAL})")
        assert here.asked() <= budget
        figures = promise(ran)
        assert figures["unanswered"] == 0
        assert not figures["held"]
        assert min(rates(ran)) > 0.9


def test_too_small_a_budget_teaches_nothing(tmp_path: Path) -> None:
    """A lone embedding proxy that cannot learn embeds no row, and the notice says how many labels it needs."""
    with world(tmp_path) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => 'embedding', label_budget => 10, {GOAL})")
        assert here.asked() <= 10
        assert here.models.embedder is None or here.models.embedder.asked == 0
        figures = promise(ran)
        assert figures["recall"] < 0.1
        assert not figures["held"]
        assert "not held" in (ran.record.error or "")
        assert "learns from 12 labels or more" in (ran.record.error or "")


@pytest.mark.parametrize("budget", [12, 40])
def test_a_small_budget_teaches(tmp_path: Path, budget: int) -> None:
    """A lone embedding proxy learns from a few labels, and then every row has an answer."""
    with world(tmp_path, noise=0.1) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => 'embedding', label_budget => {budget}, {GOAL})")
        assert here.asked() <= budget
        figures = promise(ran)
        assert figures["unanswered"] == 0
        assert figures["taught_prompts"] == 12
        assert not figures["held"]
        assert min(rates(ran)) > 0.8


def test_nearly_all_vectors_are_enough_for_a_rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rerun goes as the first run did, although the cache lacks a few vectors."""
    peek = AnswerStore.peek

    def without_some(store: AnswerStore, keys: Sequence[bytes]) -> dict[bytes, str]:
        return {key: text for key, text in peek(store, keys).items() if len(text) < 100 or key[0] > 5}

    call = f"ai_filter('Good? {{t}}', t, proxy => 'embedding', {GOAL})"
    with world(tmp_path) as here:
        first = here.ask(call, cache="on")
        monkeypatch.setattr(AnswerStore, "peek", without_some)
        again = here.ask(call, cache="on")
        assert here.asked() == 0
        assert sorted(row["t"] for row in again.rows) == sorted(row["t"] for row in first.rows)


def test_the_embedding_model_is_not_opened_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty table, few rows and EXPLAIN need no vector, so the embedding model stays closed."""

    def opened(_: Backends) -> None:
        raise AssertionError("the embedding model was opened")

    monkeypatch.setattr(Backends, "embedder", opened)
    call = f"ai_filter('Good? {{t}}', t, proxy => 'embedding', {GOAL})"
    with world(tmp_path) as here:
        assert ask(here.session, f"EXPLAIN SELECT t FROM r WHERE {call}").rows
        for condition in ("false", "t LIKE 'row 9_'"):
            for _ in range(2):
                ran = ask(here.session, f"SELECT t FROM r WHERE {condition} AND {call}", cache="on")
                assert ran.record.status == "done"


def test_no_proxy_is_opened_for_a_quick_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without prices and without a named proxy, a model that answers soon is asked about all rows, as it would be."""

    def opened(_: Backends) -> None:
        raise AssertionError("the embedding model was opened")

    monkeypatch.setattr(Backends, "embedder", opened)
    monkeypatch.setattr(_LateEngine, "load_seconds", 1e6)
    with world(tmp_path, price=None) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, {GOAL})")
        assert here.asked() == ROWS
        assert rates(ran) == (1.0, 1.0)
        assert promise(ran)["proxy"] == "none"
        assert "embedding would save no time" in (ran.record.error or "")


def test_a_pilot_counts_once(tmp_path: Path) -> None:
    """The proxy that a pilot chose counts each row once, and gets each prompt once."""
    with world(tmp_path, easy=EASY, useless=USELESS) as here:
        ran = here.ask(f"ai_filter('Good? {{t}}', t, proxy => 'useless, easy', {GOAL})")
        (site,) = [one for one in ran.record.call_rows() if one["model"] == "easy"]
        assert site["rows"] == ROWS == here.asked("easy")
