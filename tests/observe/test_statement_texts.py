"""The query log shows no secret of a statement, valid or not."""

import pytest

from flightllm.common.redaction import keep_secret
from flightllm.observe.statement_texts import shown_statement, without_its_secrets

_OF_OTHER_SYSTEMS = (
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://lake/x' OPTIONS ('aws.secret_access_key' 'CANARY')",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://me:CANARY-1@lake/x'",
    "CREATE TABLE t USING jdbc OPTIONS (url 'jdbc:x', password 'CANARY')",
    "CREATE TABLE t (a INT) WITH (access_token = 'CANARY')",
    "CREATE SECRET s (TYPE S3, KEY_ID 'CANARY', SECRET 'CANARY')",
    "COPY t FROM 's3://lake/x' CREDENTIALS 'aws_secret_access_key=CANARY'",
    "SET aws.secret_access_key TO 'CANARY'",
    "SET PASSWORD FOR bob = 'CANARY'",
    "/* x */ CREATE OR REPLACE USER bob PASSWORD 'CANARY'",
    "ALTER USER bob IDENTIFIED BY 'CANARY'",
    'ALTER ROLE bob WITH PASSWORD "CANARY"',
    "ATTACH 'postgres://me:CANARY-1@h/db' AS other",
    "SELECT 1; CREATE SECRET s (SECRET 'CANARY')",
    "SELECT * FROM 'https://a.example/x.parquet?sig=CANARY-1&v=2'",
    "EXPLAIN SELECT * FROM read_csv('https://CANARY-1@a.example/x.csv')",
)


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
        *_OF_OTHER_SYSTEMS,
    ],
)
def test_secrets_are_hidden(text: str) -> None:
    """A secret is hidden by the syntax around it; the other words stay."""
    shown = shown_statement(text)
    assert "CANARY" not in shown
    assert shown.split()[0] in text
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
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://lake/x/' OPTIONS ('delimiter' ';', 'null' 'NA')",
        "CREATE VIEW v AS SELECT * FROM t WHERE password = 'abcdefgh'",
        "CREATE TABLE t (token TEXT DEFAULT 'abcdefgh')",
        "SET timezone TO 'UTC'",
        "SELECT 'see https://a.example/page?q=words and me@a.example'",
    ],
)
def test_other_texts_stay(text: str) -> None:
    """References and queries are shown as they are."""
    assert shown_statement(text) == text


@pytest.mark.parametrize("begins", ["SELECT '", "COPY t FROM '", "CREATE MODEL m OPTIONS (engine 'openai', model '"])
def test_a_cut_divides_no_secret(begins: str) -> None:
    """Wherever a text is cut, no part of a secret or of an address with a login stays."""
    keep_secret("canary-within-a-text")
    text = f"{begins}{'x' * 40}', 'canary-within-a-text', 'http://me:canary-within@a.example/', '{'y' * 5_000}')"
    for most in range(len(begins), 200):
        assert "canar" not in shown_statement(text, most)
    assert len(shown_statement(text, 100)) <= 101
    assert shown_statement("SELECT 1", 100) == "SELECT 1"


def test_an_error_loses_what_the_text_hides() -> None:
    """An error that quotes an option's value, or a part of an address, loses it."""
    sql = "COPY t FROM 's3://me:CANARY-1@lake/x' CREDENTIALS 'aws_secret_access_key=CANARY-2'"
    assert without_its_secrets("no 'CANARY-1', no CANARY-2 at lake", sql) == "no '***', no *** at lake"
