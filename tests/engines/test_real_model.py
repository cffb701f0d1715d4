"""A real instruct model by three routes: embedded, vLLM, and the HTTP engine on vLLM's server. They agree."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.llm.gguf_files import converted_folder
from flightllm.session.database import Database
from tests.databases import SAMPLES, ask
from tests.engines.conftest import serving
from tests.packages import NEEDS_VLLM
from tests.real_models import smollm2

pytestmark = [NEEDS_VLLM, pytest.mark.vllm, pytest.mark.slow]

ROUTES = ("local", "vllm", "openai")
ROWS = 20
TIE, MOST_TIES = 0.02, 1
"""Options whose probabilities differ by no more are a tie, as routes do not round alike; rows that can have one."""
CHOICES = {
    "filter": "ai_filter('Does the critic like the film?', review, confidence => true)",
    "classify": "ai_classify(review, {'positive': 'The critic likes it', 'negative': 'The critic does not like it'},"
    " examples => [('A masterpiece.', 'positive'), ('Boring.', 'negative')], confidence => true)",
    "score": "ai_score('How much does the critic like the film?', review, low => 1, high => 5, confidence => true)",
}
"""Calls whose options are one token each, and begin with no piece that is likely by itself, as `b` of `bad` is: vLLM
follows the likeliest piece, where the embedded engine compares whole options."""
OTHERS = {
    "labels": "ai_classify(review, ['very positive', 'positive', 'very negative'], other => 'unclear')",
    "many": "ai_classify(review, ['acting', 'story', 'music'], multi => true)",
    "facts": 'ai_extract(review, \'{"properties": {"praised": {"type": "string", "maxLength": 40}}}\')',
}
"""Calls with other constraints: whatever is chosen must be usable."""
TEXTS = {
    "gen": "ai_gen('Name the mood of this review.', review, max_tokens => 12, on_truncated => 'keep')",
    "summary": "ai_summarize(review, max_words => 10, max_tokens => 16, on_truncated => 'keep')",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the model as a folder, made of its GGUF file."""
    file = smollm2()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FLIGHTLLM_HOME", str(tmp_path_factory.mktemp("home")))
        yield converted_folder(file)


def configured(route: str, model: Path, url: str) -> EngineConfig:
    """Return the configuration of a route."""
    match route:
        case "local":
            return EngineConfig("local", str(model), 8, {"device": "cpu", "dtype": "float32"})
        case "vllm":
            options = {"kv_cache_memory_bytes": 512 << 20, "max_model_len": 2048, "dtype": "float32"}
            return EngineConfig("vllm", str(model), 8, options)
        case _:
            return EngineConfig("openai", "demo", 8, {"base_url": url, "tokenizer": str(model)})


@pytest.fixture(scope="module")
def answers(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Return what each route answers to the same query over the same rows."""
    calls = ", ".join(f"{sql} AS {name}" for name, sql in (CHOICES | OTHERS | TEXTS).items())
    texts = "SELECT review_id, review_content AS review FROM reviews WHERE review_content IS NOT NULL"
    rows = f"{texts} ORDER BY review_id LIMIT {ROWS}"
    sql = f"SELECT review_id, {calls} FROM ({rows}) ORDER BY review_id"
    found = {}
    arguments = ("--kv-cache-memory-bytes", str(512 << 20), "--max-model-len", "2048")
    with serving(model, tmp_path_factory.mktemp("server") / "log", *arguments) as url:
        for route in ROUTES:
            engine = configured(route, model, url)
            config = Config(engine=engine, tables=SAMPLES, data_folder=tmp_path_factory.mktemp(route))
            with closing(Database.open(config)) as database, closing(database.session()) as session:
                found[route] = ask(session, sql).rows
    return found


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", [*CHOICES, *OTHERS, *TEXTS])
def test_every_answer_is_usable(answers: dict[str, list[dict[str, Any]]], route: str, name: str) -> None:
    """No row of any route lacks an answer."""
    assert len(answers[route]) == ROWS
    assert [row["review_id"] for row in answers[route] if row[name] is None] == []


@pytest.mark.parametrize("route", ["vllm", "openai"])
@pytest.mark.parametrize("name", CHOICES)
def test_choices_agree(answers: dict[str, list[dict[str, Any]]], route: str, name: str) -> None:
    """A route chooses what the embedded engine chooses, unless two options are as probable as each other."""
    pairs = [(ours[name], theirs[name]) for ours, theirs in zip(answers["local"], answers[route], strict=True)]
    for ours, theirs in pairs:
        assert theirs["confidence"] == pytest.approx(ours["confidence"], abs=TIE)
    differing = [ours["confidence"] for ours, theirs in pairs if ours["answer"] != theirs["answer"]]
    assert all(confidence <= 0.5 + TIE for confidence in differing)
    assert len(differing) <= MOST_TIES


@pytest.mark.parametrize("route", ["vllm", "openai"])
def test_texts_agree(answers: dict[str, list[dict[str, Any]]], route: str) -> None:
    """Most free texts are the same: a near tie of two words can send a text another way."""
    for name in TEXTS:
        same = sum(a[name] == b[name] for a, b in zip(answers["local"], answers[route], strict=True))
        assert same >= ROWS // 2
