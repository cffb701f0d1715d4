"""Each vendor's AI functions, as pasted in the vendor's dialect: the answers of ours, or an error with the line."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from flightllm.config import ModelsConfig
from flightllm.dialect import rewrite
from flightllm.dialect.vendors import aggregates, embeddings, tables
from flightllm.dialect.vendors.arguments import PROMPTS, WITH_OPTIONS
from flightllm.dialect.vendors.flock import NAMES as FLOCK
from flightllm.dialect.vendors.names import OURS
from flightllm.dialect.vendors.refused import REFUSED
from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, small_database
from tests.dialect.places import EMPTY

_TABLE = tomllib.loads(Path(__file__).with_name("vendor_functions.toml").read_text(encoding="utf-8"))
_CASES = [(dialect, one) for dialect, found in _TABLE.items() for one in found]
_EMBEDS = ("ai_embed", "ai_similarity")
"""The functions that load the embedding model."""
_RUN = ("ai_score", "ai_gen", "ai_sentiment", "ai_extract")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables on the fake engine, whose answers tell prompts apart."""
    database = small_database(tmp_path_factory.mktemp("vendors"), models=ModelsConfig(aliases={"gemini": "default"}))
    yield database.session()
    database.close()


def _answers(session: Session, expression: str, dialect: str, *, group: bool) -> list[object]:
    query = f"SELECT id, {expression} AS a FROM people ORDER BY id"
    if expression.endswith(" AS g"):
        return [tuple(row.values()) for row in ask(session, f"SELECT * FROM {expression}", dialect=dialect).rows]
    if group:
        query = f"SELECT name, {expression} AS a FROM people GROUP BY name ORDER BY name"
    return [row["a"] for row in ask(session, query, dialect=dialect).rows]


def _marked(dialect: str, one: dict[str, Any]) -> ParameterSet:
    marks = [pytest.mark.slow] if any(name in one["ours"] for name in _EMBEDS) else []
    return pytest.param(dialect, one, marks=marks)


@pytest.mark.parametrize(("dialect", "one"), [_marked(*case) for case in _CASES if "ours" in case[1]])
def test_works(session: Session, dialect: str, one: dict[str, Any]) -> None:
    """A call as pasted gives the answers of our line, in its dialect."""
    group = one.get("group", False)
    expected = sorted(map(str, _answers(session, one["ours"], "default", group=group)))
    assert sorted(map(str, _answers(session, one["pasted"], dialect, group=group))) == expected
    assert set(expected) != {"None"}


@pytest.mark.parametrize("one", [one for _, one in _CASES if any(name in one.get("ours", "") for name in _EMBEDS)])
def test_embeddings(one: dict[str, Any]) -> None:
    """Embeddings and similarities are ours, with the server's model."""
    found = rewrite(ParsedText(f"SELECT * FROM {one['pasted']}".replace("`", "")), EMPTY).text
    expected = f"SELECT * FROM {one['ours']}"
    assert found.replace("__asked", "asked") == expected


@pytest.mark.parametrize(
    "pasted",
    [
        "ai.litellm_embed('m', note, dimensions => 768)",
        "AI_EMBED('m', note, TRUE)",
        "AI.EMBED(note)",
        "AI_SIMILARITY(note, 'tea', {'model': 'm', 'scale': 2})",
    ],
)
def test_other_embeddings(pasted: str) -> None:
    """What would give other vectors, or an object around them, is an error with the line."""
    with pytest.raises(FlightLLMError, match=r"write ai_(embed|similarity)\("):
        rewrite(ParsedText(f"SELECT {pasted}"), EMPTY)


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for _, one in _CASES if "ours" in one])
def test_works_without_a_dialect(session: Session, one: dict[str, Any]) -> None:
    """A call as pasted gives the answers of our line in the default dialect too."""
    pasted, group = one["pasted"].replace("`gemini`", "gemini"), one.get("group", False)
    expected = sorted(map(str, _answers(session, one["ours"], "default", group=group)))
    assert sorted(map(str, _answers(session, pasted, "default", group=group))) == expected


@pytest.mark.parametrize(("dialect", "one"), [case for case in _CASES if "ours" not in case[1]])
def test_refused(session: Session, dialect: str, one: dict[str, Any]) -> None:
    """A call without a counterpart names the line, which runs as it stands."""
    line = one.get("write", "")
    with pytest.raises(FlightLLMError) as error:
        _answers(session, one["pasted"], dialect, group=False)
    assert (f"write {line}" if line.startswith("ai_emb") else line or one["absent"]) in str(error.value)
    if line.startswith(_RUN):
        assert ask(session, f"SELECT {line} FROM people").rows


@pytest.mark.parametrize(
    ("pasted", "message"),
    [
        ("AI_COMPLETE('default', note, {'temperature': 0}, NULL, TRUE)", "'show_details' is not known here"),
        ("AI_COMPLETE('default', [{'role': 'robot', 'content': note}])", "its role can be system, user"),
        ("AI_COMPLETE('default', [{'role': 'system', 'content': 'x'}])", "role 'user' is missing"),
        ("AI_COMPLETE('default', [{'role': 'user', 'content': [{'type': 'image'}]}])", "no function here reads files"),
        ("AI_CLASSIFY(PROMPT('Is {1} {0}?', note, name), ['a', 'b'])", "PROMPT must use each value once and in order"),
        ("AI_AGG(note, name)", "the instruction must be a text literal: write ai_agg("),
        ("AI_AGG(note, 'x') OVER ()", "OVER cannot follow it"),
        ("AI_AGG(note, 'x') FILTER (WHERE id > 1) OVER ()", "OVER cannot follow it"),
        ("AI_AGG(note, 'x' ORDER BY id)", "the order of rows never changes its answer"),
        ("AI_AGG(*, 'x')", "it reads one text a row"),
        ("AI_AGG()", "it needs the text of each row"),
        ("AI_AGG(note, 'x', 'y')", "it has one argument too many"),
        ("llm_reduce({'model_name': 'm'}, {'prompt': 'x'}, {'a': note}) OVER ()", "OVER cannot follow it"),
        ("llm_reduce({'model_name': 'm'}, {'prompt': 'x'})", "it needs columns"),
        ("llm_reduce({'model_name': 'm'}, {'prompt_name': 'x'}, {'a': note})", "takes its prompt as a text"),
        ("llm_filter('default', 'Is it?')", "it takes objects"),
        ("llm_filter({'model_name': 'default'}, {'prompt': note})", "the prompt must be a text literal"),
        ("llm_complete({'model_name': 'default'}, {'prompt': 'x', 'colour': 'red'})", "'colour' has no counterpart"),
        (
            "llm_complete({'model_name': 'm'}, {'prompt': 'x', 'context_columns': [{'data': note, 'type': 'image'}]})",
            "no function here reads images",
        ),
        ("llm_first({'model_name': 'm'}, {'prompt': 'x'}, {'a': ai_translate(note, 'fr')})", "in a subquery"),
        ("llm_last({'model_name': 'm'}, {'prompt': 'x'}, {'a': note}) OVER ()", "OVER and FILTER cannot follow it"),
        ("llm_rerank({'model_name': 'm'}, {'prompt': 'x'})", "it needs columns"),
        ("llm_embedding({'model_name': 'm'}, {})", "it needs columns"),
        ("AI.GENERATE(('x', note), model_params => JSON '{\"tools\": []}')", "the option 'tools' is not known here"),
        ("ai_query('default', note, failOnError => note)", "failOnError is true or false"),
    ],
)
def test_nothing_is_silent(session: Session, pasted: str, message: str) -> None:
    """What has no counterpart is an error that says what is there."""
    with pytest.raises(FlightLLMError, match=message.replace("(", r"\(")):
        session.execute(f"SELECT {pasted} FROM people")


def test_every_function_has_a_line() -> None:
    """The table, from which the pages come, has each function of a vendor that the server knows."""
    known = {*OURS, *REFUSED, *aggregates.NAMES, *embeddings.NAMES, *FLOCK, *tables.NAMES, *PROMPTS, *WITH_OPTIONS}
    pasted = " ".join(one["pasted"].lower() for _, one in _CASES)
    assert sorted(name for name in known - {"ai_if", "ai_score"} if f"{name}(" not in pasted) == []


def test_sentiment_by_aspect(session: Session) -> None:
    """The object of aspects costs one call for each text; the path to one aspect gives the word in the object."""
    whole = "AI_SENTIMENT(note, ['tea', 'the price'])"
    ran = ask(session, f"SELECT note, {whole} AS s, {whole}:categories AS c FROM people", dialect="snowflake")
    assert ran.calls <= 4
    assert [row["s"] is None for row in ran.rows] == [row["note"] is None for row in ran.rows]
    for row in (row for row in ran.rows if row["note"] is not None):
        assert [one["name"] for one in row["c"]] == ["overall", "tea", "the price"]
        assert row["s"]["categories"] == row["c"]
    nothing = "AI_SENTIMENT(x, ['tea'])"
    items = f"{nothing} IS NULL AS a, {nothing}:categories IS NULL AS b, AI_SENTIMENT(NULL, ['tea']) IS NULL AS c"
    (row,) = ask(session, f"SELECT {items} FROM (SELECT CAST(NULL AS VARCHAR) AS x) AS q", dialect="snowflake").rows
    assert list(row.values()) == [True, True, True]
    with pytest.raises(FlightLLMError, match="its path must be :categories"):
        ask(session, f"SELECT {whole}:labels FROM people", dialect="snowflake")
    with pytest.raises(FlightLLMError, match="compute the text in a subquery"):
        ask(session, "SELECT AI_SENTIMENT(AI_TRANSLATE(note, '', 'en'), ['tea']) FROM people", dialect="snowflake")


def test_result_of_an_alias(session: Session) -> None:
    """`.result` of the alias of AI.GENERATE gives the text, under the name that BigQuery gives the column."""
    query = "SELECT r.result FROM (SELECT AI.GENERATE(note) AS r FROM people WHERE id < 3) AS q"
    assert [list(row) for row in ask(session, query, dialect="bigquery").rows] == [["result"]] * 2


def test_versions_of_prompts(session: Session) -> None:
    """Flock's prompts by name have their version."""
    session.update("CREATE OR REPLACE PROMPT about AS 'About {note}'")
    pasted = (
        "llm_complete({{'model_name': 'default'}}, {{'prompt_name': 'about'{}, 'context_columns': [{{'data': note}}]}})"
    )
    expected = _answers(session, "ai_gen(prompt => 'about', note)", "default", group=False)
    for version in ("", ", 'version': 1"):
        assert _answers(session, pasted.format(version), "duckdb", group=False) == expected
    session.update("DROP PROMPT about")


def test_ranked_rows(session: Session) -> None:
    """The first, the last and all rows of a group follow from the scores of the rows."""
    people = "(SELECT DISTINCT note FROM people WHERE note IS NOT NULL) AS p"
    scores = ask(session, f"SELECT note, ai_score('Is it good?', note) AS s FROM {people}").rows
    best = [row["note"] for row in sorted(scores, key=lambda row: -row["s"])]
    assert len({row["s"] for row in scores}) == len(scores) > 1
    pasted = "llm_{}({{'model_name': 'default'}}, {{'prompt': 'Is it good?', 'context_columns': [{{'data': note}}]}})"
    calls = ", ".join(f"{pasted.format(name)} AS a_{name}" for name in ("rerank", "first", "last"))
    (row,) = ask(session, f"SELECT {calls} FROM {people}", dialect="duckdb").rows
    ordered, first, last = (json.loads(value) for value in row.values())
    assert [one["note"] for one in ordered] == best
    assert [first, last] == [ordered[0], ordered[-1]]


@pytest.mark.parametrize("operator", ["<=>", "<->"])
def test_distances_of_pgvector(session: Session, operator: str) -> None:
    """An operator of pgvector is an error with the function, as `<=>` compares values in other dialects."""
    with pytest.raises(FlightLLMError, match=r"write (cosine|array)_distance"):
        ask(session, f"SELECT id FROM people ORDER BY [1.0, 2.0] {operator} [2.0, 1.0]", dialect="postgres")


def test_embeddings_of_a_list(session: Session) -> None:
    """A list of texts becomes rows, as one call embeds one text."""
    with pytest.raises(FlightLLMError, match=r"write SELECT ai_embed\(x\) FROM unnest\(array\['a', 'b'\]\) AS t\(x\)"):
        ask(session, "SELECT ai.openai_embed('m', array['a', 'b'])", dialect="postgres")


def test_names_of_options_as_columns(session: Session) -> None:
    """A column that Flock names like an option is still a field."""
    flock = "llm_filter({{'model_name': 'default'}}, {{'prompt': 'Is it?'}}, {{'{}': note}})"
    for name in ("model", "prompt", "text", "temperature", "My Text"):
        found = _answers(session, flock.format(name), "duckdb", group=False)
        assert any(answer is not None for answer in found)


@pytest.mark.parametrize("labels", ["['tea', name]", "(SELECT string_agg(thing, ', ') FROM likes)", "name"])
def test_labels_from_data(session: Session, labels: str) -> None:
    """Labels from a column or a query are an error that names a call, which runs as it stands."""
    with pytest.raises(FlightLLMError, match="must be a constant list") as error:
        session.execute(f"SELECT ai_classify(note, {labels}) FROM people")
    line = str(error.value).partition("write ")[2]
    assert line.startswith("ai_gen('Answer with the one choice that fits', note, choices => ")
    assert len(ask(session, f"SELECT {line} AS a FROM people").rows) == 9
