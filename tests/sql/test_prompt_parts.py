"""Prompts that SQL joins from texts and values: which texts are told to the model, and which fields there are."""

import re

import pytest

from flightllm.errors import AICallError
from flightllm.functions import FunctionRegistry
from flightllm.functions.bind import AnyNames
from flightllm.sql.calls import Extracted, extract_calls
from flightllm.sql.parsed_text import ParsedText

REGISTRY = FunctionRegistry.load()
TABLES: dict[str, list[str]] = {}


def extract(call: str) -> Extracted:
    """Extract the calls of an expression over one table."""
    return extract_calls(ParsedText(f"SELECT {call} FROM t"), REGISTRY, TABLES.__getitem__, names=AnyNames())


def read(call: str) -> tuple[str, tuple[str, ...], str]:
    """Return the instruction of the outermost call, its fields, and their SQL."""
    found = extract(call)
    stub = found.sql.removeprefix("SELECT ").partition("(")[0]
    sql = re.sub(
        r"__(\w+?)_[0-9a-f]{16}\(", r"<\1>(", found.sql.removeprefix(f"SELECT {stub}(").removesuffix(") FROM t")
    )
    return found.calls[stub].instruction, found.calls[stub].fields, sql


@pytest.mark.parametrize(
    ("prompt", "instruction", "fields", "sql"),
    [
        ("concat('Explain ', s, ' well')", "Explain `s` well", ("s",), "concat(s)"),
        ("'Explain ' || s || ' well'", "Explain `s` well", ("s",), "s"),
        ("('Explain ' || (s))", "Explain `s`", ("s",), "s"),
        ("'From ' || t.a || ' to ' || b || ' and ' || t.a", "From `a` to `b` and `a`", ("a", "b"), "t.a, b"),
        ("concat('Say ', lower(a), b)", "Say `field1``b`", ("field1", "b"), "concat(lower(a)), concat(b)"),
        ("concat('Say ', a || 'x', 'y' || 'z')", "Say `field1`yz", ("field1",), "concat(a || 'x')"),
        ("'Say ' || concat('it ', a) || b", "Say it `a``b`", ("a", "b"), "concat(a), b"),
        ("concat('Say ', NULL, 5, -3, true, 1.5)", "Say 5-3true`field1`", ("field1",), "concat(1.5)"),
        ("'Say ' || NULL", "Say `field1`", ("field1",), "NULL"),
        ("'Say ' || CAST('it' AS VARCHAR) || ' to '::text || a::text", "Say it to `field1`", ("field1",), "a::text"),
        ("'It''s ' || E'a\\nb ' || $$c$$ || s", "It's a\nb c`s`", ("s",), "s"),
        ("'{s} {{x}} {0} ' || s", "{s} {{x}} {0} `s`", ("s",), "s"),
        ("concat_ws(', ', 'Say', a, NULL, b)", "Say, `a`, `b`", ("a", "b"), "concat(a), concat(b)"),
        (
            "'Say ' || CASE WHEN x THEN 'p' || q END || (SELECT max('a' || b) FROM u)",
            "Say `field1``field2`",
            ("field1", "field2"),
            "CASE WHEN x THEN 'p' || q END, (SELECT max('a' || b) FROM u)",
        ),
        ("'Say ' || DATE '2024-01-01' || count(*) OVER () || t.x[1]", "Say `field1``field2``field3`",
         ("field1", "field2", "field3"), "DATE '2024-01-01', count(*) OVER (), t.x[1]"),
        ("'Say ' || $1 || ' of ' || a", "Say `field1` of `a`", ("field1", "a"), "$1, a"),
        ("'Reply to ' || ai_summarize(a)", "Reply to `field1`", ("field1",), "<ai_summarize>(a)"),
        ("PROMPT('Explain {0} to {1}', s, r)", "Explain `s` to `r`", ("s", "r"), "s, r"),
        ("PROMPT('Explain ' || '{0} to {r}', lower(s), r)", "Explain `field1` to `r`", ("field1", "r"), "lower(s), r"),
        ("'Explain ' || 'it'", "Explain it", (), "''"),
        ("'Explain {x} ' || 'it'", "Explain {x} it", (), "''"),
    ],
)  # fmt: skip
def test_parts(prompt: str, instruction: str, fields: tuple[str, ...], sql: str) -> None:
    """The texts are the instruction, as they are; each value is a field, empty for NULL where SQL makes it so."""
    assert read(f"ai_gen({prompt})") == (instruction, fields, sql)
    assert read(f"ai_complete('m', {prompt})") == (instruction, fields, sql)


@pytest.mark.parametrize(
    "prompt",
    [
        "a || ': ' || b",
        "concat(a, ' 1 ', b)",
        "'Say ' || a + 1",
        "'Say ' || a = b",
        "'Say ' || a LIKE b",
        "'Say ' || - a",
        "concat_ws(a, 'Say', b)",
        "CAST(concat('Say ', a) AS VARCHAR)",
        "lower('Say ' || a)",
        "('Say')",
    ],
)
def test_whole(prompt: str) -> None:
    """What joins no texts that tell something stays one field, and so does what other operators bind."""
    assert read(f"ai_gen({prompt})") == ("Do what `prompt` says.", ("prompt",), prompt)


def test_same_as_a_template() -> None:
    """A call whose prompt SQL joins is the call of the literal prompt that names the fields."""
    joined, named = extract("ai_gen('Explain ' || s || '.')"), extract("ai_gen('Explain {s}.', s)")
    assert joined == named
    assert read("ai_filter(concat('Is ', s, ' good?'))")[0].startswith("Is `s` good?\n\nAnswer Yes if")
    assert read("ai_score(prompt => 'Rate ' || s, low => 1)")[0].startswith("Rate `s`\n\nAnswer with a number from 1")


def test_further_fields() -> None:
    """Further fields follow; a prompt of texts alone refers to them, but braces beside a value mean nothing."""
    assert read("ai_gen('Given {a} ' || 'say', a)") == ("Given `a` say", ("a",), "a")
    assert read("ai_gen('Given {a} ' || b, a)") == ("Given {a} `b`", ("b", "a"), "b, a")
    assert read("ai_gen(PROMPT('Is {0}?', b), a)") == ("Is `b`?", ("b", "a"), "b, a")
    assert read("ai_gen('x', 'Say ' || a)") == ("x", ("field1",), "'Say ' || a")


def test_deep_nesting() -> None:
    """Joined prompts inside of each other are read once each, to any depth that calls can have."""
    call = "a"
    for _ in range(31):
        call = f"ai_gen('Say ' || {call})"
    assert len(extract(call).calls) == 2
    assert read(f"ai_gen('Say ' || {'concat(' * 90}a{')' * 90})")[0] == "Say `field1`"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ai_classify(PROMPT('a'), ['x'])", "PROMPT.* can only be the prompt of an AI function"),
        ("ai_gen('x', PROMPT('a {0}', b))", "PROMPT.* can only be the prompt of an AI function"),
        ("ai_gen(PROMPT('a {0}', PROMPT('b')))", "PROMPT.* can only be the prompt of an AI function"),
        ("ai_gen(PROMPT(a, b))", "PROMPT takes a text literal first"),
        ("ai_gen(PROMPT())", "PROMPT takes a text literal first"),
        ("ai_gen(PROMPT('a {1}', b))", r"names \{1\}, which is not a field"),
        ("ai_gen(PROMPT('a', temprature => 1))", "did you mean temperature"),
        ("ai_gen(" + "PROMPT('a', " * 40 + "b" + ")" * 41, "nested more than 32 deep"),
    ],
)
def test_refused(call: str, message: str) -> None:
    """PROMPT elsewhere, or without a text, is an error."""
    with pytest.raises(AICallError, match=message):
        extract(call)
