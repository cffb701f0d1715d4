"""Which reported tokens are believed, and what stands in place of the others."""

import pytest

from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.believed import Sent, believed, fewest_tokens, lost
from flightllm.engines.openai.usage import Usage

PROSE = "The hall was full of people who had come from all over the country to hear her speak. " * 10
"""860 characters of 170 words; about 190 tokens."""


def sent(text: str = PROSE, most: int = 300, allowance: int = 0) -> Sent:
    """Return a request of one prompt."""
    return Sent([text], [], {}, lambda: len(text) // 4, most, allowance)


def count(text: str) -> int:
    """Count four characters as a token."""
    return len(text) // 4


@pytest.mark.parametrize("usage", [Usage(190, 128, 190), Usage(860, 0, 860), Usage(40, 0, 40), Usage(1_500, 0, 400)])
def test_believed(usage: Usage) -> None:
    """Tokens stay as reported for any tokenizer and chat template: from five words a token to one byte a token."""
    assert believed(usage, [EndpointAnswer(PROSE)], sent(), count) == usage


@pytest.mark.parametrize(
    ("usage", "prompt", "completion"),
    [
        (Usage(), 215, 216),
        (Usage(1, 0, 190), 215, 190),
        (Usage(190, 0, 0), 190, 216),
        (Usage(190, 0, 3), 190, 216),
        (Usage(190, 0, 100_000), 190, 216),
        (Usage(100_000, 90_000, 190), 215, 190),
    ],
)
def test_replaced(usage: Usage, prompt: int, completion: int) -> None:
    """A number that no tokenizer can make of the texts is replaced by an estimate, and that is marked."""
    found = believed(usage, [EndpointAnswer(PROSE)], sent(), count)
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (prompt, 0, completion)
    assert found.estimated
    assert found.most_completion_tokens >= 190


@pytest.mark.parametrize(
    ("text", "tokens"), [("=" * 5_000, 40), (" " * 5_000 + "x", 41), ("x" * 2_000, 20), ("ans 12", 1), ("好" * 300, 90)]
)
def test_long_tokens(text: str, tokens: int) -> None:
    """A line of dashes or spaces is few tokens; that is no mistake of the endpoint."""
    assert fewest_tokens(text) <= tokens


def test_cut_and_hidden() -> None:
    """An answer that was cut took all its tokens. A hidden thought can have taken its whole allowance."""
    cut = believed(Usage(), [EndpointAnswer("a b", finish_reason="length")], sent(), count)
    assert cut.completion_tokens == 300
    hidden = believed(Usage(), [EndpointAnswer("a b c d")], sent(most=300, allowance=200), count)
    assert hidden.completion_tokens == 1 + 1 + 200
    shown = believed(Usage(), [EndpointAnswer("a b c d", reasoning="so so so")], sent(most=300, allowance=200), count)
    assert shown.completion_tokens == 15 // 4 + 1


def test_no_text() -> None:
    """An answer that a filter removed can have no tokens; without any report it has one, and at most all."""
    filtered = [EndpointAnswer(None, "filtered", "content_filter")]
    assert believed(Usage(190, 0, 0), filtered, sent(), count) == Usage(190, 0, 0)
    found = believed(Usage(), filtered, sent(), count)
    assert (found.completion_tokens, found.most_completion_tokens, found.estimated) == (1, 300, True)


def test_sums() -> None:
    """Tries add up: a lost one counts its prompt, and can have cost a whole answer."""
    total = lost(sent(), 1) + Usage(190, 0, 5)
    assert total == Usage(215 + 190, 0, 5, 0, True, 0, 300 + 5)
    assert not (Usage(1, 0, 1) + Usage(1, 0, 1)).estimated
