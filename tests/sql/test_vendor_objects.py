"""CREATE MODEL and CREATE PROMPT as other vendors spell them are errors with the statement to write."""

import pytest

from flightllm.errors import SqlError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


@pytest.mark.parametrize(
    ("pasted", "line"),
    [
        (
            "CREATE OR REPLACE MODEL `p.d.m` REMOTE WITH CONNECTION `p.us.c` OPTIONS (ENDPOINT = 'gemini-2.5-flash')",
            "CREATE MODEL \"p.d.m\" OPTIONS (engine 'openai', model 'gemini-2.5-flash', provider 'gemini')",
        ),
        (
            "CREATE MODEL d.m REMOTE WITH CONNECTION DEFAULT OPTIONS (endpoint = 'claude-sonnet-4')",
            "CREATE MODEL \"d.m\" OPTIONS (engine 'openai', model 'claude-sonnet-4', provider 'anthropic')",
        ),
        (
            "CREATE MODEL('ClaudeModel', 'claude-sonnet-4-5', 'anthropic', {\"tuple_format\": \"json\"})",
            "CREATE MODEL \"ClaudeModel\" OPTIONS (engine 'openai', model 'claude-sonnet-4-5', provider 'anthropic')",
        ),
        (
            "CREATE GLOBAL MODEL ('m', 'gpt-4o', 'openai')",
            "CREATE MODEL \"m\" OPTIONS (engine 'openai', model 'gpt-4o', provider 'openai')",
        ),
        ("CREATE PROMPT('about', 'About {{thing}}')", "CREATE PROMPT \"about\" AS 'About {thing}'"),
        ("CREATE LOCAL PROMPT('about', 'x')", "CREATE PROMPT \"about\" AS 'x'"),
    ],
)
def test_names_the_statement(pasted: str, line: str) -> None:
    """The error has a statement that the parser reads."""
    with pytest.raises(SqlError) as error:
        classify(ParsedText(pasted))
    assert str(error.value).endswith(f"write {line}")
    assert classify(ParsedText(line)).kind in {"create_model", "create_prompt"}


@pytest.mark.parametrize("kind", ["SECRET", "PERSISTENT SECRET"])
def test_secrets(kind: str) -> None:
    """A secret is an error that says where keys are, and does not repeat the key."""
    with pytest.raises(SqlError, match="write api_key 'env:NAME'") as error:
        classify(ParsedText(f"CREATE {kind} (TYPE OPENAI, API_KEY 'sk-123')"))
    assert "sk-123" not in str(error.value)
