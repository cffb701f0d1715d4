"""What is read from answers that nothing constrained: the answer where it is clear, nothing where it is not."""

import json

import pytest

from flightllm.engines.openai.reading import read_constrained, read_schema
from flightllm.engines.openai.strict import rooted, strict_schema, without_nulls
from flightllm.llm.engine import Choice, Constraint, JsonSchema, Regex

YES = Choice(("Yes", "No"))
FEELING = Choice(("正面", "负面"))
SPAM, NOT_SPAM = Choice(("spam", "ham")), Choice(("spam", "not spam"))
STARS = Choice(tuple(map(str, range(1, 6))))
SCORE = Choice(tuple(map(str, range(11))))
CITY = JsonSchema('{"type":"object","properties":{"city":{"type":"string"},"year":{"type":"integer"}}}')
CASES: list[tuple[Constraint, str, str | None]] = [
    (YES, "Yes", "Yes"),
    (YES, " yes.\n", "Yes"),
    (YES, '{"answer": "Yes"}', "Yes"),
    (YES, '{"verdict": "no"}', "No"),
    (YES, '{"answer": true}', "Yes"),
    (YES, 'Sure! Here is the JSON:\n```json\n{"answer": "No"}\n```\nBye.', "No"),
    (YES, "**Yes**", "Yes"),
    (YES, "Answer: Yes", "Yes"),
    (YES, "**Answer:** Yes", "Yes"),
    (YES, "The answer is No.", "No"),
    (YES, "The film is dull.\n\nFinal answer: No", "No"),
    (YES, "Yes. The text praises it.", "Yes"),
    (YES, "Yes, but no one came", None),
    (YES, "Yes or No", None),
    (YES, "I cannot say Yes to this", None),
    (YES, '{"answer": "Yes", "other": "No"} {"answer": "No"}', None),
    (YES, '{"a": "Yes", "b": "No"}', None),
    (YES, "", None),
    (Choice(("New York", "York")), "New York.", "New York"),
    (Choice(("1", "10")), "10", "10"),
    (SCORE, "8.5", "8.5"),
    (SCORE, "8,5", "8.5"),
    (SCORE, "Rating: **8,5**", "8.5"),
    (SCORE, "8.5/10", "8.5"),
    (SCORE, '{"answer": 8.5}', "8.5"),
    (SCORE, "10.5", None),
    (SCORE, "-0.5", None),
    (SCORE, "8.5 or 9.5", None),
    (Choice(("1", "2", "3")), "2.5", None),
    (Choice(("1", "2", "4", "8", "16")), "3", None),
    (Choice(("1", "2", "3", "4", "five")), "2.5", None),
    (FEELING, "正面。nie", None),
    (Choice(("1", "10")), '{"answer": 10.0}', "10"),
    (Choice(("0.0", "1.0", "1.1")), "1", "1.0"),
    (Choice(("a", "A")), "a", "a"),
    (Choice(("b", "B")), '"b"', "b"),
    (YES, "True", "Yes"),
    (YES, "FALSE.", "No"),
    (Choice(("true", "false")), '{"answer": true}', "true"),
    (Choice(("Yes", "No", "True")), "False", None),
    (FEELING, "正面。", "正面"),
    (FEELING, "「正面」", "正面"),
    (FEELING, "答案：正面", "正面"),
    (FEELING, "最终答案是：负面。", "负面"),
    (FEELING, "回答：「负面」", "负面"),
    (FEELING, "正面。文章称赞了它。", "正面"),
    (FEELING, "正面。不过也有负面情绪。", None),
    (FEELING, "正面还是负面", None),
    (Choice(("да", "нет")), "«да»", "да"),
    (Choice(("да", "нет")), "Ответ: Нет.", "нет"),
    (Choice(("ja", "nein")), "Antwort: „Ja“.", "ja"),
    (Choice(("oui", "non")), "Réponse : Oui", "oui"),
    (Choice(("sí", "no")), "Respuesta: si\u0301", "sí"),
    (Choice(("Café", "Bar")), "Cafe\u0301", "Café"),
    (Choice(("Men's", "Women's")), "Men’s", "Men's"),
    (Choice(("x²", "x2")), "x²", "x²"),
    (Choice(("x²", "x2")), "Ｘ２", None),
    (Choice(("Positive", "Negative")), "Positive [1]", "Positive"),
    (Choice(("Positive", "Negative")), "Positive.[1][2]", "Positive"),
    (Choice(("Item [1]", "Item")), "Item [2]", None),
    (SCORE, "Score: 8 [1]", "8"),
    (SCORE, "The answer is [8]", "8"),
    (SCORE, "8/10", "8"),
    (SCORE, "**8 / 10**", "8"),
    (SCORE, "8 out of 10.", "8"),
    (SCORE, "Rating: 4/5", "8"),
    (SCORE, "11/10", None),
    (Choice(("1", "2", "3", "4", "5")), "8/10", None),
    (Choice(("1", "2", "3", "4", "5")), "4/5", "4"),
    (Choice(("8.0", "8.5", "9.0")), "8,5", "8.5"),
    (Regex("[0-9]{1,4}([.][0-9]{1,4})?"), "8,5", "8.5"),
    (Regex("[0-9]{1,4}([.][0-9]{1,4})?"), "1,234", None),
    (Regex("[0-9]{1,2}"), "Score: 42", "42"),
    (Regex("[0-9]{1,2}"), '{"answer": "7"}', "7"),
    (Regex("[0-9]{1,2}"), "about 7", None),
    *(
        (YES, word, "Yes")
        for word in ("Ja", "Oui", "Sí", "Sim", "はい", "是。", "对", "Да", "Evet", "예", "네", "نعم", "हाँ")
    ),
    *(
        (YES, word, "No")
        for word in ("Nein", "Non", "Não", "いいえ", "否", "不是", "Нет", "Hayır", "아니요", "لا", "नहीं")
    ),
    (YES, "1", "Yes"),
    (YES, "N", "No"),
    (YES, "Oui, le texte est long.", "Yes"),
    (YES, "Nein, der Text hat keinen Sport.", "No"),
    *(
        (YES, text, None)
        for text in (
            *("Ja, ich weiss nicht", "Nu, det är", "Ei, text", "Da: der Text", "Tak, men", "Vero, ma", "Si, mais"),
            *(
                "예: 이 글은",
                "是。这个文本不涉及体育",
                "是。没有提到",
                "Oui, mais",
                "Evet, ama",
                "对，我先看",
                "Oui. Pas de sport.",
            ),
        )
    ),
    *((YES, word, "Yes") for word in ("Ano", "Tak!", "Si", "예.", "Da.")),
    *((YES, word, "No") for word in ("Nu.", "Ei", "Sai.", "Ne.")),
    *(
        (codes, text, None)
        for codes in (
            *(Choice(("da", "no", "sv", "en")), Choice(("ja", "no", "en")), Choice(("SI", "NO", "SE"))),
            *(Choice(("ja", "no")), Choice(("true", "false", "mixed"))),
        )
        for text in ("Yes", "1", "0", "Nein", "Evet", "No, it is Danish", "No: Danish")
    ),
    (Choice(("da", "no", "sv", "en")), "No.", "no"),
    (Choice(("SI", "NO", "SE")), "si", "SI"),
    (Choice(("да", "нет")), "Да. Текст хвалит.", "да"),
    (Choice(("Yes", "No", "N/A")), "Nein", "No"),
    (Choice(("True", "False")), "No", "False"),
    (YES, "是。文章称赞了它。", "Yes"),
    (YES, "是。不过也可以说不是。", None),
    (YES, "Ja, aber eher nein.", None),
    (YES, "ja/nein", None),
    (YES, "Not yes", None),
    (YES, r"So it is $\boxed{\text{Yes}}$.", "Yes"),
    (YES, r"\boxed{Yes} or \boxed{No}", None),
    (YES, "Sure! I can help with that. The answer is: Yes.", "Yes"),
    (YES, "Sure! Here is my answer: No", "No"),
    (YES, "It is no film. The answer is: Yes.", None),
    (Choice(("ja", "nein")), "Yes.", None),
    (Choice(("Yes", "No", "Ja")), "Oui", None),
    (Choice(("Yes", "No", "Ja")), "Ja", "Ja"),
    (Choice(("0", "1", "2")), "yes", None),
    (NOT_SPAM, "- spam", "spam"),
    (NOT_SPAM, "1. not spam", "not spam"),
    (NOT_SPAM, "not_spam", "not spam"),
    (NOT_SPAM, "Not-Spam.", "not spam"),
    (NOT_SPAM, "- spam\n- not spam", None),
    (SPAM, "not spam", None),
    (SPAM, "not_spam", None),
    (SPAM, "spam - no", None),
    (SPAM, "spam\nnot really", None),
    (SPAM, "kein spam", None),
    (SPAM, "Answer: not spam", None),
    (Choice(("re sign", "resign")), "re-sign", None),
    (Choice(("-5", "5")), "- 5", None),
    (SCORE, "4 von 5 Sternen", "8"),
    (SCORE, "4 of 5 stars", "8"),
    (SCORE, "**8**/10", "8"),
    (SCORE, "8 (out of 10)", "8"),
    (SCORE, "8 Punkte", "8"),
    (SCORE, "80 %", "8"),
    (SCORE, "4 stars", None),
    (SCORE, "4,5/5", "9"),
    (STARS, "4 stars", "4"),
    (STARS, "4つ星", "4"),
    (STARS, "4,5 stars", "4.5"),
    (STARS, "80 %", None),
    (CITY, '{"city":"Rome"}', '{"city":"Rome"}'),
    (CITY, 'Sure! Here is: {"city": "Rome", "year": null} Enjoy!', '{"city": "Rome"}'),
    (CITY, "No idea", None),
    (CITY, '{"city": "Rome"} or {"city": "Bonn"}', None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}"[:40] + case[1][:30])
def test_reading(case: tuple[Constraint, str, str | None]) -> None:
    """Clear answers are found in prose, fences and marks; a text that names several options has none."""
    constraint, text, found = case
    assert read_constrained(text, constraint, wrapped=False) == found


def test_a_value_in_an_object() -> None:
    """What is no object is asked for inside one, and taken out again."""
    listed = JsonSchema('{"type":"array","items":{"type":"string"}}')
    assert rooted(json.loads(listed.schema))[1]
    assert read_constrained('{"answer": ["a"]}', listed, wrapped=True) == '["a"]'


def test_a_schema_is_parsed_once() -> None:
    """The answers of one call share the parsed schema, and reading them leaves it as it was."""
    text = '{"type": "object", "properties": {"parsed once": {"type": "string"}}}'
    before = read_schema.cache_info().misses
    answers = [read_constrained('{"parsed once": null}', JsonSchema(text), wrapped=False) for _ in range(3)]
    assert answers == ["{}"] * 3
    assert read_schema.cache_info().misses == before + 1
    assert read_schema(text) == json.loads(text)


def test_strict_there_and_back() -> None:
    """An optional property becomes nullable and required; its null is dropped again, one that means null stays."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 5},
            "nick": {"type": ["string", "null"]},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        },
        "required": ["name"],
        "$defs": {"part": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["required"] == ["name", "nick", "parts"]
    assert strict["properties"]["name"] == {"type": "string"}
    assert strict["properties"]["nick"] == {"type": ["string", "null"]}
    assert strict["$defs"]["part"]["additionalProperties"] is False
    given = {"name": "a", "nick": None, "parts": [{"n": None}, {"n": 1}]}
    assert without_nulls(given, schema) == {"name": "a", "nick": None, "parts": [{}, {"n": 1}]}
    assert without_nulls({"name": "a", "parts": None}, schema) == {"name": "a"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}},
    ],
)
def test_no_strict_form(schema: dict[str, object]) -> None:
    """What strict mode cannot say is left to the plain form."""
    assert strict_schema(schema) is None


PERSON = JsonSchema(
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": ["string", "null"]},
                "age": {"type": "integer"},
                "height": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            },
            "required": ["name", "age", "height"],
            "additionalProperties": False,
        }
    )
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"name": 7, "age": "5", "height": "1.8"}', {"name": "7", "age": 5, "height": 1.8}),
        ('{"name": "a", "age": "-5.00", "height": 1}', {"name": "a", "age": -5, "height": 1}),
        ('{"name": 1.10, "age": 5, "height": 2}', {"name": "1.10", "age": 5, "height": 2}),
        ('{"age": 5}', {"name": None, "age": 5, "height": None}),
        ('{"name": null, "age": 5, "height": null, "why": "x"}', {"name": None, "age": 5, "height": None}),
        ('{"name": "a,}", "age": 5, "height": 1,}', {"name": "a,}", "age": 5, "height": 1}),
        ('So: {"name": "a", "age": 5, "height": 1,} Bye {x}.', {"name": "a", "age": 5, "height": 1}),
        ('{"name": "a\nb", "age": 5, "height": 1}', {"name": "a\nb", "age": 5, "height": 1}),
        ('{"name": "a", "age": "abc", "height": "tall"}', {"name": "a", "age": "abc", "height": "tall"}),
        ('{"name": ["a"], "age": ["5"], "height": []}', {"name": "a", "age": 5, "height": None}),
        ('[{"name": "a", "age": 5, "height": [1.8]}]', {"name": "a", "age": 5, "height": 1.8}),
        ('{"name": ["a", "b"], "age": [], "height": {"m": 1}}', {"name": ["a", "b"], "age": [], "height": {"m": 1}}),
        ('{"name": [["a"]], "age": 5, "height": 1}', {"name": [["a"]], "age": 5, "height": 1}),
        ('{"name": true, "age": 5, "height": 1}', {"name": True, "age": 5, "height": 1}),
        ('{"other": {"age": 5}}', {"other": {"age": 5}}),
        ('{"other": {"age": 5}, "name": "a', None),
    ],
)
def test_trifles_of_json(text: str, found: object) -> None:
    """A trifle costs no row; a value of another kind stays for the validation, and broken JSON has no part taken."""
    read = read_constrained(text, PERSON, wrapped=False)
    assert (None if read is None else json.loads(read)) == found
