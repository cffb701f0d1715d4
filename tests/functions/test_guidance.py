"""Instructions and examples: how SQL gives them, where every format tells them, and what is refused."""

from pathlib import Path

import pytest

from flightllm.errors import FlightLLMError
from flightllm.llm.formats import FORMATS, one_text
from tests.databases import ask, small_database
from tests.udfs.test_shipped_functions import call


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("fields_first", [False, True])
def test_told_once_in_every_format(name: str, fields_first: bool) -> None:
    """Each format tells instructions and examples once, and together with the question."""
    found = call("ai_filter('Is it so?', a, instructions => 'Be strict.', examples => [('So.', true), ('No.', 'no')])")
    prompt = found.prompt([("a", "VALUE")], fields_first=fields_first, prompt_format=FORMATS[name])
    told = "Be strict.\n\nExamples:\n\na: So.\nAnswer: Yes\n\na: No.\nAnswer: No"
    assert one_text(prompt).count(told) == 1
    assert (one_text(prompt).index("VALUE") < one_text(prompt).index(told)) is fields_first


@pytest.mark.parametrize("name", FORMATS)
def test_shared_by_all_rows(name: str) -> None:
    """With the instruction first, the prompts of two rows begin alike up to the values."""
    found = call("ai_score('Good?', a, instructions => 'Be strict.', examples => [('So.', 7)])")
    first, second = (one_text(found.prompt([("a", v)], prompt_format=FORMATS[name])) for v in ("VALUE", "OTHER"))
    assert first[: first.index("VALUE")] == second[: second.index("OTHER")]
    assert "Answer: 7" in first[: first.index("VALUE")]


def test_nothing_given_changes_nothing() -> None:
    """Without either option, or with empty ones, the call asks what it asked before."""
    for given in ("instructions => NULL", "instructions => ' '", "examples => []", "examples => NULL"):
        assert call(f"ai_gen('x', a, {given})") == call("ai_gen('x', a)")


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("ai_classify(a, ['u', 'v'], examples => [('x', 'V')])", "a: x\nAnswer: v"),
        ("ai_classify(a, ['u'], other => 'none', examples => [('x', 'none')])", "a: x\nAnswer: none"),
        (
            "ai_classify(a, ['u', 'v'], multi => true, examples => [('x', ['v', 'u']), ('y', [])])",
            'a: x\nAnswer: {"labels": ["u", "v"]}\n\na: y\nAnswer: {"labels": []}',
        ),
        ("ai_classify(a, ['u', 'v'], examples => [{'input': 'x', 'label': 'u'}])", "a: x\nAnswer: u"),
        ("ai_score('q', a, examples => [('x', 7.0), ('y', '8')])", "a: x\nAnswer: 7\n\na: y\nAnswer: 8"),
        ("ai_score('q', a, low => 0, high => 1, examples => [('x', 0.5)])", "a: x\nAnswer: 0.5"),
        ("ai_score('q', a, low => 0, high => 999, examples => [('x', 12.5)])", "a: x\nAnswer: 12.5"),
        ("ai_sentiment(a, examples => [('x', 'mixed', 'Both are there.')])", "Answer: mixed\nReason: Both are there."),
        ("ai_extract(a, ['city'], examples => [('Rome?', {'city': 'Rome'})])", 'a: Rome?\nAnswer: {"city": "Rome"}'),
        ("ai_gen('q', a, b, examples => [{a: 1, 'B': 'y', 'answer': 'z'}])", "a: 1\nb: y\nAnswer: z"),
        ("ai_gen('q', a, examples => [({'a': NULL, 'input': 'y'}, 'one\ntwo')])", "a: y\nAnswer: one\n  two"),
        ("ai_gen('q', examples => [{'answer': 'z'}])", "Examples:\n\nAnswer: z"),
        (
            "ai_gen('q', a, label => b, examples => [{'a': 'x', 'label': 'l', 'answer': 'z'}])",
            "a: x\nlabel: l\nAnswer: z",
        ),
        ("ai_translate(a, 'fr', examples => [make_array('Hi', 'Salut')])", "a: Hi\nAnswer: Salut"),
        ("ai_filter('q', a, confidence => true, examples => [struct('x', false)])", "a: x\nAnswer: No"),
    ],
)
def test_examples(expression: str, told: str) -> None:
    """An example has the call's fields and its answer as the model must write it, in all spellings."""
    assert told in call(expression).instruction


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("examples => [('x', 'maybe')]", r"examples\[1\]: no answer of this call is 'maybe'; expected one of Yes, No"),
        ("examples => [('x', true), ('y', 1)]", r"examples\[2\]: no answer of this call is 1"),
        ("examples => [{'titel': 'x', 'answer': true}]", r"has 'titel', which is no field of the call \(fields: a\)"),
        ("examples => [{'answer': true}]", r"examples\[1\] has an answer alone; add a"),
        ("examples => [{'a': 'x'}]", r"examples\[1\] must be such as"),
        ("examples => [{'a': 'x', 'answer': NULL}]", r"examples\[1\] must be such as"),
        ("examples => ['x']", r"examples\[1\] must be such as"),
        ("examples => 'x'", "examples must be a list such as"),
        ("instructions => 3", "instructions must be a text literal"),
        ("instruction => 'Be kind'", "unknown option instruction; did you mean instructions"),
        ("task_description => 'Be kind'", "unknown option task_description; did you mean instructions"),
    ],
)
def test_refused(options: str, error: str) -> None:
    """What cannot be told is an error that names the example."""
    with pytest.raises(FlightLLMError, match=error):
        call(f"ai_filter('Is it so?', a, {options})")


def test_a_column_under_an_options_name_is_a_field() -> None:
    """Only constants are options: a column named like one is a field, as is a name that the prompt has in braces."""
    assert call("ai_gen('x', examples => b, instructions => c)").fields == ("examples", "instructions")
    assert call("ai_gen('x {instructions}', instructions => 'abc')").fields == ("instructions",)


def test_in_a_query(tmp_path: Path) -> None:
    """A query with examples, meanings and an anchor runs as written, and another example is another question."""
    database = small_database(tmp_path)
    try:
        session = database.session()
        sql = (
            "SELECT id, ai_classify(note, {'food': 'Something to eat', 'drink': NULL}, other => 'none', instructions =>"
            " 'Look for nouns.', examples => [('Tea', 'drink'), {'input': 'Bread', 'answer': 'food'}]) AS kind,"
            " ai_score('Tasty?', note, anchors => {0: 'not at all', 10: 'very'}) AS score FROM people"
        )
        found = ask(session, sql)
        assert {row["kind"] for row in found.rows} <= {"food", "drink", "none", None}
        assert all(row["score"] is None or 0 <= row["score"] <= 10 for row in found.rows)
        assert found.calls > 0
        assert ask(session, sql, cache="on").rows == found.rows
        asked = ask(session, sql.replace("'Tea'", "'Milk'"), cache="on").calls
        assert 0 < asked < found.calls
        session.close()
    finally:
        database.close()
