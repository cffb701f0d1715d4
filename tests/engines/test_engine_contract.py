"""What `Engine` promises, checked on every engine with the real part running."""

import json
import re
import threading
from collections.abc import Callable, Iterator

import pytest

from flightllm.engines import Engine
from flightllm.errors import CancelledError
from flightllm.llm.engine import Choice, Completion, JsonSchema, Parameters, Regex, Request

WINDOW = 8
MakeRequests = Callable[..., list[Request]]
SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 12},
        "year": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["title", "year"],
    "additionalProperties": False,
}


@pytest.fixture(
    params=[
        "fake",
        "local",
        "anthropic",
        pytest.param("vllm", marks=pytest.mark.vllm),
        pytest.param("openai", marks=[pytest.mark.vllm, pytest.mark.slow]),
    ]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return each engine in turn."""
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found


def never() -> bool:
    """Say that nothing was cancelled."""
    return False


def answers(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Run the requests and return their completions in request order."""
    return sorted(engine.generate(iter(requests), never), key=lambda completion: completion.id)


def test_every_request_is_answered_once(engine: Engine, make_requests: MakeRequests) -> None:
    """Each request has exactly one completion, with a text and its token counts."""
    completions = answers(engine, make_requests(20))
    assert [completion.id for completion in completions] == list(range(20))
    assert all(completion.error is None and completion.text is not None for completion in completions)
    assert all(completion.prompt_tokens > 20 and completion.completion_tokens > 0 for completion in completions)


def test_no_requests(engine: Engine) -> None:
    """Nothing in, nothing out."""
    assert list(engine.generate(iter([]), never)) == []


def test_answers_do_not_depend_on_order(engine: Engine, make_requests: MakeRequests) -> None:
    """The same prompts in reverse get the same choices at temperature 0."""
    requests = make_requests(12, Parameters(max_tokens=4, constraint=Choice(("Yes", "No", "Unclear"))))
    forward = {completion.id: completion.text for completion in answers(engine, requests)}
    backward = {completion.id: completion.text for completion in answers(engine, requests[::-1])}
    assert forward == backward


def test_pull_stays_within_the_window(engine: Engine, make_requests: MakeRequests) -> None:
    """Requests pulled and not yet answered are never more than the window, and are pulled in the calling thread."""
    pulled = done = 0
    threads = set()

    def source() -> Iterator[Request]:
        nonlocal pulled
        for request in make_requests(40):
            threads.add(threading.get_ident())
            pulled += 1
            assert pulled - done <= WINDOW
            yield request

    for _ in engine.generate(source(), never):
        done += 1
    assert done == 40
    assert threads == {threading.get_ident()}


def test_pauses(engine: Engine, make_requests: MakeRequests) -> None:
    """Requests that pause, at first and while the engine waits for the answer before, are all answered."""
    answered: list[int] = []

    def source() -> Iterator[Request | None]:
        yield None
        for number, request in enumerate(make_requests(6)):
            while number > 2 and len(answered) < number:
                yield None
            yield request

    for completion in engine.generate(source(), never):
        answered.append(completion.id)  # noqa: PERF401 - the source looks at it meanwhile
    assert sorted(answered) == list(range(6))


def test_closing_stops_pulling(engine: Engine, make_requests: MakeRequests) -> None:
    """After the first answer a closed iterator pulls no more, and the engine goes on serving."""
    source = iter(make_requests(1000))
    stream = engine.generate(source, never)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    left = sum(1 for _ in source)
    assert left >= 1000 - 2 * WINDOW
    assert len(answers(engine, make_requests(3))) == 3


def test_cancelling_raises(engine: Engine, make_requests: MakeRequests) -> None:
    """Once cancelled, the stream ends with an error soon, having pulled no further."""
    stop = threading.Event()
    source = iter(make_requests(1000))
    stream = engine.generate(source, stop.is_set)
    next(stream)
    stop.set()
    with pytest.raises(CancelledError):
        list(stream)
    assert sum(1 for _ in source) >= 1000 - 3 * WINDOW


def test_cancelled_before_the_start(engine: Engine, make_requests: MakeRequests) -> None:
    """A query cancelled before it began raises at once."""
    with pytest.raises(CancelledError):
        list(engine.generate(iter(make_requests(3)), lambda: True))


def test_one_bad_request_fails_alone(engine: Engine, make_requests: MakeRequests) -> None:
    """A prompt beyond the model's context gets an error, its neighbours get answers."""
    requests = make_requests(5)
    bad = Request(2, "word " * 10_000, requests[2].parameters, "ai_gen", "", ())
    completions = answers(engine, [*requests[:2], bad, *requests[3:]])
    assert [completion.error is None for completion in completions] == [True, True, False, True, True]
    assert completions[2].text is None


def test_choice(engine: Engine, make_requests: MakeRequests) -> None:
    """A choice is one of its options, also where options begin alike or need more than the token limit."""
    options = ("Positively splendid", "Positively dreadful", "neither one nor the other")
    completions = answers(engine, make_requests(6, Parameters(max_tokens=1, constraint=Choice(options))))
    if engine.name.startswith("openai"):  # the endpoint cuts at max_tokens, which is the caller's to choose
        completions = answers(engine, make_requests(6, Parameters(max_tokens=32, constraint=Choice(options))))
    assert {completion.text for completion in completions} <= set(options)


def test_pattern(engine: Engine, make_requests: MakeRequests) -> None:
    """An answer under a regular expression matches it in full."""
    pattern = r"(?:10|[0-9](?:\.[0-9]{1,2})?)"
    completions = answers(engine, make_requests(6, Parameters(max_tokens=8, constraint=Regex(pattern))))
    assert all(re.fullmatch(pattern, completion.text or "") for completion in completions)


def test_schema(engine: Engine, make_requests: MakeRequests) -> None:
    """An answer under a JSON Schema is valid JSON of that shape."""
    constraint = JsonSchema(json.dumps(SCHEMA))
    for completion in answers(engine, make_requests(4, Parameters(max_tokens=64, constraint=constraint))):
        value = json.loads(completion.text or "")
        assert set(value) == {"title", "year"}
        assert 0 <= value["year"] <= 9


def test_two_threads_at_once(engine: Engine, make_requests: MakeRequests) -> None:
    """Two callers each get their own answers."""
    found: dict[int, list[int]] = {}

    def run(start: int) -> None:
        found[start] = [completion.id for completion in answers(engine, make_requests(15, start=start))]

    threads = [threading.Thread(target=run, args=(start,)) for start in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: list(range(15)), 100: list(range(100, 115))}


def test_token_count_and_names(engine: Engine) -> None:
    """Text has a plausible token count, the name tells the kind and the revision is stable."""
    assert 1 <= engine.count_tokens("a short sentence") <= 16
    assert engine.count_tokens("") == 0
    assert engine.name.split()[0] in {"fake", "local", "vllm", "openai", "anthropic"}
    assert engine.revision == engine.revision != ""


def test_shared_prefixes_are_reported(
    engine: Engine, make_requests: MakeRequests, request: pytest.FixtureRequest
) -> None:
    """Prompts with a long common start report cached tokens, fewer than they have."""
    if "fake" in request.node.callspec.id:
        pytest.skip("the fake engine's cache is off by default; see test_fake.py")
    if "anthropic" in request.node.callspec.id:
        pytest.skip("this start is below the floor; see anthropic/test_engine.py")
    list(engine.generate(iter(make_requests(4)), never))
    completions = answers(engine, make_requests(16, start=50))
    assert sum(completion.cached_tokens for completion in completions) > 0
    assert all(completion.cached_tokens < completion.prompt_tokens for completion in completions)
