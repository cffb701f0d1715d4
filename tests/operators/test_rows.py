"""What becomes of a model's text: a value, or what failed."""

import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from flightllm.functions import choice_answer, json_answer, number_answer, text_answer
from flightllm.functions.base import Answer
from flightllm.functions.call import AICall
from flightllm.functions.confidence import expected_number, with_confidence
from flightllm.llm.engine import Completion, Parameters
from flightllm.operators.rows import AnswerReader, Response, read_answer


def call_of(answer: Answer, on_truncated: str = "error") -> AICall:
    """Make a call that wants an answer."""
    return AICall(
        stub="f",
        function="f",
        text="f()",
        instruction=answer.instruction,
        fields=(),
        required=frozenset(),
        parameters=Parameters(8, constraint=answer.constraint),
        output=answer.output,
        parse=answer.parse,
        on_error="null",
        on_truncated=on_truncated,
    )


def yes_no() -> Answer:
    """Return a choice one of whose options begins another."""
    return choice_answer("x", ["Yes", "No", "Not sure"])


def score() -> Answer:
    """Return a number that is a choice of whole ones."""
    return number_answer("x", 0.0, 10.0)


def ratio() -> Answer:
    """Return a number that a pattern bounds."""
    return number_answer("x", 0.0, 1_000.0)


def fact() -> Answer:
    """Return an object."""
    return json_answer("x", ["a"])


def whole() -> Answer:
    """Return a JSON value that is a number."""
    return json_answer("x", json.dumps({"type": "integer"}))


@pytest.mark.parametrize(
    ("make", "text", "usable"),
    [
        (lambda: text_answer("x"), "A whole sentence.", False),
        (yes_no, "Yes", True),
        (yes_no, " Yes\n", True),
        (yes_no, "yes", False),
        (yes_no, "Yes.", False),
        (yes_no, "No", False),
        (yes_no, "Yes, but", False),
        (score, "1", False),
        (score, "7", False),
        (ratio, "12.5", False),
        (fact, '{"a": "b"}', True),
        (fact, '```json\n{"a": "b"}\n```', True),
        (fact, '{"a": "b', False),
        (whole, "1", False),
    ],
)
def test_cut_answers(make: Callable[[], Answer], text: str, usable: bool) -> None:
    """A text that the limit cut is an answer only where nothing can follow; the whole text says the same or more."""
    cut = read_answer(call_of(make()), Response(text, cut=8))
    assert (cut.failure is None) is usable
    if usable:
        assert cut == read_answer(call_of(make()), Response(text))
    else:
        assert "cut at its limit of 8 tokens: write max_tokens => 16" in str(cut.failure)


@pytest.mark.parametrize(("make", "text"), [(lambda: text_answer("x"), "half a"), (score, "7"), (yes_no, "No")])
def test_kept_cut_answers(make: Callable[[], Answer], text: str) -> None:
    """A call that keeps what was cut reads it as if it were whole."""
    assert read_answer(call_of(make(), "keep"), Response(text, cut=8)) == read_answer(call_of(make()), Response(text))


def test_no_text_and_no_reason() -> None:
    """What another query failed to get is a failure without a reason, and no NULL."""
    assert read_answer(call_of(text_answer("x")), Response(None)).failure == "no answer"


def test_completions() -> None:
    """A refusal and a filter's stop are errors that say so, whatever text there is."""
    call = call_of(text_answer("x"))
    assert Response.of(call, Completion(0, "a"), 8) == Response("a")
    assert Response.of(call, Completion(0, "a", finish_reason="length"), 8) == Response("a", cut=8)
    early = Response.of(call, Completion(0, "a", completion_tokens=3, finish_reason="length"), 8)
    assert "give the call less text, or on_truncated" in str(read_answer(call_of(text_answer("x")), early).failure)
    assert Response.of(call, Completion(0, "", refusal="I will not"), 8).error == "the model refused: I will not"
    assert Response.of(call, Completion(0, "a", finish_reason="content_filter"), 8).text is None
    assert Response.of(call, Completion(0, None, "gone"), 8) == Response(None, "gone")


def test_a_cut_answer_with_a_probability() -> None:
    """An option that was cut is whole in its own spelling, with or without its probability; no number is."""
    for make, usable in ((yes_no, True), (score, False)):
        parameters = Parameters(8, constraint=make().constraint, probability=True)
        call = replace(call_of(with_confidence(make())), parameters=parameters)
        text = "Yes" if usable else "7"
        said = Response.of(call, Completion(0, text, finish_reason="length", probabilities=(0.5, 0.3)), 8)
        reading = read_answer(call, said)
        assert (reading.failure is None) == usable
        assert not usable or reading.value == {"answer": "Yes", "confidence": 0.5}
    rating = replace(call_of(expected_number(score())), parameters=parameters)
    assert read_answer(rating, Response.of(rating, Completion(0, "7", finish_reason="length"), 8)).failure is not None


def test_what_another_answer_can_mend() -> None:
    """An answer that is none says what is wrong with it; an engine's error or a function's defect is no fault of it."""

    def defect(text: str) -> str:
        raise TypeError(text)

    assert "expected one of" in (read_answer(call_of(yes_no()), Response("Maybe")).fault or "")
    assert read_answer(call_of(yes_no()), Response(None, "gone")).fault is None
    broken = Answer("x", pa.string(), defect)
    assert read_answer(call_of(broken), Response("a")).fault is None


def counting(answer: Answer) -> tuple[AICall, list[str]]:
    """Make a call, and a list of the texts that it parses."""
    texts: list[str] = []

    def parse(text: str) -> object:
        texts.append(text)
        return answer.parse(text)

    return replace(call_of(answer), parse=parse), texts


@pytest.mark.parametrize("make", [yes_no, score])
def test_equal_answers_are_parsed_once(make: Callable[[], Answer]) -> None:
    """A reader parses equal answers to a choice once, and returns what each would give by itself."""
    call, texts = counting(make())
    reader, said = AnswerReader(call), ["1", "Yes", "1", "Yes", "Maybe", "Yes", "Maybe"]
    found = [reader.read(Completion(number, text), 8) for number, text in enumerate(said)]
    assert texts == ["1", "Yes", "Maybe"]
    assert found == [(Response(text), read_answer(call, Response(text))) for text in said]


def test_only_whole_answers_are_remembered() -> None:
    """A reader reads a cut, refused or failed answer anew, even if it knows the text as a whole answer."""
    reader = AnswerReader(call_of(score()))
    assert reader.read(Completion(0, "7"), 8)[1].value == 7.0
    assert reader.read(Completion(1, "7", finish_reason="length"), 8)[0].cut == 8
    assert "content filter" in str(reader.read(Completion(2, "7", finish_reason="content_filter"), 8)[1].failure)
    assert reader.read(Completion(3, "7", error="gone"), 8)[1].failure == "gone"
    assert reader.read(Completion(4, "7"), 8)[1].failure is None


@pytest.mark.parametrize("answer", [fact(), text_answer("x"), with_confidence(yes_no())])
def test_other_answers_are_not_remembered(answer: Answer) -> None:
    """A reader parses each answer that is free text, an object, or a choice with its probability."""
    call, texts = counting(answer)
    reader = AnswerReader(call)
    for number in range(2):
        reader.read(Completion(number, '{"a": 1}'), 8)
    assert len(texts) == 2


def test_a_defect_of_parse_is_forgotten() -> None:
    """A reader parses an answer again if a function's own parse failed on an equal answer before."""
    call, texts = counting(yes_no())

    def parse(text: str) -> object:
        if not texts:
            texts.append(text)
            raise TypeError("once")
        return call.parse(text)

    reader = AnswerReader(replace(call, parse=parse))
    assert "once" in str(reader.read(Completion(0, "Yes"), 8)[1].failure)
    assert reader.read(Completion(1, "Yes"), 8)[1].failure is None
    assert reader.read(Completion(2, "Yes"), 8)[1].failure is None
    assert texts == ["Yes", "Yes"]


def test_bounded_memory_of_answers() -> None:
    """A reader keeps a bounded number of short answers, and reads those that it forgot anew."""
    call, texts = counting(yes_no())
    reader = AnswerReader(call)
    for _ in range(2):
        for number in range(1_000):
            assert f"got 'x{number}'" in str(reader.read(Completion(number, f"x{number}"), 8)[1].failure)
            assert len(reader._known) <= 256
    assert len(texts) == 2_000
    for number in range(2):
        reader.read(Completion(number, "long " * 100), 8)
    assert len(texts) == 2_002
