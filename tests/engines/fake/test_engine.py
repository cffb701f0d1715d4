"""The deterministic engine: what its answers depend on, and what it can be made to do."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.options import read_options
from flightllm.errors import ConfigError, EngineUnavailableError
from flightllm.llm.engine import Choice, Completion, Constraint, JsonSchema, Parameters, Regex, Request

FIELDS = (("title", "Jaws"), ("year", "1975"), ("genre", "thriller"))


def request(fields: tuple[tuple[str, str], ...] = FIELDS, constraint: Constraint = None, number: int = 0) -> Request:
    """Make a request from fields."""
    body = "".join(f"{name}: {value}\n" for name, value in fields)
    return Request(
        number, f"Is it old?\n\n{body}", Parameters(constraint=constraint), "ai_filter", "Is it old?", fields
    )


def run(engine: FakeEngine, *requests: Request) -> list[Completion]:
    """Answer requests."""
    return list(engine.generate(iter(requests), lambda: False))


def text(one: Request) -> str | None:
    """Answer one request with a fresh engine."""
    return run(FakeEngine("fake", 4, FakeOptions()), one)[0].text


def numbered(count: int) -> list[Request]:
    """Make requests that differ in a number."""
    return [request((("n", str(number)),), number=number) for number in range(count)]


@given(st.permutations(FIELDS))
def test_field_order_changes_nothing(fields: list[tuple[str, str]]) -> None:
    """Any order of the same fields has the same answer."""
    assert text(request(tuple(fields))) == text(request())


def test_everything_else_changes_the_answer() -> None:
    """Function, instruction, field names, values and parameters each matter."""
    base = request()
    changed = [
        replace(base, function="ai_gen"),
        replace(base, instruction="Is it new?"),
        replace(base, parameters=Parameters(max_tokens=9)),
        request((("name", "Jaws"), *FIELDS[1:])),
        request((("title", "Alien"), *FIELDS[1:])),
    ]
    assert len({text(one) for one in [base, *changed]}) == 6


def test_choices_vary() -> None:
    """Over many rows every option is chosen, so filters keep some rows and drop some."""
    one = [replace(item, parameters=Parameters(constraint=Choice(("Yes", "No")))) for item in numbered(100)]
    chosen = [completion.text for completion in run(FakeEngine("fake", 4, FakeOptions()), *one)]
    assert 20 < chosen.count("Yes") < 80


@pytest.mark.parametrize("pattern", [r"-?[0-9]{1,3}", r"(?:10|[0-9])(?:\.[0-9]{1,2})?", r"[A-Z]{3}-\d{4}"])
def test_patterns_are_met(pattern: str) -> None:
    """Answers match the pattern in full, and differ."""
    one = [replace(item, parameters=Parameters(constraint=Regex(pattern))) for item in numbered(50)]
    texts = {completion.text or "" for completion in run(FakeEngine("fake", 4, FakeOptions()), *one)}
    assert all(re.fullmatch(pattern, found) for found in texts)
    assert len(texts) > 5


SCHEMAS: list[dict[str, object]] = [
    {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 1},
    {"type": "object", "properties": {"a": {"type": ["integer", "null"]}, "b": {"type": "boolean"}}, "required": ["a"]},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date"}}, "required": ["when"]},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"const": 7}]},
    {
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
        },
        "$ref": "#/$defs/node",
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_schemas_are_met(schema: dict[str, object]) -> None:
    """Answers are valid under the schema."""
    constraint = JsonSchema(json.dumps(schema))
    for item in numbered(30):
        jsonschema.validate(json.loads(text(request(item.fields, constraint)) or ""), schema)


@settings(max_examples=20)
@given(st.integers(2, 9))
def test_failing_rows_are_picked_by_content(every: int) -> None:
    """The same rows fail in any order, about one in n."""
    requests = numbered(200)

    def failed(order: list[Request]) -> set[int]:
        found = run(FakeEngine("fake", 4, FakeOptions(fail_every=every)), *order)
        return {completion.id for completion in found if completion.error and completion.text is None}

    assert failed(requests) == failed(requests[::-1])
    assert 0 < len(failed(requests)) < 200


def test_failing_by_text() -> None:
    """Prompts with the given text fail, alone."""
    found = run(FakeEngine("fake", 4, FakeOptions(fail_containing="n: 3\n")), *numbered(10))
    assert [completion.id for completion in found if completion.error] == [3]


@pytest.mark.parametrize("latency", [0.0, 1.0])
def test_dying(latency: float) -> None:
    """After n completions the engine is gone for good; those n stand."""
    engine = FakeEngine("fake", 4, FakeOptions(die_after=5, latency_ms=latency))
    stream = engine.generate(iter(numbered(20)), lambda: False)
    assert [next(stream).id for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(EngineUnavailableError, match=r"fake \(fake\) died after 5"):
        next(stream)
    with pytest.raises(EngineUnavailableError):
        run(engine, request())


def test_sent_counts_and_log(tmp_path: Path) -> None:
    """What was sent is counted, and logged where another process can read it."""
    path = tmp_path / "sent.jsonl"
    engine = FakeEngine("fake", 4, FakeOptions(log_path=str(path)))
    run(engine, *numbered(7))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert engine.sent == len(lines) == 7
    assert lines[3]["fields"] == [["n", "3"]]
    assert lines[3]["prompt"].endswith("n: 3\n")


def test_simulated_cache_rewards_order() -> None:
    """With few blocks, sorted prompts hit the cache more than shuffled ones, and a closed block counts 16 tokens."""
    groups = [
        [Request(0, f"{group}" * 640 + f"{row}", Parameters(), "f", "", ()) for row in range(8)] for group in range(6)
    ]
    ordered = [one for group in groups for one in group]
    mixed = [one for row in zip(*groups, strict=True) for one in row]
    hits = {}
    for name, requests in (("ordered", ordered), ("mixed", mixed)):
        found = run(FakeEngine("fake", 4, FakeOptions(cache_blocks=16)), *requests)
        hits[name] = sum(completion.cached_tokens for completion in found)
        assert all(completion.cached_tokens % 16 == 0 for completion in found)
    assert hits["ordered"] == 6 * 7 * 160 > hits["mixed"]


def test_closed_engine_refuses() -> None:
    """A closed engine raises instead of answering."""
    engine = FakeEngine("fake", 4, FakeOptions())
    engine.close()
    with pytest.raises(EngineUnavailableError, match="closed"):
        run(engine, request())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"latency": 3},
            "latency: unknown option.*valid options: cache_blocks.*of every engine: .*, except for a replica: .*price_",
        ),
        ({"latency_ms": "3"}, "expected float"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    """An unknown key or a wrong type is an error that says what is valid."""
    with pytest.raises(ConfigError, match=message):
        read_options(FakeOptions, "fake", options)
