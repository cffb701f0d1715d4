"""Retrieval and generation: the tables, and the bound that only the last step has."""

import pytest

from bench.cold import summed
from bench.llm_queries import BASELINE, table
from bench.rag import bound_in_last, tables


def test_the_last_step_alone_has_a_bound_over_any_order() -> None:
    """Where contexts are one field, there is no bound over their order; the sums and the table stay without it."""
    steps = [
        {"any_order_tokens": 90, "undivided_prompts": 2, "least_tokens": 90},
        {"any_order_tokens": 50, "undivided_prompts": 1, "least_tokens": 60},
    ]
    bound_in_last(steps)
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
