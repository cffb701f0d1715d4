"""What an endpoint reports of its cache decides the forecasts."""

import pytest

from flightllm.engines.cache_rules import rules_of
from flightllm.engines.openai.cache_observer import CacheObserver
from flightllm.engines.openai.usage import Usage
from flightllm.engines.prompt_parts import PromptParts
from flightllm.llm.engine import PrefixCache

OWN = PrefixCache(16, 1_024, at_once=False)
START = "a" * 4_000


def answers(observer: CacheObserver, count: int, cached: int) -> None:
    """Let an endpoint answer prompts with a common start of 4,000 characters."""
    for number in range(count):
        text = f"{START}{number:>400}"
        observer.answered(text, observer.shared(text), Usage(1_100, cached, 2), len(text))


@pytest.mark.parametrize(("cached", "share"), [(0, 0.0), (992, 1.0), (496, 0.5)])
def test_unknown_endpoint(cached: int, share: float) -> None:
    """After a hundred answers, the reported share replaces the assumed one."""
    observer = CacheObserver(None, OWN, len)
    answers(observer, 90, cached)
    assert observer.cache.share == 1.0
    answers(observer, 110, cached)
    assert observer.cache.share == pytest.approx(share, abs=0.1)
    assert observer.cache.earns is (cached > 0)
    assert observer.memory is None


def test_a_lower_floor() -> None:
    """Hits below the documented floor lower it to the second smallest, in whole steps: a false one does not count."""
    observer = CacheObserver(rules_of("gemini", "gemini-2.5-flash"), OWN, len)
    assert observer.cache.floor_tokens == 2_048
    answers(observer, 9, 1)  # no provider stores so little
    answers(observer, 1, 100)
    answers(observer, 1, 990)
    assert observer.cache.floor_tokens == 2_048
    answers(observer, 1, 985)
    assert observer.cache.floor_tokens == 985
    stepped = CacheObserver(rules_of("groq", "any"), OWN, len)
    answers(stepped, 200, 1)  # less than a step is no hit
    assert stepped.cache.floor_tokens == 1_024
    answers(stepped, 3, 990)
    assert stepped.cache.floor_tokens == 896


def test_the_start_of_a_key() -> None:
    """A start that is a few tokens below the floor by its estimate still names the key, as its prompts can share it."""
    observer = CacheObserver(rules_of("openai", "gpt-4.1"), OWN, lambda text: len(text) // 4)
    ends = (400, 4_050, 4_200)
    texts = [f"{START}{' ' * 50}{question:<150}" for question in ("Who?", "What?")]
    assert {observer.key_start(PromptParts(text, ends)) for text in texts} == {texts[0][:4_050]}
    assert len({observer.key_start(PromptParts(text, (400, 3_000, 4_200))) for text in texts}) == 2


def test_marked_starts() -> None:
    """Only marked starts are stored, and charged for by the rules if the endpoint does not report it."""
    observer = CacheObserver(rules_of("openai", "gpt-5.6"), OWN, len)
    text, end = f"{START}{'b' * 400}", len(START)
    assert observer.cache.earns
    assert observer.cache.breakpoints
    assert [observer.written_tokens(Usage(4_400, 0, 1), text, marks) for marks in ((), (end,))] == [0, 4_000]
    assert observer.written_tokens(Usage(4_400, 3_900, 1), text, (end,)) == 0
    assert observer.written_tokens(Usage(4_400, 0, 1, written_tokens=3_000), text, (end,)) == 3_000
    assert observer.shared(text, (end,)) == 0
    observer.answered(text, 0, Usage(4_400, 0, 1, written_tokens=4_000), len(text), (end,))
    assert [observer.shared(text, marks) for marks in ((), (end - 1,), (end,), (5, end))] == [0, 0, end, end]


def test_starts() -> None:
    """A start is marked where others share it or where it is known, and only if it is long enough."""
    observer = CacheObserver(rules_of("openai", "gpt-5.6"), OWN, len)
    text = "a" * 5_000
    ends = (700, 1_000, 2_000, 3_000)
    assert observer.starts(PromptParts(text, ends)) == ()
    assert observer.starts(PromptParts(text, ends, 2_000)) == (1_000, 2_000)
    observer.answered(text, 0, Usage(5_000, 0, 1), 5_000, (3_000,))
    assert observer.starts(PromptParts(text, ends)) == (3_000,)
    many = tuple(range(1_500, 4_000, 100))
    assert observer.starts(PromptParts(text, many, 3_900)) == (1_500, 3_700, 3_800, 3_900)
    observer.marks = False
    assert observer.starts(PromptParts(text, ends, 2_000)) == ()
    prefix = CacheObserver(rules_of("deepseek", "deepseek-chat"), OWN, len)
    assert prefix.starts(PromptParts(text, (40, 100, 200), 200)) == (100, 200)
    assert prefix.starts(PromptParts(text, (40, 100))) == (4_096,)


def test_whole_prompts() -> None:
    """Without marks, storing is charged for by the rules; a hit on a start shows other rules."""
    observer = CacheObserver(rules_of("openai", "gpt-5.6"), OWN, len)
    observer.implicit = True
    assert [observer.written_tokens(Usage(tokens, 0, 1), "") for tokens in (1_023, 1_100)] == [0, 1_100]
    assert observer.written_tokens(Usage(1_100, 0, 1, written_tokens=1_024), "") == 1_024
    assert not observer.cache.earns
    answers(observer, 2, 1_024)
    assert observer.cache.whole
    answers(observer, 3, 1_024)  # the first two texts are known as a whole
    assert observer.cache.earns
    wrong = CacheObserver(rules_of("openai", "gpt-5.6"), OWN, len)
    wrong.implicit = True
    answers(wrong, 99, 1)
    assert (wrong.cache.whole, wrong.cache.floor_tokens) == (True, 1_024)
