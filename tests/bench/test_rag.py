"""Retrieval and generation: the tables, and the bound that holds for every step."""

import pytest

from bench.rag import bound_by_last, tables


def test_every_step_has_the_bound_of_contexts_in_any_order() -> None:
    """Where contexts are one field, the bound of their order would be too high."""
    steps = [
        {"any_order_tokens": 90, "undivided_prompts": 2, "least_tokens": 90},
        {"any_order_tokens": 50, "undivided_prompts": 1, "least_tokens": 60},
    ]
    bound_by_last(steps)
    assert [one["any_order_tokens"] for one in steps] == [50, 50]
    assert [one["undivided_prompts"] for one in steps] == [1, 1]
    assert [one["least_tokens"] for one in steps] == [90, 60]


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
