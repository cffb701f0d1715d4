"""The rules of hosted providers' caches, what a memory of texts knows of them, and a simulation."""

import pytest

from flightllm.common.text import shared_start
from flightllm.engines.cache_rules import (
    NO_CACHE,
    CacheRules,
    end_of_common_tokens,
    end_of_units,
    rules_of,
    served,
    tokens_of_start,
)
from flightllm.engines.hosted_prefix import HostedSimulator
from flightllm.engines.prefix import SimulatedRequest
from flightllm.engines.prefix_memory import PrefixMemory
from flightllm.engines.prompt_parts import PromptParts
from flightllm.llm.engine import PrefixCache


@pytest.mark.parametrize(
    ("provider", "model", "floor", "write", "marked"),
    [
        ("openai", "gpt-4.1-mini", 1_024, 1.0, False),
        ("openai", "gpt-5.5", 1_024, 1.0, False),
        ("azure", "gpt-5", 1_024, 1.0, False),
        ("openai", "gpt-5.6-luna", 1_024, 1.25, True),
        ("azure", "gpt-6", 1_024, 1.25, True),
        ("openrouter", "openai/gpt-5.10", 1_024, 1.25, True),
        ("openrouter", "google/gemini-2.5-flash", 2_048, 1.0, False),
        ("gemini", "gemini-3.1-pro-preview", 4_096, 1.0, False),
        ("deepseek", "deepseek-chat", 64, 1.0, False),
    ],
)
def test_rules(provider: str, model: str, floor: int, write: float, marked: bool) -> None:
    """A model has its generation's rules, also behind a router."""
    rules = rules_of(provider, model)
    assert rules is not None
    assert (rules.floor, rules.write, rules.breakpoints) == (floor, write, marked)


@pytest.mark.parametrize(
    "asked", [("anthropic", "claude-x"), ("openrouter", "anthropic/claude-x"), ("openrouter", "x/y")]
)
def test_no_cache(asked: tuple[str, str]) -> None:
    """Where a cache must be asked for, nothing is a hit."""
    assert rules_of(*asked) is NO_CACHE


@pytest.mark.parametrize("provider", ["vllm", "ollama", "unknown"])
def test_local(provider: str) -> None:
    """A local server has no rules of this kind."""
    assert rules_of(provider, "gpt-4.1") is None


def test_served() -> None:
    """Nothing below the floor, then whole steps."""
    assert [served(tokens, 1_024, 128) for tokens in (1_023, 1_024, 1_151, 1_152)] == [0, 1_024, 1_024, 1_152]


def test_memory() -> None:
    """The longest common start counts, for as long as it is kept; the oldest texts are forgotten first."""
    now = [0.0]
    memory = PrefixMemory(10, 12, lambda: now[0])
    assert memory.shared("abcdef") == 0
    memory.add("abcd")
    memory.add("abxy")
    assert [memory.shared(text) for text in ("abcz", "abx", "b", "abxyz")] == [3, 3, 0, 4]
    copied = memory.copy()
    memory.add("zzzzzz")
    assert (memory.shared("abcd"), copied.shared("abcd")) == (2, 4)
    now[0] = 11.0
    assert memory.shared("zzzzzz") == 0
    whole = PrefixMemory(10, whole=True)
    whole.add("abcd")
    assert (whole.shared("abcd"), whole.shared("abcde")) == (4, 0)
    assert (whole.shared("abcde", (2, 4)), whole.knows("abcde", 4), whole.knows("abcde", 3)) == (4, True, False)


def test_units() -> None:
    """DeepSeek's cache finds a start from the third prompt with it on, and a whole prompt at once."""
    memory = PrefixMemory(10, units=True)
    start = "a" * 1_000
    texts = [f"{start}{number}{'b' * 600}" for number in range(3)]
    found = []
    for text in texts:
        found.append((memory.shared(text), memory.knows(text, len(start))))
        memory.add(text)
    assert found == [(0, False), (0, False), (768, True)]
    assert memory.shared(f"{texts[0]} and more") == len(texts[0])
    memory.add("c" * 2_000)
    assert memory.shared(f"{start}9") == 768
    assert memory.copy().shared(f"{start}9") == 768


def words(text: str) -> int:
    """Return the number of words, which stand for tokens."""
    return len(text.split())


@pytest.mark.parametrize(("tokens", "end"), [(64, 640), (65, 630), (70, 580), (127, 10), (130, 620)])
def test_the_end_of_units(tokens: int, end: int) -> None:
    """The tokens beyond the last whole unit are cut off the end."""
    text = "word here " * 64
    found = end_of_units(text, len(text), tokens, 64, lambda one: len(one.replace(" ", "")) // 8)
    assert found == pytest.approx(end, abs=10)


@pytest.mark.parametrize(("tail", "hits"), [(20, [0, 128, 128]), (100, [0, 0, 128])])
def test_a_short_end_after_a_unit(tail: int, hits: list[int]) -> None:
    """A whole prompt is kept up to its last unit: so the second prompt finds a start before a short end."""
    shape = PrefixCache(64, None, at_once=False, floor_tokens=64, units=True)

    def cut(text: str, characters: int) -> int:
        return end_of_units(text, characters, words(text[:characters]), 64, words)

    simulator = HostedSimulator(shape, PrefixMemory(10, units=True, cut=cut), 1, words)
    for number in range(3):
        text = "start " * 140 + f"{number}nd " * tail
        simulator.add(SimulatedRequest(number, (), words(text), 1, PromptParts(text)))
    assert [run.cached_tokens for _ in range(3) for run in simulator.step()] == hits


@pytest.mark.parametrize(("lead", "hits"), [(0, [0, 0, 128, 128]), (40, [0, 128, 128, 128])])
def test_simulation(lead: int, hits: list[int]) -> None:
    """Prompts at the same time do not share, unless one goes ahead."""
    shape = PrefixCache(64, None, at_once=False, floor_tokens=128, lead_characters=lead)
    simulator = HostedSimulator(shape, PrefixMemory(10), 2, len)
    for number in range(4):
        simulator.add(SimulatedRequest(number, (), 160, 1, PromptParts("x" * 40 + str(number) * 8)))
    found = sorted((run.id, run.cached_tokens) for _ in range(4) for run in simulator.step())
    assert [cached for _, cached in found] == hits


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("guide: Who", "guide: What", "guide:"),
        ("guide: the city", "guide: the  town", "guide: the"),
        ("a\nWho", "a\nWhat", "a\n"),
        ("x" * 40, "x" * 39 + "y", "x" * 39),
        ("猫が好き", "猫が嫌い", "猫が"),
        ("guide:", "guide:", "guide:"),
        ("Who", "What", ""),
    ],
)
def test_common_tokens(one: str, other: str, common: str) -> None:
    """Texts share no part of the word in which they begin to differ, nor the space before it."""
    shared = shared_start(one, other)
    assert one[: end_of_common_tokens(one, shared)] == common


def test_tokens_of_a_start() -> None:
    """The chat template has tokens before the start and after the text; a rate is for all of them."""
    text = "a b c d e f g h"

    assert tokens_of_start(text, 8, 8 + 11, words, 8, 8, 3) == 4 + 8
    assert tokens_of_start(text, 8, 2 * (8 + 11), words, 8, 8, 3) == 2 * (4 + 8)
    assert tokens_of_start(text, 8, 16, words, 8) == 8


def test_a_start_beside_the_floor() -> None:
    """A start that misses the floor by one token is not served; with one token more, it is."""
    for words, served_tokens in ((54, 0), (55, 64)):
        shape = PrefixCache(1, None, at_once=False, floor_tokens=64)
        simulator = HostedSimulator(shape, PrefixMemory(10), 1, lambda text: len(text.split()))
        for number, last in enumerate(("Who is it", "Whom is it")):
            text = f"{'w ' * words}: {last}"
            simulator.add(SimulatedRequest(number, (), words + 4 + 11, 1, PromptParts(text, before=8, after=3)))
        assert [run.cached_tokens for _ in range(2) for run in simulator.step()] == [0, served_tokens]


def test_a_rule_is_a_whole() -> None:
    """Every rule has a price of reading that is no surcharge."""
    every = [rules_of(*asked) for asked in (("groq", "x"), ("together", "x"), ("mistral", "x"), ("fireworks", "x"))]
    assert all(isinstance(one, CacheRules) and one.read <= 1 for one in every)
