"""Keys of answers from packs, and single answers in their place."""

import pyarrow as pa

from flightllm.functions.call import AICall
from flightllm.llm.engine import Parameters
from flightllm.operators.cache import CacheKeys
from flightllm.operators.pack_keys import PackedAnswers, PackKeys, alone_key
from flightllm.operators.read_through import ReadThroughCache

FIELDS = [("text", "a")]


def keys_of(user: str) -> tuple[CacheKeys, PackKeys]:
    """Return the keys of a call alone and in packs of a user."""
    call = AICall(
        "stub", "ai_gen", "ai_gen('Say', text)", "Say", fields=("text",), required=frozenset({0}),
        parameters=Parameters(), output=pa.string(), parse=str, on_error="null",
    )  # fmt: skip
    alone = CacheKeys(call, "model")
    return alone, PackKeys(alone, user)


def test_keys() -> None:
    """Users have keys of their own, from which the key of the single prompt follows."""
    alone, ann = keys_of("ann")
    _, bob = keys_of("bob")
    assert len({alone.key(FIELDS), ann.key(FIELDS), bob.key(FIELDS)}) == 3
    assert alone_key(ann.key(FIELDS)) == alone_key(bob.key(FIELDS)) == alone.key(FIELDS)


def test_keys_without_dedup() -> None:
    """A key with a number for its row stays as it is."""
    _, ann = keys_of("ann")
    numbered = ann.key(FIELDS) + (7).to_bytes(8)
    assert alone_key(numbered) == numbered


def test_single_answers_stand_in() -> None:
    """Packs read single answers first; single prompts read no answers of packs, and other users none of Ann's."""
    alone, ann = keys_of("ann")
    _, bob = keys_of("bob")
    kept = ReadThroughCache(None)
    answers = PackedAnswers(kept)
    answers.put(ann.key(FIELDS), "packed")
    assert answers.get([ann.key(FIELDS)]) == {ann.key(FIELDS): "packed"}
    assert answers.peek([alone.key(FIELDS), bob.key(FIELDS)]) == {}
    answers.put(alone.key(FIELDS), "alone")
    assert answers.peek([ann.key(FIELDS), alone.key(FIELDS)]) == {
        ann.key(FIELDS): "alone",
        alone.key(FIELDS): "alone",
    }
    answers.flush()
