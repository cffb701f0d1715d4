"""The shipped functions: signature, instruction, type and parser of each."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.functions import Choice, FunctionRegistry, JsonSchema
from flightllm.functions.bind import AnyNames
from flightllm.functions.call import AICall
from flightllm.llm.prompt_formats import INSTRUCT, messages
from flightllm.sql.calls import extract_calls
from flightllm.sql.parsed_text import ParsedText

REGISTRY = FunctionRegistry.load()


def call(expression: str) -> AICall:
    """Return the only call of an expression."""

    def no_columns(_: str) -> Sequence[str]:
        return []

    (found,) = extract_calls(
        ParsedText(f"SELECT {expression} FROM t"), REGISTRY, no_columns, names=AnyNames()
    ).calls.values()
    return found


@pytest.mark.parametrize(
    ("expression", "type_", "answer", "value"),
    [
        ("ai_gen('x', a)", pa.string(), " hi ", "hi"),
        ("ai_gen('x', a, response_format => ['n'])", pa.struct([("n", pa.string())]), '{"n": "v"}', {"n": "v"}),
        ("ai_filter('x', a)", pa.bool_(), "Yes", True),
        ("ai_classify(a, ['u', 'v'])", pa.string(), "V", "v"),
        ("ai_classify(a, ['u', 'v'], multi => true)", pa.list_(pa.string()), '{"labels": ["v", "u"]}', ["u", "v"]),
        ("ai_classify(a, ['u', 'v'], multi => true)", pa.list_(pa.string()), '{"labels": []}', []),
        ("ai_score('x', a)", pa.float64(), "7", 7.0),
        ("ai_rank('x', a)", pa.float64(), "93", 7.0),
        ("ai_compare('x', a, b)", pa.string(), "Second", "second"),
        ("ai_extract(a, ['n'])", pa.struct([("n", pa.string())]), '{"n": null}', {"n": None}),
        ("ai_summarize(a)", pa.string(), "s", "s"),
        ("ai_translate(a, 'fr')", pa.string(), "s", "s"),
        ("ai_fix_grammar(a)", pa.string(), "s", "s"),
        ("ai_mask(a, ['person'])", pa.string(), "[MASKED]", "[MASKED]"),
        ("ai_sentiment(a)", pa.string(), "Mixed", "mixed"),
    ],
)
def test_answers(expression: str, type_: pa.DataType, answer: str, value: Any) -> None:
    """Each function has its type, and its parser makes values of it."""
    found = call(expression)
    assert found.type == type_
    assert found.parse(answer) == value
    assert pa.array([value], type=found.output).to_pylist() == [value]


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("ai_filter('x', a)", "Yes and no"),
        ("ai_classify(a, ['u', 'v'])", "w"),
        ("ai_classify(a, ['u', 'v'], multi => true)", '{"labels": ["w"]}'),
        ("ai_score('x', a)", "11"),
        ("ai_rank('x', a)", "101"),
        ("ai_compare('x', a, b)", "neither"),
        ("ai_extract(a, ['n'])", "{}"),
        ("ai_sentiment(a)", "fine"),
    ],
)
def test_wrong_answers(expression: str, answer: str) -> None:
    """An answer outside of what was asked for is refused."""
    with pytest.raises(ValueError, match="expected"):
        call(expression).parse(answer)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("llm('x {a}', a)", "ai_gen('x {a}', a)"),
        ("ai_if('x', a)", "ai_filter('x', a)"),
        ("ai_complete('m', 'x', a)", "ai_gen('x', a, model => 'm')"),
        ("ai_query('m', 'x')", "ai_gen('x', model => 'm')"),
        ("ai_classify(labels => ['u'], input => a)", "ai_classify(a, ARRAY['u'])"),
        ("ai_classify(a, make_array('u'))", "ai_classify(a, ['u'])"),
    ],
)
def test_spellings(alias: str, name: str) -> None:
    """Aliases, named parameters and the spellings of a list mean the same call."""
    assert call(alias) == call(name)


def test_constraints() -> None:
    """Choices and schemas reach the engine."""
    assert call("ai_filter('x', a)").parameters.constraint == Choice(("Yes", "No"))
    assert call("ai_score('x', a, low => 1, high => 5)").parameters.constraint == Choice(("1", "2", "3", "4", "5"))
    assert isinstance(call("ai_extract(a, ['n'])").parameters.constraint, JsonSchema)


def test_common_options() -> None:
    """Every function takes model, max_tokens, temperature and on_error."""
    found = call("ai_sentiment(a, model => 'm', max_tokens => 3, temperature => 0.5, on_error => 'struct')")
    assert (found.model, found.parameters.max_tokens, found.parameters.temperature) == ("m", 3, 0.5)
    assert found.type == pa.struct([("value", pa.string()), ("error", pa.string())])


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("no", "Norwegian"),
        ("it", "Italian"),
        ("EN", "English"),
        ("en_XX", "English"),
        ("pt-BR", "Portuguese (BR)"),
        ("zh-Hant", "Chinese (Hant)"),
        ("fr-CA", "French (CA)"),
        ("qq", "qq"),
        ("Old Norse", "Old Norse"),
    ],
)
def test_translate_names_the_language_of_a_code(code: str, name: str) -> None:
    """The prompt has the language of a code: a model reads a bare `no` as a word."""
    found = call(f"ai_translate(a, '{code}')")
    assert f"into this language: {name}." in found.instruction


@pytest.mark.parametrize(
    "name", ["ai_translate(a, 'am'", "ai_mask(a, ['person']", "ai_fix_grammar(a", "ai_summarize(a"]
)
def test_room_for_answers(name: str) -> None:
    """An answer as long as the text has room for it, at a token a byte; `max_tokens` says otherwise."""
    long = [("a", "x" * 4_000)]
    assert (call(f"{name})").max_tokens(long) or 0) >= (400 if "summarize" in name else 4_000)
    assert call(f"{name}, max_tokens => 9)").max_tokens(long) is None
    assert call(f"{name}, max_tokens => 9)").parameters.max_tokens == 9


def test_values_stay_out_of_the_instruction() -> None:
    """Expressions are fields, also a prompt or language that is no literal; the instruction only refers to them."""
    assert call("ai_gen(lower(a))").fields == ("prompt",)
    joined = call("ai_gen('Sum up: ' || a)")
    assert (joined.instruction, joined.fields) == ("Sum up: `a`", ("a",))
    translate = call("ai_translate(a, b)")
    assert translate.fields == ("a", "b")
    assert "`b`" in translate.instruction


def test_a_long_list_of_labels_is_said_once() -> None:
    """All labels stand in the system message, which the rows share, with their meanings; a row adds its value alone."""
    labels = {f"a label of words {n}": "its meaning" if n % 2 else None for n in range(40)}
    given = ", ".join(f"'{one}': {'NULL' if meaning is None else repr(meaning)}" for one, meaning in labels.items())
    asked = call(f"ai_classify(a, {{{given}}}, other => 'none')")
    [system, user] = messages(asked.prompt([("a", "x")], prompt_format=INSTRUCT))
    lines = system["content"].split("\n")
    assert lines.count("- a label of words 7: its meaning") == lines.count("- a label of words 8") == 1
    assert lines.count("- none") == 1
    assert lines[-1] == "Answer with the one label that fits the record best. If no label fits, answer none."
    assert user["content"] == "a: x"


def test_a_short_list_of_labels_is_repeated() -> None:
    """After the value stand the question and the labels again."""
    [_, user] = messages(call("ai_classify(a, ['red', 'blue'])").prompt([("a", "x")], prompt_format=INSTRUCT))
    assert user["content"] == "a: x\n\nWhich label fits the record best?\nAnswer with one of these labels: red, blue."


def test_count_tokens() -> None:
    """`ai_count_tokens` counts with the engine's tokenizer; NULL stays NULL."""
    (function,) = (scalar for scalar in REGISTRY.scalars() if scalar.name == "ai_count_tokens")
    engine = create_engine(EngineConfig(kind="fake"))
    counts = function.bind(engine)(pa.array(["a b c", None, "a b c", "d"]))
    assert counts.to_pylist() == [
        engine.count_tokens("a b c"),
        None,
        engine.count_tokens("a b c"),
        engine.count_tokens("d"),
    ]


def test_signatures() -> None:
    """Signatures say what a call takes, in the order of each name."""
    gen = REGISTRY.get("ai_complete")
    assert gen is not None
    assert gen.signature("ai_complete").startswith("ai_complete(model, prompt [, field…] [, response_format =>")
    assert all(function.summary and function.returns for function in REGISTRY)
