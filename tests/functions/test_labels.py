"""Labels with what they mean, `other`, and anchors of a score: the forms in SQL, what is told, what is refused."""

from contextlib import closing
from pathlib import Path

import pytest

from flightllm.errors import AICallError, FlightLLMError
from flightllm.functions import Choice
from flightllm.functions.base import Entries, Literal
from flightllm.functions.labels import read_labels, read_meanings, read_names
from flightllm.llm.prompt_formats import FORMATS, one_text
from tests.databases import ask, small_database
from tests.udfs.test_shipped_functions import call
from tests.using_engines import Scripted, using

DESCRIBED = Entries((("bug", "It is broken"), ("other", None)))


@pytest.mark.parametrize(
    "labels",
    [
        "{'bug': 'It is broken', 'other': NULL}",
        "{bug: 'It is broken', other: NULL}",
        "MAP {'bug': 'It is broken', 'other': NULL}",
        "MAP(['bug', 'other'], ['It is broken', NULL])",
        "MAP('bug', 'It is broken', 'other', NULL)",
        "named_struct('bug', 'It is broken', 'other', NULL)",
        "{'bug': {'description': 'It is broken'}, 'other': {}}",
        "[('bug', 'It is broken'), 'other']",
        "[struct('bug', 'It is broken'), arrow_cast('other', 'LargeUtf8')]",
        "[{'label': 'bug', 'description': 'It is broken'}, {'label': 'other'}]",
        """'{"bug": "It is broken", "other": null}'""",
        """'[{"label": "bug", "description": "It is broken"}, "other"]'""",
    ],
)
def test_forms(labels: str) -> None:
    """Each spelling of labels with meanings is the same call, and its answer is one of the labels."""
    found = call(f"ai_classify(a, {labels})")
    assert found.instruction == call("ai_classify(a, {'bug': 'It is broken', 'other': NULL})").instruction
    assert "- bug: It is broken" in found.instruction
    assert found.parameters.constraint == Choice(("bug", "other"))


@pytest.mark.parametrize(
    "labels", ["""'["u", "v"]'""", "{'u': NULL, 'v': ''}", "ARRAY('u', 'v')", "arrow_cast(['u', 'v'], 'List(Utf8)')"]
)
def test_plain_labels_are_told_as_ever(labels: str) -> None:
    """Labels without meanings, in any form, are the call that a list of texts makes."""
    found = call(f"ai_classify(a, {labels})")
    assert found == call("ai_classify(a, ['u', 'v'])")
    assert found.parse("V") == "v"
    assert found.instruction == "Classify what follows. Answer with the one label that fits best: u, v"


@pytest.mark.parametrize("name", FORMATS)
def test_meanings_are_told_once(name: str) -> None:
    """Every format tells what labels mean before the fields, where all prompts of the call share it."""
    found = call("ai_classify(a, {'bug': 'It is broken', 'money': 'It is about money'})")
    prompt = one_text(found.prompt([("a", "VALUE")], prompt_format=FORMATS[name]))
    assert prompt.count("- bug: It is broken\n- money: It is about money") == 1
    assert prompt.index("It is about money") < prompt.index("VALUE")


def test_examples_of_a_label() -> None:
    """Examples beside a label are told with what it means."""
    found = call("ai_classify(a, [{'label': 'bug', 'description': 'Broken', 'examples': ['it crashed']}, 'other'])")
    assert "- bug: Broken (for example: it crashed)" in found.instruction


def test_numbers_as_labels() -> None:
    """Numbers are labels too, as texts."""
    assert call("ai_classify(a, [1, 2])") == call("ai_classify(a, ['1', '2'])")


def test_other() -> None:
    """`other` is one more option for what no label fits, also with confidence, and no new one if it is a label."""
    found = call("ai_classify(a, ['u', 'v'], other => 'none')")
    assert found.parameters.constraint == Choice(("u", "v", "none"))
    assert found.parse("none") == "none"
    assert "If no label fits, answer none." in one_text(found.prompt([("a", "x")], prompt_format=FORMATS["fenced"]))
    assert call("ai_classify(a, ['u', 'v'], other => 'v')").parameters.constraint == Choice(("u", "v"))
    assert call("ai_classify(a, ['None', 'b'], other => 'none')").parameters.constraint == Choice(("None", "b"))
    assert call("ai_classify(a, ['u'], other => 'w', confidence => true)").parse("w")["answer"] == "w"


def test_other_of_several_labels() -> None:
    """With `multi => true`, `other` stands for an empty list."""
    found = call("ai_classify(a, ['u', 'v'], multi => true, other => 'none')")
    assert found.parse('{"labels": []}') == ["none"]
    assert found.parse('{"labels": ["v"]}') == ["v"]


def test_calls_that_read_answers_differently_stay_apart(tmp_path: Path) -> None:
    """One query can ask for the same labels with and without `other`: each call reads the answers its own way."""
    columns = ", ".join(
        f"ai_classify(note, ['u', 'v'], multi => true{other}) AS {name}"
        for name, other in (("plain", ""), ("none", ", other => 'none'"), ("nil", ", other => 'nil'"))
    )
    engine = Scripted(answer=lambda _: '{"labels": []}')
    with closing(small_database(tmp_path)) as database, closing(using(database, engine).session()) as session:
        found = ask(session, f"SELECT {columns} FROM people WHERE id = 1")
    assert found.rows == [{"plain": [], "none": ["none"], "nil": ["nil"]}]


@pytest.mark.parametrize(
    "anchors",
    [
        "{10: 'perfect', 0: 'useless'}",
        "[(0, 'useless'), (10, 'perfect')]",
        "MAP(0, 'useless', 10, 'perfect')",
        """'{"0": "useless", "10": "perfect"}'""",
        """'[[0, "useless"], [10, "perfect"]]'""",
    ],
)
def test_anchors(anchors: str) -> None:
    """What numbers mean is told in rising order, in place of the scale's own words."""
    found = call(f"ai_score('How good?', a, anchors => {anchors})")
    assert "- 0: useless\n- 10: perfect" in found.instruction
    assert "fully" not in found.instruction
    assert found.parse("7") == 7.0


def test_large_and_negative_anchors() -> None:
    """Numbers are told as they are."""
    found = call("ai_score('x', a, low => -1, high => 1e7, anchors => {-1: 'n', 1234567: 'y', 1234567.5: 'z'})")
    assert "- -1: n\n- 1234567: y\n- 1234567.5: z" in found.instruction


def test_half_a_surrogate_in_json(tmp_path: Path) -> None:
    """Labels as JSON text can name half a surrogate pair: it is U+FFFD, as in answers."""
    with closing(small_database(tmp_path)) as database, closing(database.session()) as session:
        found = ask(session, r"""SELECT ai_classify(note, '["\ud800"]') AS a FROM people WHERE id = 1""")
    assert found.rows == [{"a": "\ufffd"}]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("ai_classify(a, 'u, v')", "labels must be a list of texts"),
        ("ai_classify(a, ['u', true])", "labels must be a list of texts .*; label 2 is true"),
        ("ai_classify(a, ['u', {'text': 'v'}])", """label 2 is {"text": "v"}"""),
        ("ai_classify(a, ['u', ' '])", "labels must not be empty: number 2 is ''"),
        ("ai_classify(a, ['u', 'v', 'u'])", "labels must be distinct: numbers 1 and 3 are both 'u'"),
        ("ai_classify(a, ['u', ('v', 3)])", "the meaning of label 2, 'v', must be text, not 3"),
        (
            "ai_classify(a, ['u', {'label': 'v', 'examples': ['x', 'x']}])",
            "the examples of label 2, 'v', must be distinct: numbers 1 and 2 are both 'x'",
        ),
        ("ai_classify(a, MAP('u', 'x', 'v'))", "labels must be a list of texts"),
        ("ai_classify(a, MAP(['u'], 'x'))", "labels must be a list of texts"),
        ("ai_classify(a, [])", "labels must be a list of texts"),
        ("ai_classify(a, {})", "labels must be a list of texts"),
        ("ai_classify(a, {'u': 3})", "the meaning of label 1, 'u', must be text, not 3"),
        ("ai_classify(a, {'u': 'x', 'u ': 'y'})", "labels must be distinct: numbers 1 and 2 are both 'u'"),
        ("ai_classify(a, MAP(['u', 'v'], ['x']))", "labels must be a list of texts"),
        ("ai_classify(a, named_struct('u', 'x', 'v'))", "labels must be a list of texts"),
        (
            "ai_classify(a, [{'label': 'u', 'about': 'x'}])",
            "label 1, 'u', has the unknown key 'about'; valid keys: label, description, examples",
        ),
        ("ai_classify(a, [{'description': 'x'}])", "labels must be a list of texts"),
        ("ai_classify(a, ['u'], other => 3)", "other must be a text literal"),
        ("ai_classify(a, ['u'], output_mode => 'multi')", "unknown option output_mode; did you mean multi"),
        ("ai_score('x', a, anchors => {'low': 'bad'})", "'low' is not a number"),
        ("ai_score('x', a, anchors => {11: 'bad'})", "the anchor 11 is not between low => 0 and high => 10"),
        ("ai_score('x', a, anchors => '{0: bad}')", "anchors must give each value a meaning as text"),
        ("ai_score('x', a, anchors => ['bad'])", "anchors must give each value a meaning as text"),
        ("ai_score('x', a, anchors => {1: 2})", "anchors must give each value a meaning as text"),
        ("ai_score('x', a, anchors => {1: ' '})", "anchors must give each value a meaning as text"),
        ("ai_score('x', a, anchors => {0: 'a', 0.0: 'b'})", "two anchors give a meaning to 0.0"),
        (
            "ai_score('x', a, anchors => concat('a', b))",
            "anchors must be a constant of numbers",
        ),
        ("ai_extract(a, [1, 2])", "schema must be a list of texts such as .*, or a JSON Schema"),
        ("ai_gen('x', a, response_format => {'n': 5})", "response_format must be a JSON Schema text or a list"),
    ],
)
def test_refused(expression: str, error: str) -> None:
    """What cannot be read is an error that says what to write."""
    with pytest.raises(FlightLLMError, match=error):
        call(expression)


@pytest.mark.parametrize("value", [None, 3, (), ("a", None), Entries(())])
def test_names(value: Literal) -> None:
    """A list of names has texts alone, and at least one."""
    assert read_names((" a ", "b"), "x") == ("a", "b")
    with pytest.raises(AICallError, match="x must be a list of texts"):
        read_names(value, "x")


def test_reading() -> None:
    """Labels with a meaning are entries, others a tuple; meanings keep their order."""
    assert read_labels(DESCRIBED, "labels") == DESCRIBED
    assert read_labels(("a ", "b"), "labels") == ("a", "b")
    assert read_meanings(((2, "b"), (1.5, "a")), "anchors") == Entries((("2", "b"), ("1.5", "a")))
