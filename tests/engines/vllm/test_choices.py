"""The choice between a single token and a grammar, without vLLM."""

from typing import cast

import pytest
from structlog.testing import capture_logs

from flightllm.common.newest import Newest
from flightllm.common.package_data import demo_model
from flightllm.engines.vllm.choices import FirstTokens, FirstTokenTables, first_tokens, suits
from flightllm.llm.engine import Choice, Parameters, Regex
from flightllm.llm.tokenizer import PromptEncoder
from tests.packages import NEEDS_VLLM, needs

LABELS = {1: b"n", 2: b"ne", 3: b"neg", 4: b"negative", 5: b"neutral", 6: b"p"}
SHAPES = [
    ("Yes", "No"),
    ("yes", "Yes", "YES"),
    ("negative", "neutral", "positive"),
    ("1", "10", "100"),
    ("New York", "New Jersey"),
    ("é", "è", "日本", "日光"),
    (" padded", "other "),
    ("only",),
    tuple(f"label {number}" for number in range(100)),
    tuple(f"{number}. label" for number in range(100)),
    ('a "quoted" one', "back\\slash", "(a|b)*"),
]


@pytest.mark.parametrize(
    ("options", "spelled", "usual", "told"),
    [
        (("Yes", "No"), {1: b"Y", 2: b"Yes", 3: b"N", 4: b"No"}, (2, 4), {1: "Yes", 2: "Yes", 3: "No", 4: "No"}),
        (("yes", "Yes"), {1: b"y", 2: b"Yes"}, (1, 2), {1: "yes", 2: "Yes"}),
        (("negative", "neutral"), LABELS, (4, 5), {3: "negative", 4: "negative", 5: "neutral"}),
        (("negative", "neutral"), LABELS, (2, 5), None),
        (("1", "10"), {1: b"1", 2: b"10"}, (1, 2), None),
        (("1", "10"), {1: b"1"}, (1, 1), None),
        (("New York", "New Jersey"), {1: b"New", 2: b"N"}, (1, 1), None),
        (("é", "è"), {1: b"\xc3", 2: "é".encode(), 3: "è".encode()}, (2, 3), {2: "é", 3: "è"}),
        (("é", "è"), {1: b"\xc3"}, (1, 1), None),
        (("Yes", "No"), {1: b"Y", 2: b"Yes", 4: b"No"}, (9, 8), {1: "Yes", 2: "Yes", 4: "No"}),
        (("Yes", "No"), {1: b"Y", 4: b"No", 5: b""}, (None, 4), {1: "Yes", 4: "No"}),
        (("Yes", "No"), {1: b"Y"}, (1, None), None),
        (("Yes",), {1: b"Y", 2: b"Yes"}, (2,), {1: "Yes", 2: "Yes"}),
        (("Yes", "No"), {}, (2, 4), None),
        (("a",), dict.fromkeys(range(1_025), b"a"), (1,), None),
    ],
    ids=[
        *("different", "case", "shared by rare tokens", "shared by a usual token", "prefix", "prefix alone", "words"),
        *("bytes", "shared bytes", "spaces before", "no text", "no token", "single", "unknown", "too many"),
    ],
)
def test_first_tokens(
    options: tuple[str, ...],
    spelled: dict[int, bytes],
    usual: tuple[int | None, ...],
    told: dict[int, str] | None,
) -> None:
    """A single token answers a choice only where the usual token of each option begins no other option."""
    found = first_tokens(options, spelled, usual)
    assert (found and found.options) == told


def test_draws_that_a_shared_token_would_bend() -> None:
    """Where options share tokens, a single token answers only if a second draw repeats the first."""
    exact, shared = FirstTokens({1: b"a"}, {1: "a"}), FirstTokens({1: b"a", 2: b"b"}, {2: "b"})
    assert suits(exact, Parameters(temperature=1.0))
    assert not suits(shared, Parameters(temperature=1.0))
    assert suits(shared, Parameters(temperature=1.0, seed=1))
    assert suits(shared, Parameters())


@needs("llguidance", "transformers", extra="local")
def test_tables_of_a_model() -> None:
    """The demo model's tokenizer tells yes from no and the labels of a sentiment, but no numbers; each is kept."""
    encoder = PromptEncoder(demo_model())
    tables = FirstTokenTables(encoder, len(encoder.tokenizer))
    found = [tables.of(Parameters(constraint=Choice(options))) for options in SHAPES]
    single = {options for options, one in zip(SHAPES, found, strict=True) if one is not None}
    assert {("Yes", "No"), ("negative", "neutral", "positive"), ("only",)} <= single
    assert not {("1", "10", "100"), ("New York", "New Jersey")} & single
    for options, one in zip(SHAPES, found, strict=True):
        if one is not None:
            assert set(one.options.values()) == set(options)
            assert all(option.encode().startswith(one.spelled[token]) for token, option in one.options.items())
        assert tables.of(Parameters(constraint=Choice(options))) is one
    assert [tables.of(Parameters(constraint=one)) for one in (None, Regex("a|b"), Choice(("", "a")))] == [None] * 3


@needs("llguidance", "transformers", extra="local")
def test_another_library_for_grammars() -> None:
    """Where vLLM compiles grammars with another library, a single token answers only choices without shared tokens."""
    encoder = PromptEncoder(demo_model())
    tables, others = (FirstTokenTables(encoder, len(encoder.tokenizer), guided=guided) for guided in (True, False))
    shared = 0
    for options in SHAPES:
        parameters = Parameters(constraint=Choice(options))
        found = tables.of(parameters)
        assert others.of(parameters) == (found if found is not None and found.exact else None)
        shared += found is not None and not found.exact
    assert 0 < shared < len(SHAPES)


def test_a_choice_that_is_dropped_while_it_is_read() -> None:
    """A choice that another thread drops between two looks is computed again."""

    class Dropping(Newest[Choice, FirstTokens | None]):
        """A bounded dictionary that drops each choice right after a look."""

        def __contains__(self, choice: object) -> bool:
            found = super().__contains__(choice)
            self.pop(cast("Choice", choice), None)
            return found

    tables, choice = FirstTokenTables(PromptEncoder(demo_model()), 8), Choice(("a", "b"))
    kept = FirstTokens({1: b"a", 2: b"b"}, {1: "a", 2: "b"})
    tables._known = Dropping(8)
    tables._known[choice] = kept
    assert tables.of(Parameters(constraint=choice)) is kept


@needs("llguidance", "transformers", extra="local")
def test_a_computation_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice whose tokens cannot be computed needs the grammar; the log has one warning for all such choices."""
    import llguidance

    def fail(*_: object) -> None:
        raise RuntimeError("Yes or No")

    monkeypatch.setattr(llguidance, "LLMatcher", fail)
    monkeypatch.setattr(fail, "grammar_from_regex", str, raising=False)
    encoder = PromptEncoder(demo_model())
    tables = FirstTokenTables(encoder, len(encoder.tokenizer))
    with capture_logs() as logs:
        found = [tables.of(Parameters(constraint=Choice(("Yes", other)))) for other in ("No", "no", "No")]
    assert found == [None] * 3
    assert logs == [{"event": "first_tokens_failed", "log_level": "warning", "error": "RuntimeError"}]


@NEEDS_VLLM
@pytest.mark.vllm
@pytest.mark.parametrize("padding", [0, 100])
def test_the_tokens_of_vllms_grammar(padding: int) -> None:
    """The tokens are those that vLLM's grammar of the choice allows first, also where a model pads its vocabulary."""
    import llguidance.hf
    import numpy as np
    from vllm.v1.structured_output.backend_guidance import serialize_guidance_grammar
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions
    from vllm.v1.structured_output.utils import choice_as_grammar

    encoder = PromptEncoder(demo_model())
    size = len(encoder.tokenizer) + padding
    tables, known = FirstTokenTables(encoder, size), llguidance.hf.from_tokenizer(encoder.tokenizer, n_vocab=size)
    for options in SHAPES:
        grammar = serialize_guidance_grammar(StructuredOutputOptions.GRAMMAR, choice_as_grammar(list(options)))
        mask = np.frombuffer(llguidance.LLMatcher(known, grammar).compute_bitmask(), dtype=np.uint8)
        found = tables.of(Parameters(constraint=Choice(options)))
        if found is not None:
            assert sorted(found.spelled) == np.flatnonzero(np.unpackbits(mask, bitorder="little")[:size]).tolist()
