"""A real model answers a call alike alone, beside other calls, again, under other settings, and behind a server."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import SAMPLES, ask
from tests.engines.conftest import serving
from tests.packages import NEEDS_VLLM, needs
from tests.real_models import qwen05

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600), needs("torch", "transformers", extra="local")]

ROWS: Final = 200
SERVED: Final = 20
"""Rows that are asked behind a server, which needs several seconds for each on two cores."""
FEW: Final = 4
"""Rows of the settings and of long labels, which ask the calls again without a cache."""
ROUNDING: Final = 1e-5
"""Confidences of the embedded engine differ by no more, as batches of other sizes add up in other orders.

The two likeliest options of a row differ by a hundred times as much, so rounding changes no answer."""
SERVED_ROUNDING: Final = 1e-4
"""Confidences of a server differ from the embedded engine's by no more: its kernels add up in other orders."""
STEP: Final = 1 / 4_096
"""Scores are rounded to it, so a difference by rounding can be as large."""
CALLS: Final = {
    "filter": "ai_filter('Can you eat or drink it?', title, confidence => true)",
    "two_fields": "ai_filter('Does the category fit?', title, category, confidence => true)",
    "statement": "ai_filter('It is used outdoors.', title, confidence => true, examples => [('tent', true),"
    " ('sofa', false), ('pan', false), ('map', true), ('hiking boots', true), ('lamp', false)])",
    "classify": "ai_classify(title, ['work', 'sport', 'food', 'music'], confidence => true)",
    "score": "ai_score('How useful is it on a journey?', title, low => 1, high => 5, confidence => true)",
    "examples": "ai_classify(title, ['indoor', 'outdoor'], confidence => true, examples => [('tent', 'outdoor'),"
    " ('sofa', 'indoor'), ('pan', 'indoor'), ('map', 'outdoor')])",
}
"""Calls whose options differ in their first token."""
LONG_LABELS: Final = {
    "labels": "ai_classify(title, ['kitchen tool', 'kitchen machine', 'desk tool', 'desk lamp', 'office machine',"
    " 'toy for children', 'game for children', 'music player', 'camping gear', 'hiking gear', 'sport watch',"
    " 'home decoration'], confidence => true)",
}
"""A call whose options share their first tokens, and so takes several steps."""
SETTINGS: Final = (
    {"optimizer": "off"}, {"rules": "off"}, {"dedup": "off"}, {"ordering": "none"}, {"ordering": "rows"},
    {"layout": "auto"},
)  # fmt: skip
Answers = dict[str, list[dict[str, Any]]]


def changed(found: Answers, expected: Answers, rounding: float) -> list[tuple[str, Any, Any]]:
    """Return the calls whose answer or confidence differs by more than rounding, with both answers.

    If each of five probabilities differs by `rounding`, the mean of the numbers 1 to 5, which is a score, differs by no
    more than ten times as much. Answers that are no numbers must be equal: no two options of these calls tie.
    """
    pairs = [
        (name, ours, theirs)
        for name, listed in expected.items()
        for ours, theirs in zip(listed, found[name], strict=True)
    ]
    return [(name, ours, theirs) for name, ours, theirs in pairs if not _alike(ours, theirs, rounding)]


def _alike(ours: dict[str, Any], theirs: dict[str, Any], rounding: float) -> bool:
    if abs(ours["confidence"] - theirs["confidence"]) > rounding:
        return False
    if isinstance(ours["answer"], float):
        return bool(abs(ours["answer"] - theirs["answer"]) <= 10 * rounding + STEP)
    return bool(ours["answer"] == theirs["answer"])


@contextmanager
def opened(engine: EngineConfig, folder: Path) -> Iterator[Session]:
    """Open a session on an engine, with a table of short texts of which no two are equal."""
    config = Config(engine=engine, tables=SAMPLES, data_folder=folder)
    with closing(Database.open(config)) as database, closing(database.session()) as session:
        session.update("CREATE TABLE short AS SELECT product_id AS id, title, category FROM products")
        yield session


def together(session: Session, rows: int = ROWS, calls: Mapping[str, str] = CALLS, **settings: str) -> Answers:
    """Return the answers of all calls in one query."""
    listed = ", ".join(f"{sql} AS {name}" for name, sql in calls.items())
    found = ask(session, f"SELECT {listed} FROM short WHERE id <= {rows} ORDER BY id", **settings).rows
    return {name: [row[name] for row in found] for name in calls}


def alone(session: Session, rows: int = ROWS, calls: Mapping[str, str] = CALLS, **settings: str) -> Answers:
    """Return the answers of all calls, each in a query of its own."""
    found: Answers = {}
    for name, sql in calls.items():
        query = f"SELECT {sql} AS answer FROM short WHERE id <= {rows} ORDER BY id"
        found[name] = [row["answer"] for row in ask(session, query, **settings).rows]
    return found


@pytest.fixture(scope="module")
def model() -> Path:
    """Return the model's folder."""
    return qwen05()


@pytest.fixture(scope="module")
def embedded(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """Return the answers of the embedded engine in each way to ask; `alone` runs row by row, without the optimizer."""
    engine = EngineConfig("local", str(model), 32, {"device": "cpu", "dtype": "float32"})
    with opened(engine, tmp_path_factory.mktemp("local")) as session:
        return {
            "alone": alone(session, cache="off", optimizer="off"),
            "first": together(session),
            "second": together(session),
            "alone after": alone(session),
            **{str(one): together(session, FEW, CALLS, cache="off", **one) for one in SETTINGS},
            "labels alone": alone(session, FEW, LONG_LABELS, cache="off", optimizer="off"),
            "labels beside": together(session, FEW, CALLS | LONG_LABELS, cache="off"),
        }


@pytest.mark.parametrize("way", ["first", "second", "alone after"])
def test_no_answer_changes(embedded: dict[str, Answers], way: str) -> None:
    """Each call of each row has the answer and the confidence that it has alone: beside others, and again."""
    assert {len(answers) for answers in embedded[way].values()} == {ROWS}
    varied = [name for name, rows in embedded[way].items() if len({str(row["answer"]) for row in rows}) > 1]
    assert len(varied) >= 3  # a model that answers alike for all rows would show nothing
    assert changed(embedded[way], embedded["alone"], ROUNDING) == []
    if way != "first":
        assert embedded[way] == embedded["first"]  # from the cache


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_settings_change_no_answer(embedded: dict[str, Answers], settings: Mapping[str, str]) -> None:
    """Settings that only decide how a query runs change no answer."""
    expected = {name: answers[:FEW] for name, answers in embedded["alone"].items()}
    assert changed(embedded[str(settings)], expected, ROUNDING) == []


def test_long_labels(embedded: dict[str, Answers]) -> None:
    """Labels of several words, which share their first words, are chosen alike beside other calls."""
    expected = {name: answers[:FEW] for name, answers in embedded["alone"].items()} | embedded["labels alone"]
    assert changed(embedded["labels beside"], expected, ROUNDING) == []


@NEEDS_VLLM
@pytest.mark.vllm
def test_a_server_answers_alike(
    model: Path, embedded: dict[str, Answers], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same model behind vLLM's server gives each call of each row the answer of the embedded engine."""
    log = tmp_path_factory.mktemp("server") / "log"
    arguments = ("--kv-cache-memory-bytes", str(512 << 20), "--max-model-len", "2048", "--block-size", "32")
    with serving(model, log, *arguments) as url:
        engine = EngineConfig("openai", "demo", 32, {"base_url": url, "tokenizer": str(model)})
        with opened(engine, tmp_path_factory.mktemp("served")) as session:
            served = together(session, SERVED, cache="off")
    expected = {name: answers[:SERVED] for name, answers in embedded["alone"].items()}
    assert changed(served, expected, SERVED_ROUNDING) == []
