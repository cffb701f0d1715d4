"""The query log shows no secret of a statement, valid or not."""

import pytest

from flightllm.observe.statement_texts import shown_statement, without_its_secrets


@pytest.mark.parametrize(
    "text",
    [
        "CREATE MODEL m OPTIONS (engine 'openai', model 'x', api_key 'sk-CANARY')",
        "create or replace model m with (engine 'openai', api_key = 'sk-CANARY')",
        "CREATE MODEL m OPTIONS (engine 'openai', api_key 'sk-CANARY, model 'x')",
        "CREATE MODEL m OPTIONS (engine 'openai', cache_blocks sk-CANARY)",
        "CREATE MODEL m OPTIONS (engine 'openai', cache_blocks = 12sk-CANARY, timeout 3)",
        "CREATE MODEL m OPTIONS (engine sk_CANARY)",
        "CREATE MODEL m OPTIONS (engine 'openai', api_key sk-CANARY-1)",
        "CREATE MODEL m OPTIONS (engine 'openai', api_key “sk-CANARY”)",
        'CREATE MODEL m OPTIONS (engine \'openai\', "api_key" "sk-CANARY")',
        "CREATE MODEL m OPTIONS (base_url 'http://u:CANARY@h/v1')",
        "CREATE MODEL m OPTIONS (base_url 'http://h/v1?api_key=CANARY')",
        """CREATE MODEL m OPTIONS (headers '{"X-Team": "CANARY"}')""",
        "CREATE MODEL m OPTIONS (organization 'CANARY')",
        "CREAT MODEL m OPTIONS (api_key 'CANARY')",
        "EXPLAIN CREATE MODEL m OPTIONS (api_key 'CANARY')",
        "ALTER MODEL m SET (api_key 'CANARY')",
        "SELECT 1; CREATE MODEL m OPTIONS (api_key 'CANARY')",
        "/* the key is CANARY */ CREATE MODEL m OPTIONS (api_key $$CANARY$$)",
        "CREATE MODEL m OPTIONS (api_key 'it''s CANARY')",
    ],
)
def test_secrets_are_hidden(text: str) -> None:
    """A secret is hidden by the syntax around it; the other words stay."""
    shown = shown_statement(text)
    assert "CANARY" not in shown
    assert "MODEL" in shown.upper()
    assert "sk-CANARY'" not in without_its_secrets("syntax error near 'sk-CANARY'", text) or "sk-CANARY'" not in text


@pytest.mark.parametrize(
    "text",
    [
        "CREATE MODEL m OPTIONS (engine 'openai', model 'gpt', api_key 'env:MY_KEY', max_in_flight 2)",
        "SELECT key, 'a model' FROM t WHERE token = 'abcdefgh'",
        "INSERT INTO t VALUES ('create a model with key abcdefgh')",
        "SELECT ai_complete(text, model => 'small') FROM t",
        "COMMENT ON TABLE model IS 'hello there'",
        "-- of a tool\n/* and\nmore */ (SELECT count(*) FROM replicas WHERE model = 'default')",
        "CREATE TABLE t (model TEXT, city TEXT DEFAULT 'Amsterdam')",
        "SHOW TABLES LIKE 'model%'",
        "COPY (SELECT 'column table found' FROM model) TO 'there.csv'",
    ],
)
def test_other_texts_stay(text: str) -> None:
    """References and queries are shown as they are."""
    assert shown_statement(text) == text
