"""Retrieval and generation: the tables, and the bound that only the last step has."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import rag
from bench.cold import summed
from bench.engines import engine_config
from bench.llm_queries import BASELINE, STEPS, table
from bench.models import SHAPES
from bench.paper import QUESTION
from bench.rag import STEPS_OF_RAG, measure, tables, without_field_orders
from bench.samples import first_rows, write
from flightllm.config import EngineConfig
from tests.packages import needs


def test_contexts_in_one_field_have_no_bound_over_any_order() -> None:
    """Where contexts are one field, there is no bound over their order; the sums and the table stay without it."""
    steps = [
        without_field_orders({"any_order_tokens": 90, "undivided_prompts": 2, "least_tokens": 90}),
        {"any_order_tokens": 50, "undivided_prompts": 1, "least_tokens": 60},
    ]
    assert [one["any_order_tokens"] for one in steps] == [None, 50]
    assert [one["undivided_prompts"] for one in steps] == [None, 1]
    assert [one["least_tokens"] for one in steps] == [90, 60]
    counts = (
        *("seconds", "cpu_seconds", "rows", "calls", "failed_rows"),
        *("prompt_tokens", "cached_tokens", "computed_tokens", "hit_rate"),
    )
    whole = [one | dict.fromkeys(counts, 1) | {"least_block_tokens": 70} for one in steps]
    assert summed(whole)["any_order_tokens"] is None
    shown = table({name: {"q5": [one]} for name, one in zip(("no prefix cache", BASELINE), whole, strict=True)})
    assert "| 90 | 70 |  |" in shown
    assert "| 60 | 70 | 50 |" in shown


def test_packaged_tables_ask_about_films(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is about a context of its own number, and quotes another text."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    found = tables()
    contexts = dict(
        zip(*(found["squad_contexts"][name].to_pylist() for name in ("context_id", "context")), strict=True)
    )
    questions = found["squad_questions"].to_pylist()
    assert len(questions) > 1_000
    assert all(one["context_id"] in contexts for one in questions)
    assert len({one["question"] for one in questions}) > 1_000


@pytest.mark.slow
@needs("faiss", extra="vector")
def test_a_failed_row_keeps_the_steps_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are those of the steps before the failed step, here of the step without a prefix cache."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)

    def failing(*given: Any, prefix_cache: bool, **named: Any) -> EngineConfig:
        config = engine_config(*given, prefix_cache=prefix_cache, **named)
        return replace(config, options={**config.options, "fail_containing": QUESTION if prefix_cache else ""})

    monkeypatch.setattr(rag, "engine_config", failing)
    read = first_rows(tables(), {"squad_contexts": 4, "squad_questions": 3})
    given = argparse.Namespace(
        engine="fake", model=SHAPES["demo"], cache_blocks=60, in_flight=2, top_k=2, contexts_first=False
    )
    files = write(read, tmp_path)
    found, failed = measure(given, files, files)
    assert found.keys() == {STEPS_OF_RAG[0].name}
    assert failed.keys() == {STEPS[1].name}
    assert "3 rows failed" in failed[STEPS[1].name]
