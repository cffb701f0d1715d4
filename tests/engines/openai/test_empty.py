"""An answer beside an empty content is read where the constraint proves it; an endpoint without texts costs little."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.llm.engine import Choice, Completion, Constraint, JsonSchema, Parameters, Regex, Request
from tests.endpoints import Behave, Body, Endpoint, Reply, chat, endpoint_of

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
from flightllm.engines.openai.empty import EmptyAnswers

YES = Choice(("Yes", "No"))
SCORE = Choice(tuple(map(str, range(11))))
PERSON = JsonSchema(
    '{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}'
)


@contextmanager
def serving(behave: Behave) -> Iterator[tuple[Engine, Endpoint]]:
    """Run an endpoint of an unknown provider and an engine on it."""
    with endpoint_of(behave) as endpoint:
        engine = create_engine(EngineConfig("openai", "any", 8, {"base_url": endpoint.url}))
        try:
            yield engine, endpoint
        finally:
            engine.close()


def run(engine: Engine, rows: int, constraint: Constraint = None) -> list[Completion]:
    """Ask about some rows."""
    parameters = Parameters(constraint=constraint)
    requests = [Request(number, f"ROW{number}.", parameters, "f", "", ()) for number in range(rows)]
    return list(engine.generate(iter(requests), lambda: False))


def tool(arguments: object, name: str = "answer") -> Body:
    """Return a message that calls a tool instead of an answer."""
    return {"content": None, "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("message", "constraint", "text"),
    [
        ({"content": None, "reasoning_content": "Yes"}, YES, "Yes"),
        ({"content": "", "reasoning": "**no**."}, YES, "No"),
        ({"content": [{"type": "thinking", "thinking": "Yes!"}]}, YES, "Yes"),
        ({"content": [], "reasoning_content": '{"answer": "No"}'}, YES, "No"),
        (tool('{"answer": "No"}'), YES, "No"),
        (tool({"answer": True}), YES, "Yes"),
        ({"content": None, "function_call": {"arguments": '{"answer": "Yes"}'}}, YES, "Yes"),
        ({"content": None, "reasoning_content": '{"answer": 8}'}, SCORE, "8"),
        ({"content": None, "reasoning_content": " 42 "}, Regex("[0-9]{1,4}"), "42"),
        ({"content": None, "reasoning": '{"name": "Bo", "age": "5"}'}, PERSON, '{"name": "Bo", "age": 5}'),
        (tool('```json\n{"name": "Bo"}\n```'), PERSON, '{"name": "Bo"}'),
        ({"content": {"name": "Bo", "age": 5}}, PERSON, '{"name": "Bo", "age": 5}'),
        ({**tool('{"answer": "No"}'), "reasoning": "The text is dull. Yes or no? No."}, YES, "No"),
    ],
)
def test_a_proven_answer(message: Body, constraint: Constraint, text: str) -> None:
    """A text in another place that is nothing but an answer to the question is read from there, by one request."""
    with serving(lambda *_: chat(**message)) as (engine, endpoint):
        assert [one.text for one in run(engine, 3, constraint)] == [text] * 3
        assert len(endpoint.bodies) == 3


@pytest.mark.parametrize(
    ("message", "constraint", "said"),
    [
        ({"content": None}, None, "content is missing or null; its last answers all have this form; check the chat"),
        ({"content": " "}, YES, "content is an empty text; "),
        ({"content": []}, None, "content is an empty list; "),
        ({"content": None, "reasoning_content": "Yes"}, None, 'reasoning_content has a text; its last.*"enable_thin'),
        ({"content": None, "reasoning": "Yes. It praises the film.\nOr does it?"}, YES, "reasoning has a text"),
        ({"content": None, "reasoning": "Is it Yes or No"}, YES, "reasoning has a text"),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, YES, "content is a list that has only thoughts"),
        ({"content": None, "reasoning": "any thought"}, Regex("[\\s\\S]+"), "reasoning has a text"),
        *(
            ({"content": None, "reasoning": thought}, YES, "reasoning has a text")
            for thought in (
                "No, wait, let me check.",
                "True, it is long.",
                "Ja, mal sehen.",
                "对，我先看一下。",
                "True",
            )
        ),
        *(({"content": None, "reasoning": "7 points"}, one, "reasoning has a text") for one in (SCORE, Regex("[^,]+"))),
        *(
            ({"content": None, "reasoning": "I see the row"}, Regex(one), "reasoning has a text")
            for one in (".+", "[^\\n]{1,100}", "[A-Z].*", "\\w+( \\w+)*")
        ),
        (tool('{"limit": 5}'), SCORE, r"tool_calls\[0\]"),
        (tool('{"top_k": 5}'), Regex("-?[0-9]+"), r"tool_calls\[0\]"),
        (tool('{"query": false}'), YES, r"tool_calls\[0\]"),
        (tool('{"age": 5}'), PERSON, r"tool_calls\[0\]"),
        (tool('{"name": ["Bo", "Al"]}'), PERSON, r"tool_calls\[0\]"),
        ({"content": None, "reasoning": 'So {"name": "Bo"}'}, PERSON, "reasoning has a text"),
        ({"content": None, "reasoning": '{"first": "Bo"}'}, PERSON, "reasoning has a text"),
        ({**tool('{"answer": "No"}'), "reasoning": "Yes"}, YES, r"reasoning and tool_calls\[0\].* remove tools"),
        ({"content": None, "tool_calls": [tool("No")["tool_calls"][0]] * 2}, YES, "content is missing or null"),
    ],
)
def test_an_endpoint_without_texts(message: Body, constraint: Constraint, said: str) -> None:
    """A thought is no answer by itself. Where each row gets the same nothing, errors come soon, with advice."""
    with serving(lambda *_: chat(**message)) as (engine, endpoint):
        found = run(engine, 30, constraint)
        assert all(one.text is None and re.search(said, one.error or "") for one in found)
        assert len(endpoint.bodies) <= 60


def test_some_empty_answers() -> None:
    """A first answer without a text costs no row its answer, even if all first answers are so."""
    asked = set[str]()

    def behave(_: str, body: Body, __: int) -> Reply:
        again = (prompt := str(body["messages"])) in asked
        asked.add(prompt)
        return chat("text" if again else None)

    with serving(behave) as (engine, _):
        assert {one.text for one in run(engine, 12)} == {"text"}


def test_when_a_form_is_usual() -> None:
    """A few answers of one form are enough at the start; later, a disturbance must last, and each text ends it."""
    now = [0.0]
    empty = EmptyAnswers(lambda: now[0])
    assert not any(empty.is_usual("a") for _ in range(9))
    now[0] = 1
    assert not empty.is_usual("b")
    assert empty.is_usual("a") is False
    now[0] = 2
    assert [empty.is_usual("a") for _ in range(5)] == [False] * 4 + [True]
    empty.answered()
    assert not empty.is_usual("a")
    now[0] = 10
    assert not any(empty.is_usual("a") for _ in range(50))
    now[0] = 30
    assert empty.is_usual("a")
    empty.answered()
    assert not empty.is_usual("a")


def test_a_refusal_beside_an_empty_content() -> None:
    """A refusal is the row's answer: nothing is asked again."""
    with serving(lambda *_: chat(content=None, refusal="I will not")) as (engine, endpoint):
        assert {one.error for one in run(engine, 3, YES)} == {"the model refused: I will not"}
        assert len(endpoint.bodies) == 3
