"""Which prompts of a batch store common starts, and which marks stay."""

from typing import Any

import pytest

from flightllm.engines.batch_starts import StartPrices, lead, with_marks
from flightllm.llm.batch_endpoint import Draft

HOUR = StartPrices(0.1, 2.0)
MARK = {"type": "ephemeral", "ttl": "1h"}


def draft(*starts: str, end: str = "", **other: Any) -> Draft:
    """Return a draft whose blocks end with a mark, but for the end of the prompt."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": one, "cache_control": MARK} for one in starts]
    blocks.append({"type": "text", "text": end or "end"})
    marks = "".join(f" {place}" for place in range(1, len(starts) + 1))
    return Draft({"system": "same", "messages": [{"role": "user", "content": blocks}], **other}, f"0{marks}")


def test_one_prompt_of_each_start_goes_ahead() -> None:
    """Two guides of three prompts each: the first prompt of each goes ahead, and all marks stay."""
    drafts = {number: draft("ab"[number % 2] * 100, end=str(number)) for number in range(1, 7)}
    found = lead(drafts, HOUR)
    assert found is not None
    assert (found.ahead, found.changed) == ((1, 2), {})


def test_a_start_of_few_prompts_loses_its_mark() -> None:
    """With two prompts, storing for an hour costs more than it saves; a cheaper store pays off."""
    drafts = {number: draft("a" * 100, end=str(number)) for number in (1, 2)}
    found = lead(drafts, HOUR)
    assert found is not None
    assert found.ahead == ()
    assert found.changed == {number: with_marks(one, 0) for number, one in drafts.items()}
    assert found.changed[1].note == "0"
    cheaper = lead(drafts, StartPrices(0.1, 1.25))
    assert cheaper is not None
    assert (cheaper.ahead, cheaper.changed) == ((1,), {})


def test_a_longer_start_must_save_more_than_a_shorter_one() -> None:
    """Ten prompts share an instruction; three of them share a guide too, which is worth a mark only if it is long."""

    def drafts(guide: int) -> dict[int, Draft]:
        shared = {number: draft("i" * 1_000, "g" * guide, end=str(number)) for number in (1, 2, 3)}
        return shared | {number: draft("i" * 1_000, end=str(number)) for number in range(4, 11)}

    short = lead(drafts(200), HOUR)
    assert short is not None
    assert short.ahead == (1,)
    assert {number: one.note for number, one in short.changed.items()} == dict.fromkeys((1, 2, 3), "0 1")
    long = lead(drafts(3_000), HOUR)
    assert long is not None
    assert (long.ahead, long.changed) == ((1,), {})  # it stores the instruction for the others too


@pytest.mark.parametrize("other", [{"model": "b"}, {"tools": [{"name": "t"}]}, {"output_config": {"format": {}}}])
def test_other_requests_share_nothing(other: dict[str, Any]) -> None:
    """What the cache reads before the messages tells starts apart; the length of an answer does not."""
    drafts = {number: draft("a" * 100, end=str(number), max_tokens=number) for number in (1, 2, 3)}
    found = lead(drafts, HOUR)
    assert found is not None
    assert found.ahead == (1,)
    apart = lead({**drafts, 3: draft("a" * 100, end="3", **other)}, HOUR)
    assert apart is not None
    assert (apart.ahead, set(apart.changed)) == ((), {1, 2, 3})


def test_without_marks_nothing_goes_ahead() -> None:
    """Prompts without marks, in blocks or as plain texts, are sent as they are."""
    plain = Draft({"messages": [{"role": "user", "content": "hello"}]}, "0")
    assert lead({1: plain, 2: draft()}, HOUR) is None
