"""The probability of a chosen option, from the log probabilities of tokens in bodies of endpoints."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.engines.probabilities import (
    TokenStep,
    constrained_probabilities,
    first_token_probabilities,
    option_probabilities,
    read_probabilities,
)

Top = dict[str, float]
YES_NO = ("Yes", "No")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "token", "logprob", "top_logprobs", "bytes", "tokens", "token_logprobs"]),
            inner,
            max_size=4,
        )
    ),
)


def chat(*steps: tuple[str, Top]) -> dict[str, Any]:
    """Return what a chat's body says of tokens and, at each, of the probabilities of others."""
    return {
        "content": [
            {
                "token": token,
                "logprob": math.log(top.get(token, 1e-9)),
                "top_logprobs": [
                    {"token": t, "logprob": math.log(p), "bytes": list(t.encode())} for t, p in top.items()
                ],
            }
            for token, top in steps
        ]
    }


def completion(*steps: tuple[str, Top]) -> dict[str, Any]:
    """Return the same as a completion's body says it."""
    return {
        "tokens": [token for token, _ in steps],
        "token_logprobs": [math.log(top.get(token, 1e-9)) for token, top in steps],
        "top_logprobs": [{t: math.log(p) for t, p in top.items()} for _, top in steps],
        "text_offset": [0] * len(steps),
    }


def of_text(found: tuple[float, ...] | None, text: str, options: tuple[str, ...]) -> float | None:
    """Return the probability of the option that an answer chose, without regard to case; all of them sum to 1."""
    if found is None:
        return None
    assert sum(found) == pytest.approx(1.0)
    places = {option.strip().casefold(): place for place, option in enumerate(options)}
    return found[options.index(text) if text in options else places[text.strip(" *.'\"`\n:").casefold()]]


@pytest.mark.parametrize("form", [chat, completion])
@pytest.mark.parametrize(
    ("text", "options", "steps", "expected"),
    [
        ("Yes", YES_NO, [("Yes", {"Yes": 0.6, "No": 0.2, "Well": 0.2})], 0.75),
        (" yes.", YES_NO, [(" yes", {" yes": 0.5, "Yes": 0.1, "No": 0.3, "Nope": 0.1}), (".", {".": 1.0})], 2 / 3),
        ("Yes", YES_NO, [("Yes", {"Yes": 0.5, " yes": 0.1, "Y": 0.1, "No": 0.2, "Well": 0.1})], 0.75),
        ("No", YES_NO, [("N", {"N": 0.2, "No": 0.1, "Y": 0.6}), ("o", {"o": 1.0})], 0.25),
        ("good", ("good", "bad"), [("good", {"good": 0.5, "go": 0.1, "bad": 0.4, "b": 0.3})], 5 / 9),
        ("so so", ("so so", "so bad", "no"), [("so", {"s": 0.1, "so": 0.6, "no": 0.2}), (" so", {" so": 1.0})], 0.75),
        ("Yes", YES_NO, [('{"a": "', {'{"a": "': 1.0}), ("Yes", {"Yes": 0.9, "No": 0.1}), ('"}', {'"}': 1.0})], 0.9),
        ("Yes", YES_NO, [("No, so ", {"No, so ": 1.0}), ("Yes", {"Yes": 0.6, "No": 0.4})], 0.6),
        ("10", ("1", "10"), [("1", {"1": 1.0}), ("0", {"0": 0.25, "<end>": 0.75})], 0.25),
        ("1", ("1", "10"), [("1", {"1": 1.0}), ("<end>", {"0": 0.25, "<end>": 0.75})], 0.75),
        ("1", ("1", "10"), [("1", {"1": 1.0}), ("", {"0": 0.25, "": 0.75})], 0.75),
        ("1", ("1", "10"), [("1", {"1": 0.8, "10": 0.2})], 0.8),
        ("good", ("good", "good enough"), [("good", {"good": 1.0}), (".", {".": 0.5, " enough": 0.5})], 0.5),
        ("a", ("A", "a"), [("a", {"a": 0.7, "A": 0.3})], 0.7),
        ("s", ("s", "t"), [("s", {"s": 0.7, "t": 0.3}), ("</s>", {"</s>": 1.0})], 0.7),
        ("heiß", ("heiß", "kühl"), [("he", {"he": 0.7, "k": 0.3}), ("iß", {"iß": 1.0})], 0.7),
        ("b", ("b",), [("b", {"b": 0.1, "c": 0.9})], 1.0),
    ],
)
def test_probability(form: Any, text: str, options: tuple[str, ...], steps: Any, expected: float) -> None:
    """Spellings of a whole option count together, of its pieces the likeliest counts; ways are multiplied."""
    assert of_text(read_probabilities(form(*steps), text, options), text, options) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("logprobs", "text"),
    [
        (None, "Yes"),
        ({"content": None}, "Yes"),
        ({"content": []}, "Yes"),
        (chat(("Yes", {})), "Yes"),
        (chat(("Maybe", {"Maybe": 0.9, "Yes": 0.05, "No": 0.05})), "Maybe"),
        (chat(("No", {"No": 0.5, "Yes": 0.5})), "Yes"),
        (chat(("Yes", {"Yes": 0.5, "Well": 0.3})), "Yes"),
        (chat(("Yes", {"Yes": 0.5, "No": 0.5})), None),
        ({"tokens": ["Yes"], "token_logprobs": [], "top_logprobs": [{"Yes": -0.1}]}, "Yes"),
        ({"content": [{"token": "Yes", "logprob": math.nan, "top_logprobs": []}]}, "Yes"),
        ({"content": [{"token": 1, "logprob": -1, "top_logprobs": "x"}]}, "Yes"),
    ],
)
def test_unknown(logprobs: Any, text: str | None) -> None:
    """Where log probabilities are missing, of something else, or leave out an option that can be likely, it is None."""
    assert read_probabilities(logprobs, text, YES_NO) is None


def test_unlisted_options_that_are_a_trace() -> None:
    """An option that no listed token leads to is left out where it can be no more than a trace."""
    found = read_probabilities(chat(("Yes", {"Yes": 0.9989, "Well": 0.001})), "Yes", YES_NO)
    assert found == pytest.approx((1.0, 0.0))


def test_ended_early() -> None:
    """An answer that another option goes on from has no probability where its end is not told."""
    assert read_probabilities(chat(("1", {"1": 1.0})), "1", ("1", "10")) is None


@pytest.mark.slow
@given(ANYTHING, st.sampled_from([{}, chat(("Yes", {"Yes": 0.6, "No": 0.4}))]))
def test_any_body(noise: Any, body: dict[str, Any]) -> None:
    """Whatever a body has, the result is a probability or None."""
    for logprobs in (noise, {**body, "content": noise}, {"content": [noise]}, {"tokens": noise, "top_logprobs": noise}):
        found = read_probabilities(logprobs, "Yes", YES_NO)
        assert found is None or (min(found) >= 0 and sum(found) == pytest.approx(1.0))


def step(token: str, **top: float) -> TokenStep:
    """Return a step; a name `_` in `top` stands for a space."""
    return TokenStep(token.encode(), tuple((name.replace("_", " ").encode(), math.log(p)) for name, p in top.items()))


@pytest.mark.parametrize(
    ("text", "options", "steps", "expected"),
    [
        (" Yes", (" Yes", "No"), [step(" ", _=0.3, No=0.6), step("Yes", Yes=1.0)], 1 / 3),
        ("No", (" Yes", "No"), [step("No", _=0.3, No=0.6)], 2 / 3),
        (" Yes", (" Yes", "Yes"), [step(" ", _=0.3, Yes=0.7), step("Yes", Yes=1.0)], 0.3),
        (
            " 1",
            (" 1", " 10", "2"),
            [step(" 1", _1=0.8, **{"2": 0.2}), step("<end>", **{"0": 0.25, "<end>": 0.75})],
            0.6,
        ),
        (" Yes", (" Yes", " No"), [step(" ", _=0.9, _No=0.1), step("Yes", Yes=0.7, No=0.3)], 0.7),
        ("Yes", YES_NO, [step("Yes", Yes=0.6, No=0.2)], 0.75),
        ("Yes", (" Yes", "No"), [step("Yes", Yes=0.6, No=0.2)], None),
    ],
    ids=["space first", "no space", "only the space differs", "end", "all have the space", "plain", "space lost"],
)
def test_options_with_spaces(
    text: str, options: tuple[str, ...], steps: list[TokenStep], expected: float | None
) -> None:
    """Under a grammar, a first token that is a space counts where it tells the options apart."""
    found = constrained_probabilities(steps, text, options)
    assert of_text(found, text, options) == (None if expected is None else pytest.approx(expected))


def test_the_first_token_alone() -> None:
    """Of the tokens that can begin an option, the most probable spelling counts; shared ones count as a third way."""
    listed = [(b"Y", math.log(0.1)), (b"Yes", math.log(0.3)), (b"No", math.log(0.1)), (b"N", math.log(0.05))]
    assert first_token_probabilities(listed, "Yes", YES_NO) == pytest.approx((0.3 / 0.4, 0.1 / 0.4))
    assert first_token_probabilities(listed, "No", YES_NO) == pytest.approx((0.3 / 0.4, 0.1 / 0.4))
    shared = [(b"ne", math.log(0.2)), (b"neutral", math.log(0.4)), (b"negative", math.log(0.2))]
    moods = ("neutral", "negative")
    assert first_token_probabilities(shared, "neutral", moods) == pytest.approx((0.4 / 0.8, 0.4 / 0.8))
    assert first_token_probabilities([(b" ", 0.0)], " padded", (" padded", "other")) == (1.0, 0.0)
    assert first_token_probabilities([], "Yes", YES_NO) is None


@pytest.mark.parametrize(
    ("text", "options", "steps", "expected"),
    [
        ("7", ("1", "7", "10"), [step("7", **{"7": 0.6, "1": 0.3, "10": 0.1})], (0.3, 0.6, 0.1)),
        ("10", ("1", "7", "10"), [step("1", **{"7": 0.6, "1": 0.4}), step("0", **{"0": 1.0})], (0.0, 0.6, 0.4)),
        ("bad", ("good", "bad", "bat"), [step("ba", ba=0.6, good=0.2), step("d", d=0.9, t=0.1)], (0.25, 0.675, 0.075)),
    ],
    ids=["own tokens", "two tokens", "branches"],
)
def test_all_options(text: str, options: tuple[str, ...], steps: list[TokenStep], expected: tuple[float, ...]) -> None:
    """Each option gets the share of the branch that leads to it."""
    assert option_probabilities(steps, text, options) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "top", "expected"),
    [("0", {"0": 0.5, "1": 0.49, "2": 0.01}, 0.51), ("9", {"9": 0.5, "1": 0.3, "8": 0.2}, 9.1)],
)
def test_digits_that_are_tokens(text: str, top: Top, expected: float) -> None:
    """Where `1` and `10` begin with one token, the numbers beside them say which of the two is meant."""
    numbers = tuple(map(str, range(11)))
    found = option_probabilities([step(text, **top)], text, numbers)
    assert found is not None
    assert sum(found) == pytest.approx(1.0)
    assert sum(p * n for n, p in enumerate(found)) == pytest.approx(expected, abs=0.1)


def test_labels_that_begin_alike() -> None:
    """Labels of one token have unknown probabilities, unless these are a trace; the chosen label has its own."""
    labels = ("bad", "very bad", "very good")
    found = option_probabilities([step("bad", bad=0.6, very=0.4)], "bad", labels)
    assert found == pytest.approx((0.6, math.nan, math.nan), nan_ok=True)
    assert option_probabilities([step("bad", bad=0.99, very=0.006)], "bad", labels) == pytest.approx(
        (0.994, 0.003, 0.003), abs=1e-4
    )
