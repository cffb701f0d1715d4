"""Statements about models and prompts as other vendors spell them: as pasted, or an error with the line to write."""

import json

import pytest

from flightllm.errors import SqlError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.statement import Statement

_OLLAMA = "'m', 'llama3.2', 'ollama'"


def _read(text: str) -> Statement:
    return classify(ParsedText(text))


@pytest.mark.parametrize(
    ("pasted", "name", "model", "provider"),
    [
        (
            "CREATE OR REPLACE MODEL `p.d.m` REMOTE WITH CONNECTION `p.us.c` OPTIONS (ENDPOINT = 'gemini-2.5-flash')",
            *("p.d.m", "gemini-2.5-flash", "gemini"),
        ),
        (
            "CREATE MODEL d.m REMOTE WITH CONNECTION DEFAULT OPTIONS (endpoint = 'claude-sonnet-4')",
            *("d.m", "claude-sonnet-4", "anthropic"),
        ),
        ("CREATE GLOBAL MODEL ('m', 'gpt-4o', 'openai');", "m", "gpt-4o", "openai"),
        ("CREATE MODEL('m', 'gpt-4o')", "m", "gpt-4o", "openai"),
        ("UPDATE MODEL('m', 'llama3.2', 'Ollama', {'is_async': false})", "m", "llama3.2", "ollama"),
    ],
)
def test_models(pasted: str, name: str, model: str, provider: str) -> None:
    """A vendor's model is a model of the engine `openai` at the vendor's provider; UPDATE replaces it."""
    found = _read(pasted)
    assert (found.kind, found.key) == ("create_model", name)
    assert dict(found.model_options) == {"engine": "openai", "model": model, "provider": provider}
    assert found.or_replace == ("REPLACE" in pasted or pasted.startswith("UPDATE"))


@pytest.mark.parametrize("parameters", ['{{"system":"Be brief.",{}}}', '\'{{"system": "Be brief.", {}}}\''])
def test_parameters(parameters: str) -> None:
    """Parameters of a Flock model go into each request, under the provider's own name for the most tokens."""
    given = parameters.format('"temperature": -0.5, "max_tokens": 3, "stop": ["a", "b"]')
    found = _read(f"CREATE MODEL('m', 'gpt-5', 'openai', {{\"rate_limit\": 30, \"model_parameters\": {given}}})")
    options = dict(found.model_options)
    assert json.loads(str(options.pop("extra_body"))) == {
        "temperature": -0.5,
        "max_completion_tokens": 3,
        "stop": ["a", "b"],
    }
    assert options.pop("requests_per_minute") == 30
    assert options.pop("system_prompt") == "Be brief."
    assert set(options) == {"engine", "model", "provider"}


def test_most_tokens() -> None:
    """The older key for the most tokens of an answer goes into each request too."""
    found = _read("CREATE MODEL('m', 'm', 'ollama', {'max_output_tokens': 9, 'model_parameters': {'seed': 1}})")
    assert json.loads(str(dict(found.model_options)["extra_body"])) == {"max_tokens": 9, "seed": 1}


@pytest.mark.parametrize(
    ("pasted", "line"),
    [
        (f"CREATE MODEL({_OLLAMA}, {{'usage_limit': {{'total_tokens_limit': 5}}}})", "SET max_tokens = 50000"),
        (f"CREATE MODEL({_OLLAMA}, {{'unheard_of': 1}})", "'unheard_of' has no counterpart here: leave it out"),
        (f"CREATE MODEL({_OLLAMA}, 3)", "write CREATE MODEL('name', 'gpt-5', 'openai', "),
        (f"CREATE MODEL({_OLLAMA}", "write CREATE MODEL('name', 'gpt-5', 'openai', "),
        ("CREATE MODEL('m')", "write CREATE MODEL('name', 'gpt-5', 'openai', "),
        (f"CREATE MODEL({_OLLAMA}, {{'model_parameters': 3}})", "write CREATE MODEL('name', 'gpt-5', 'openai', "),
        (
            "CREATE MODEL d.m REMOTE WITH CONNECTION c OPTIONS (remote_service_type = 'CLOUD_AI_TRANSLATE_V3')",
            "write CREATE MODEL name OPTIONS (engine 'openai', model 'gemini-2.5-flash', provider 'gemini')",
        ),
        (
            "CREATE MODEL d.m REMOTE WITH CONNECTION c OPTIONS (endpoint = 'https://x/v1/endpoints/1')",
            "base_url 'http://127.0.0.1:8000/v1')",
        ),
        ("CREATE PROMPT('about')", "write CREATE PROMPT('name', 'a text with {{field}}')"),
    ],
)
def test_names_the_line(pasted: str, line: str) -> None:
    """A part without a counterpart is an error with the line to write; nothing is left out silently."""
    with pytest.raises(SqlError) as error:
        _read(pasted)
    assert line in str(error.value)


@pytest.mark.parametrize(
    ("pasted", "text"),
    [
        ("CREATE PROMPT('about', 'About {{Thing}} and {x}')", "About {thing} and {{x}}"),
        ("CREATE LOCAL PROMPT('about', 'x')", "x"),
        ("UPDATE PROMPT('about', 'x')", "x"),
    ],
)
def test_prompts(pasted: str, text: str) -> None:
    """A vendor's prompt names fields as this server does; single braces are text."""
    found = _read(pasted)
    assert (found.kind, found.key, found.value) == ("create_prompt", "about", text)


@pytest.mark.parametrize(
    ("pasted", "ours"),
    [
        ("GET MODELS", "SHOW MODELS"),
        ("GET PROMPTS", "SHOW PROMPTS"),
        ("DELETE MODEL 'm'", 'DROP MODEL "m"'),
        ("DELETE PROMPT 'm'", 'DROP PROMPT "m"'),
    ],
)
def test_lists(pasted: str, ours: str) -> None:
    """Flock's statements list and drop as ours."""
    found, expected = _read(pasted), _read(ours)
    assert (found.kind, found.query, found.key) == (expected.kind, expected.query, expected.key)


def test_one_model() -> None:
    """GET with a name has the row of this model."""
    found = _read("GET MODEL 'it''s'").query or ""
    assert found.endswith("models\" WHERE name = 'it''s'")


@pytest.mark.parametrize("change", ["UPDATE model SET a = 1", "DELETE FROM model", "UPDATE prompt SET text = 'x'"])
def test_tables(change: str) -> None:
    """A table can be called `model` or `prompt`."""
    assert _read(change).kind in {"update", "delete"}


@pytest.mark.parametrize("kind", ["SECRET", "PERSISTENT SECRET"])
def test_secrets(kind: str) -> None:
    """A secret is an error that says where keys are, and does not repeat the key."""
    with pytest.raises(SqlError, match="write api_key 'env:NAME'") as error:
        classify(ParsedText(f"CREATE {kind} (TYPE OPENAI, API_KEY 'sk-123')"))
    assert "sk-123" not in str(error.value)
