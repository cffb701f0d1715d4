"""Normalised comparison of texts, its errors, and the calls that it saves."""

import json
from pathlib import Path

import pytest

from flightllm.errors import AICallError
from flightllm.functions.normalize import normalised, read_normalize
from tests.databases import ask, small_database


@pytest.mark.parametrize(
    ("value", "how", "expected"),
    [
        ("Straße  ÉTÉ!", "case", "strasse  été!"),
        (" a\t\u00a0b\u2003\n c ", "space", "a b c"),
        ("«Don’t», he_said… (no)!¿", "punctuation", "Dont hesaid no"),
        ("it costs $3.50 + tax = €4", "punctuation", "it costs $3.50 + tax = €4"),
        ("at -1.5, 10,000 (or 3/4)?", "punctuation", "at -1.5 10,000 or 3/4"),
        ("Hello - World !", "case,space,punctuation", "hello world"),
        ("Hello - World !", "punctuation", "Hello  World "),
        ("日本語。「はい」", "punctuation", "日本語はい"),
        ("", "case,space,punctuation", ""),
        ("...", "punctuation", ""),
    ],
)
def test_normalised(value: str, how: str, expected: str) -> None:
    """Case, white space and punctuation as Unicode has them; symbols and what makes numbers differ stay."""
    assert normalised(value, read_normalize(how)) == expected
    assert normalised(expected, read_normalize(how)) == expected


def test_words() -> None:
    """The words may come in any order and case; others, or none, are refused by naming those there are."""
    assert read_normalize(" Space ,case") == {"space", "case"}
    for text in ("", "case,", "spaces", "case space", "all"):
        with pytest.raises(AICallError, match="'case', 'space', 'punctuation'"):
            read_normalize(text)


MESSY = """CREATE TABLE messy AS SELECT * FROM (VALUES
    (1, 'Good tea.'), (2, 'good  tea'), (3, 'GOOD TEA!'), (4, 'bad tea'), (5, NULL), (6, 'Bad tea'), (7, 'good tea 5'))
    AS v(id, note)"""


def test_shared_calls(tmp_path: Path) -> None:
    """Rows that agree share a call, and the cache knows them by what agrees; each way of comparing has its own keys."""
    database = small_database(tmp_path)
    session = database.session()
    session.update(MESSY)
    sql = "SELECT id, ai_gen('x', note, normalize => '{}') AS a FROM messy ORDER BY id"
    every = sql.format("case,space,punctuation")
    ran = ask(session, every)
    answers = [row["a"] for row in ran.rows]
    assert ran.calls == 3
    assert answers[0] == answers[1] == answers[2] != answers[3] == answers[5] != answers[6]
    assert answers[4] is None
    assert ask(session, every).calls == 0
    assert ask(session, sql.format("case")).calls == 5
    assert ask(session, "SELECT ai_gen('x', note) FROM messy").calls == 6
    assert (
        ask(session, "SELECT ai_gen('x', note => 'GOOD (tea)' || '', normalize => 'punctuation,space,case')").calls == 0
    )
    database.close()


def test_real_values_are_sent(tmp_path: Path) -> None:
    """The model reads a row's own text, not its normalised form."""
    log = tmp_path / "log.jsonl"
    database = small_database(tmp_path, {"log_path": str(log)})
    ask(
        database.session(), "SELECT ai_gen('x', v, normalize => 'case,punctuation') FROM (VALUES ('Tea, Please!')) t(v)"
    )
    assert "Tea, Please!" in log.read_text()
    database.close()


def test_batch_functions(tmp_path: Path) -> None:
    """Where no operator takes the call, its batch function compares the same way; the plain baseline asks every row."""
    log = tmp_path / "log.jsonl"
    database = small_database(tmp_path, {"log_path": str(log)})
    session = database.session()
    session.update(MESSY)
    sql = "SELECT unnest([1, 2]), id, ai_gen('x', note, normalize => 'case,space,punctuation') FROM messy"
    assert ask(session, sql).calls == 3
    assert [json.loads(line)["fields"][0][1] for line in log.read_text().splitlines()] == [
        "Good tea.",
        "bad tea",
        "good tea 5",
    ]
    assert ask(session, sql).calls == 0
    assert ask(session, sql, optimizer="off").calls == 6
    database.close()


def test_errors(tmp_path: Path) -> None:
    """A wrong value is refused with those there are, NULL is the default, and a field needs another name."""
    database = small_database(tmp_path)
    session = database.session()
    with pytest.raises(AICallError, match=r"normalize must be one or more of .* not 'cases'"):
        ask(session, "SELECT ai_gen('x', note, normalize => 'cases') FROM people")
    with pytest.raises(AICallError, match="normalize must be a text literal, not 1"):
        ask(session, "SELECT ai_gen('x', note, normalize => 1) FROM people")
    with pytest.raises(AICallError, match="normalize must be a literal, not an expression"):
        ask(session, "SELECT ai_summarize(note, normalize => name) FROM people")
    assert ask(session, "SELECT ai_gen('x', note, normalize => NULL) FROM people").calls == 4
    database.close()
