"""Instructions and examples: how SQL gives them, where every format tells them, and what is refused.

References to fields in instructions, escapes, and names that are missing.
"""

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.errors import AICallError, FlightLLMError
from flightllm.functions.guidance import resolve_template
from flightllm.llm.prompt_formats import FORMATS, one_text
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
        ("ai_gen('q', examples => [('x', 'z')])", "input: x\nAnswer: z"),
        ("ai_gen('q', a, b, examples => [{'a': 'x', 'b': NULL, 'answer': 'z'}])", "a: x\nAnswer: z"),
        (
            "ai_gen('q', a, label => b, examples => [{'a': 'x', 'label': 'l', 'answer': 'z'}])",
            "a: x\nlabel: l\nAnswer: z",
        ),
        ("ai_translate(a, 'fr', examples => [make_array('Hi', 'Salut')])", "a: Hi\nAnswer: Salut"),
        ("ai_classify(a, ['u', 'v'], examples => [{'input': 'x', 'labels': ['v']}])", "a: x\nAnswer: v"),
        ("ai_classify(a, {1: 'low', 2: 'high'}, examples => [('x', 1)])", "a: x\nAnswer: 1"),
        ("ai_classify(a, ['true', 'false'], examples => [('x', true)])", "a: x\nAnswer: true"),
        ("ai_classify(a, ['u'], multi => true, examples => [('x', 'U')])", 'a: x\nAnswer: {"labels": ["u"]}'),
        (
            "ai_filter('Is {answer} right?', q, answer, examples => [{'q': 'x', 'answer': 'z', 'output': true}])",
            "q: x\nanswer: z\nAnswer: Yes",
        ),
        (
            "ai_filter('q', a, explanation, examples => [{'a': 'x', 'explanation': 'y', 'answer': true}])",
            "a: x\nexplanation: y\nAnswer: Yes",
        ),
        ("ai_gen('q', answer, examples => [({'answer': 'x'}, 'z')])", "answer: x\nAnswer: z"),
        ("ai_gen('q', a, \"A\", examples => [{'A': 'x', 'a': 'y', 'answer': 'z'}])", "A: x\na: y\nAnswer: z"),
        ('ai_gen(\'q\', a, examples => \'[{"a": "x", "answer": "z"}]\')', "a: x\nAnswer: z"),
        (
            "ai_score('q', a, low => -5, examples => [('x', (-5)), ('y', arrow_cast(3, 'Int32'))])",
            "Answer: -5\n\na: y\nAnswer: 3",
        ),
        ("ai_gen('q', a, instructions => 'Look at {a}. ' || 'Be brief.')", "Look at `a`. Be brief."),
        ("ai_filter('q', a, confidence => true, examples => [struct('x', false)])", "a: x\nAnswer: No"),
        ("ai_filter('q', a, examples => [('x', 'True')])", "a: x\nAnswer: Yes"),
        ("ai_score('q', a, high => 1, examples => [('x', .5), ('y', +.25), (-.5, 1)])", "a: y\nAnswer: 0.2"),
        ("ai_score('q', a, high => 1, examples => [('x', .5), ('y', +.25), (-.5, 1)])", "a: -0.5\nAnswer: 1"),
    ],
)
def test_examples(expression: str, told: str) -> None:
    """An example has the call's fields and its answer as the model must write it, in all spellings."""
    assert told in call(expression).instruction


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            "examples => [('x', 'maybe')]",
            r"examples\[1\]: 'maybe' cannot be an answer of this call; expected one of Yes, No, true or false\.",
        ),
        ("examples => [('x', true), ('y', 1)]", r"examples\[2\]: '1' cannot be an answer of this call"),
        (
            "examples => [{'titel': 'x', 'answer': true}]",
            r"has 'titel', which is not a field of the call \(fields: a\)",
        ),
        ("examples => [{'answer': true}]", r"examples\[1\] has only an answer; add a"),
        ("examples => [{'a': 'x'}]", r"examples\[1\] must be such as"),
        ("examples => [{'a': 'x', 'answer': NULL}]", r"examples\[1\] must be such as"),
        ("examples => ['x']", r"examples\[1\] must be such as"),
        ("examples => 'x'", r"examples is a text that is not JSON \(Expecting value at character 1\)"),
        ("examples => '3'", "examples must be a list such as"),
        ("examples => [('x', NULL), ('y', true)]", r"examples\[1\] has NULL as its answer"),
        ("examples => [(DATE '2024-12-31', true)]", "write DATE '2024-12-31' as '2024-12-31'"),
        ("calibrate => 'on'", "calibrate must be one of 'examples', 'batch', 'off', not 'on'"),
        ("multi => true", "unknown option multi"),
        (
            "examples => [('x', 'y' || b)]",
            "examples must be a constant of numbers, true, false and texts in single quotes",
        ),
        ("examples => ('x', true)", "examples must be a list: write brackets around the examples"),
        ("examples => [{'a': 'x', 'A': 'y', 'answer': true}]", r"examples\[1\] names a field twice"),
        ("instructions => 'Look at {c} and {d}.'", r"the prompt names \{c\}, which is not a field"),
        ("instructions => 3", "instructions must be a text literal"),
        ("instruction => 'Be kind'", "unknown option instruction; did you mean instructions"),
        ("task_description => 'Be kind'", "unknown option task_description; did you mean instructions"),
    ],
)
def test_refused(options: str, error: str) -> None:
    """What cannot be told is an error that names the example."""
    with pytest.raises(FlightLLMError, match=error):
        call(f"ai_filter('Is it so?', a, {options})")


@pytest.mark.parametrize("value", ["'Off'", "'OFF'", "false"])
def test_choices_in_any_case(value: str) -> None:
    """An option of a few words takes them in any case, and `false` for `off`."""
    examples = "examples => [('x', true), ('y', false)]"
    assert call(f"ai_filter('q', a, {examples}, calibrate => {value})").labelled is None


def test_a_rating_between_two_numbers() -> None:
    """An example's rating between two numbers counts as the nearer one; one beyond the scale is refused."""
    assert "a: x\nAnswer: 7" in call("ai_score('q', a, examples => [('x', 7.2), ('y', 1)])").instruction
    with pytest.raises(
        FlightLLMError, match=r"'10.5' cannot be an answer of this call; expected a number from 0 to 10"
    ):
        call("ai_score('q', a, examples => [('x', 10.5), ('y', 1)])")


@pytest.mark.parametrize("option", ["min => 1", "max => 5", "max_score => 5", "scale => 5", "minimum => 1"])
def test_other_names_of_a_range(option: str) -> None:
    """The names that people guess for a score's range are refused with the right one; elsewhere they are fields."""
    with pytest.raises(FlightLLMError, match=r"unknown option .*; did you mean (low|high)"):
        call(f"ai_score('x', a, {option})")
    assert len(call(f"ai_gen('x', a, {option})").fields) == 2


def test_several_fields_need_names() -> None:
    """A bare text is no example where a call has several fields."""
    with pytest.raises(FlightLLMError, match=r"name each one: \{'a': …, 'b': …, 'answer': …\}"):
        call("ai_filter('q', a, b, examples => [('x', true)])")
    with pytest.raises(FlightLLMError, match=r"must be such as \{'question': 'a value', 'answer': 'a value', 'answer'"):
        call("ai_filter('q', question, answer, examples => [{'question': 'x', 'answer': true}])")


@pytest.mark.parametrize(
    ("example", "missing"),
    [
        ("{'a': 'x', 'answer': true}", r"examples\[1\] lacks 'b'; add 'b': 'a value', or NULL for no value"),
        ("({'B': 'x'}, true)", "lacks 'a'; add 'a'"),
    ],
)
def test_a_field_that_an_example_lacks(example: str, missing: str) -> None:
    """An example that leaves a field out is an error that names the field."""
    with pytest.raises(FlightLLMError, match=missing):
        call(f"ai_filter('q', a, b, examples => [{example}])")


def test_examples_beside_a_star(tmp_path: Path) -> None:
    """An example can leave out columns that a star passes, as prompts leave out NULL columns."""
    sql = "SELECT ai_filter('q', p.*, examples => [{'note': 'x', 'answer': true}]) AS a FROM people p WHERE id = 1"
    with closing(small_database(tmp_path)) as database, closing(database.session()) as session:
        assert ask(session, sql).rows[0]["a"] in {True, False, None}


def test_bound_values(tmp_path: Path) -> None:
    """Labels, examples and numbers can be bound, as lists of structs too."""
    labels = pa.array([[{"label": "x", "description": "An x"}, {"label": "y", "description": None}]])
    examples = pa.array([[{"input": "a text", "answer": "x"}]])
    bound = pa.record_batch({"1": labels, "2": examples, "3": pa.array([-5.0])})
    sql = (
        "SELECT ai_classify(note, $1, examples => $2) AS kind, ai_score('q', note, low => $3, high => 0) AS score"
        " FROM people WHERE id = 1"
    )
    with closing(small_database(tmp_path)) as database, closing(database.session()) as session:
        [row] = ask(session, sql, bound).rows
    assert row["kind"] in {"x", "y"}
    assert -5 <= row["score"] <= 0


def test_a_column_under_an_options_name_is_a_field() -> None:
    """Only constants are options: a column named like one is a field, as is a name that the prompt has in braces."""
    assert call("ai_gen('x', examples => b, instructions => c)").fields == ("examples", "instructions")
    assert call("ai_gen('x {instructions}', instructions => 'abc')").fields == ("instructions",)


def test_in_a_query(tmp_path: Path) -> None:
    """A query with examples, meanings and an anchor runs as written, and another example is another question."""
    with closing(small_database(tmp_path)) as database, closing(database.session()) as session:
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


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("Is {review} good?", "Is `review` good?"),
        ("Is { Review } good?", "Is `review` good?"),
        ("{0} and {1}", "`review` and `Movie Info`"),
        ("{Movie Info}", "`Movie Info`"),
        ("{{review}} {review}", "{review} `review`"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{} {'x'}", "{} {'x'}"),
        ("{ } {\na\n b}", "{ } {\na\n b}"),
        ("{\treview\n}", "`review`"),
        ("plain", "plain"),
    ],
)
def test_references(template: str, expected: str) -> None:
    """A name in braces becomes a reference, never a value; other braces stay."""
    assert resolve_template(template, ["review", "Movie Info"]) == expected


def test_missing_name() -> None:
    """A missing name is reported with the fields there are and the nearest."""
    with pytest.raises(AICallError, match=r"\{reviw\}.*fields: review, title.*did you mean \{review\}"):
        resolve_template("Is {reviw} good?", ["review", "title"])
    with pytest.raises(AICallError, match="has no fields"):
        resolve_template("Is {x} good?", [])


@pytest.mark.parametrize(
    ("template", "fields", "expected"),
    [
        (
            "Given {movie information} and {review}, {movie information}?",
            ["movie_info", "review_content"],
            "Given `movie_info` and `review_content`, `movie_info`?",
        ),
        ("{film} {x}", ["x", "title"], "`title` `x`"),
        ("{film} {0}", ["x", "title"], "`title` `x`"),
        ("{Film} {opinion} {film}", ["a", "b"], "`a` `b` `a`"),
        ("{{film}} {opinion}", ["a"], "{film} `a`"),
        ("{film}", ["a", "b"], "`a`"),
    ],
)
def test_names_by_position(template: str, fields: list[str], expected: str) -> None:
    """Names of no field mean, in their order, the fields that nothing else in the prompt refers to."""
    assert resolve_template(template, fields) == expected


@pytest.mark.parametrize(
    ("template", "fields", "message"),
    [
        ("{film} {opinion}", ["a"], r"\{film\}.*fields: a"),
        ("{film} {x}", ["x"], r"\{film\}.*fields: x"),
        ("{film} {0} {opinion}", ["x", "title"], r"\{film\}"),
        ("{5}", ["x"], r"\{5\}"),
        ("{movie_inof}", ["movie_info"], r"did you mean \{movie_info\}"),
        ("{nmae}", ["name"], r"did you mean \{name\}"),
        ("{titel} {x}", ["x", "y", "title"], r"did you mean \{title\}"),
        ("{film} {review}", ["title", "review_text"], r"did you mean \{review_text\}"),
    ],
)
def test_names_of_nothing(template: str, fields: list[str], message: str) -> None:
    """Too many names, a number that is none, and a field's name misspelt or nearer to another are errors."""
    with pytest.raises(AICallError, match=message):
        resolve_template(template, fields)


@pytest.mark.parametrize("template", ["{" + " " * 100_000, "{a" * 100_000, "{" + "a " * 100_000 + "'}"])
def test_braces_without_end(template: str) -> None:
    """A brace that nothing closes is read once: blanks after it could be divided in as many ways as their cube."""
    assert resolve_template(template, ["a"]) == template


def test_long_missing_names() -> None:
    """A name of a megabyte is not compared with another in full."""
    name = "".join(map(chr, range(0x4E00, 0x5200))) * 200
    with pytest.raises(AICallError, match="is not a field of the call"):
        resolve_template(f"{{{name}}} {{b}}", [name[::-1]])
    assert resolve_template(f"{{{name}}}", [name[::-1]]) == f"`{name[::-1]}`"
