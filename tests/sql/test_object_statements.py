"""Statements about models and prompts, taken apart."""

import pytest

from flightllm.errors import FlightLLMError, InvalidInputError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


def test_create_model() -> None:
    """Options have the types of their literals; `=` and quotes around words may be left out."""
    sql = """create or replace model "gpt-5" options (engine openai, model = 'gpt-5', timeout 1.5, max_in_flight 64,
        send_constraints false, api_key 'env:KEY');"""
    statement = classify(ParsedText(sql))
    assert (statement.kind, statement.key, statement.or_replace, statement.is_update) == (
        "create_model",
        "gpt-5",
        True,
        True,
    )
    assert statement.model_options == {
        "engine": "openai",
        "model": "gpt-5",
        "timeout": 1.5,
        "max_in_flight": 64,
        "send_constraints": False,
        "api_key": "env:KEY",
    }


def test_create_prompt() -> None:
    """A prompt's text is any literal, quotes in it included; names fold as everywhere."""
    statement = classify(ParsedText("CREATE PROMPT IF NOT EXISTS Family AS $$It's about {title}?$$"))
    assert (statement.kind, statement.key, statement.value) == ("create_prompt", "family", "It's about {title}?")
    assert statement.exists_ok
    assert not statement.or_replace


@pytest.mark.parametrize(
    ("sql", "kind", "exists_ok"),
    [
        ("DROP MODEL m", "drop_model", False),
        ("DROP MODEL IF EXISTS m", "drop_model", True),
        ("DROP PROMPT m", "drop_prompt", False),
        ("drop prompt if exists M -- gone", "drop_prompt", True),
    ],
)
def test_drop(sql: str, kind: str, exists_ok: bool) -> None:
    """DROP names one object."""
    statement = classify(ParsedText(sql))
    assert (statement.kind, statement.key, statement.exists_ok) == (kind, "m", exists_ok)


def test_show() -> None:
    """SHOW is a query over a system table, and can be explained."""
    assert classify(ParsedText("SHOW MODELS")).query == 'SELECT * FROM "flightllm"."system"."models"'
    assert classify(ParsedText("explain show prompts")).query == 'SELECT * FROM "flightllm"."system"."prompts"'


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE MODEL m", "OPTIONS was expected"),
        ("CREATE MODEL a.b OPTIONS (engine fake)", "name of one part"),
        ("CREATE MODEL OPTIONS (engine fake)", "OPTIONS was expected"),
        ("CREATE MODEL m OPTIONS engine fake", "OPTIONS needs a list"),
        ("CREATE MODEL m OPTIONS (engine fake, engine fake)", "given twice"),
        ("CREATE MODEL m OPTIONS (engine fake, timeout NULL)", "has no value"),
        ("CREATE MODEL m OPTIONS (engine fake) x", "'x' was not expected"),
        ("CREATE PROMPT p", "AS was expected"),
        ("CREATE PROMPT p AS SELECT 1", "text in quotes"),
        ("CREATE PROMPT p AS 'a' 'b'", "'b' was not expected"),
        ("DROP MODEL", "name of one part"),
        ("DROP PROMPT p, q", "',' was not expected"),
        ("SHOW MODELS x", "'x' was not expected"),
        ("CREATE THING x", r"CREATE TABLE \| VIEW \| SCHEMA \| VECTOR INDEX \| MODEL \| PROMPT"),
        ("DROP THING x", r"DROP TABLE \| VIEW \| SCHEMA \| VECTOR INDEX \| MODEL \| PROMPT"),
    ],
)
def test_refused(sql: str, message: str) -> None:
    """A statement that lacks something says what."""
    with pytest.raises(FlightLLMError, match=message):
        classify(ParsedText(sql))


@pytest.mark.parametrize("option", ["api_key 'sk-1'", "hf_token sk1", "password 'x'", "base_url 'http://a:sk-1@host'"])
def test_secrets(option: str) -> None:
    """A secret is refused while the text is read, and not repeated."""
    with pytest.raises(InvalidInputError, match="'env:NAME'") as caught:
        classify(ParsedText(f"CREATE MODEL m OPTIONS (engine openai, model 'x', {option})"))
    assert "sk" not in str(caught.value)
