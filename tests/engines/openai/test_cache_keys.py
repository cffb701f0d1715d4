"""The keys and marks by which a request asks for a prefix cache."""

from dataclasses import replace

import pytest

from flightllm.engines.cache_rules import rules_of
from flightllm.engines.openai.cache_keys import CacheKeys, marked_messages

EXPLICIT = {"mode": "explicit"}
MARKED = {"type": "text", "prompt_cache_breakpoint": EXPLICIT}


def test_body() -> None:
    """A key says who shares a start; OpenAI's newer models are told to store only what is marked."""
    new, old, mistral, deepseek = (
        CacheKeys(rules_of(*model), {}).body("", "start")
        for model in (
            ("openai", "gpt-5.6"),
            ("azure", "gpt-4.1"),
            ("mistral", "mistral-large"),
            ("deepseek", "deepseek-chat"),
        )
    )
    assert new == {"prompt_cache_key": old["prompt_cache_key"], "prompt_cache_options": EXPLICIT}
    assert mistral == old
    assert deepseek == {}
    assert CacheKeys(None, {}).body("", "start") == {}
    keys = CacheKeys(rules_of("openai", "gpt-4.1"), {})
    assert len({keys.body(*asked)["prompt_cache_key"] for asked in (("", "a"), ("", "b"), ("t", "a"))}) == 3
    assert len(old["prompt_cache_key"]) <= 64


def test_configured_keys() -> None:
    """Keys of the configuration are sent as they are; the endpoint can then mark the ends of prompts itself."""
    keys = CacheKeys(rules_of("openai", "gpt-5.6"), {"prompt_cache_options": {"mode": "implicit"}})
    assert keys.body("", "a").keys() == {"prompt_cache_key"}
    assert keys.implicit


@pytest.mark.parametrize(
    ("text", "refused", "implicit", "marks"),
    [
        ("Unknown parameter: 'prompt_cache_options'.", {"prompt_cache_options"}, True, True),
        ("messages[0].content[0].prompt_cache_breakpoint unknown", {"prompt_cache_breakpoint"}, False, False),
        ("messages.0.content: Input should be a valid string", {"prompt_cache_breakpoint"}, False, False),
        ("prompt_cache_key: Extra inputs are not permitted", {"prompt_cache_key"}, False, True),
        ("The model is overloaded", set(), False, True),
    ],
)
def test_learn(text: str, refused: set[str], implicit: bool, marks: bool) -> None:
    """A rejection that names a key is learned, and so is an endpoint that takes only texts."""
    keys = CacheKeys(rules_of("openai", "gpt-5.6"), {})
    sent = keys.body("", "a")
    assert keys.learn(text, sent, marked=True) is bool(refused)
    assert (keys.refused, keys.implicit, keys.marks) == (refused, implicit, marks)


def test_unproven() -> None:
    """What the endpoint has accepted once is no reason for a later rejection."""
    keys = CacheKeys(rules_of("openai", "gpt-5.6"), {})
    sent = keys.body("", "a")
    keys.accepted(sent, marked=False)
    assert keys.unproven(sent, marked=True) == {"prompt_cache_breakpoint"}


def test_marks() -> None:
    """An end in a text cuts it into parts, and an end before it is at the end of the system message."""
    said = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "guide\ntext"}]
    assert marked_messages(said, []) == said
    system = {"role": "system", "content": [{**MARKED, "text": "Rules."}]}
    assert marked_messages(said, [10]) == [system, said[1]]
    parts = [{**MARKED, "text": "guide\n"}, {"type": "text", "text": "text"}]
    assert marked_messages(said, [10, 4]) == [system, {"role": "user", "content": parts}]
    assert marked_messages(said[1:], [10]) == said[1:]


def test_other_rules() -> None:
    """A provider that marks nothing by itself gets no options."""
    rules = rules_of("openai", "gpt-5.6")
    assert rules is not None
    keys = CacheKeys(replace(rules, implicit=False), {})
    assert keys.body("", "a").keys() == {"prompt_cache_key"}
    assert not keys.implicit
