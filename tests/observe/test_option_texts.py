"""The values of secret options are hidden in any statement, with any quotes, comments and nesting."""

from itertools import product

import pytest

from flightllm.observe.statement_texts import shown_statement, without_its_secrets
from tests.counting import steps

SECRET = "Canary4711x"
QUOTED = (
    "'{}'",
    "E'{}'",
    "('{}')",
    "concat('{}', 'x')",
    '"{}"',
    "$${}$$",
    "{}",
    "'a''{}'",
    "“{}”",
    "$q$ab,{}$q$",
    "E'ab\\',{}'",
)
"""Forms of a value."""
STATEMENTS = (
    "CREATE TABLE t (a int) WITH (a = 1, password = {})",
    "CREATE OR REPLACE TABLE t (a int) TBLPROPERTIES (secret_key = {}, b = 2)",
    "CREATE VIEW v WITH (password={}) AS SELECT 1",
    "CREATE MATERIALIZED VIEW v WITH (connection.password = {}) AS SELECT a FROM t",
    "CREATE EXTERNAL TABLE t (a int) STORED AS CSV LOCATION 's3://lake/x' OPTIONS ('aws.secret_access_key' {})",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://lake/x' OPTIONS (access_token {})",
    "CREATE SECRET s (TYPE s3, ENDPOINT 'a', SECRET {})",
    "CREATE PERSISTENT SECRET IF NOT EXISTS s (TYPE s3, SECRET {}, REGION 'x')",
    "CREATE USER bob IDENTIFIED BY {}",
    "CREATE SERVER s OPTIONS (user 'me', password {})",
    "GRANT ALL ON t TO bob IDENTIFIED BY {}",
    "SET s3.secret_access_key = {}",
    "SET a.password TO {}",
    "SET PASSWORD FOR bob = {}",
    "COPY t TO 'x.csv' OPTIONS (format csv, secret_access_key {})",
    "COPY (SELECT 1) TO 'x' WITH (token = {})",
    "WITH x AS (SELECT 1) COPY x TO 'y' OPTIONS (secret_access_key {})",
    "SELECT * FROM read_csv('a.csv', secret_access_key => {})",
    "SELECT a FROM (SELECT * FROM scan(t, password := {}))",
    "INSERT INTO t SELECT * FROM f(a => 1, api_key => {})",
    "ATTACH 'x' AS y (TYPE postgres, PASSWORD {})",
    "PRAGMA encryption_key = {}",
    "ALTER TABLE t SET (sas_token = {})",
)
INSIDE = (
    "ATTACH 'host=h user=me password={}' AS db (TYPE postgres)",
    "SELECT * FROM dblink('host=h password={} port=1', 'SELECT 1')",
    "SELECT * FROM postgres_scan('host=h password = {}', 'public', 't')",
    "SELECT * FROM postgres_scan($$host=h password={}$$, 'public', 't')",
    "SELECT * FROM dblink('host=h password=''{}''', 'SELECT 1')",
    'SELECT connect(\'{{"user": "me", "password": "{}"}}\')',
    """SELECT connect('{{"Authorization": ["Bearer {}"]}}')""",
    'SELECT connect(\'{{"headers": {{"token": [ "{}"]}}}}\')',
    "SELECT connect('Authorization: Bearer {}')",
    "SET headers = 'Authorization: Bearer {}'",
    "SET headers = 'X-Api-Key: {}'",
    "SELECT f(a, api_key => $q$ab,{}$q$)",
    "SELECT odbc('DRIVER=x;UID=me;PWD={}')",
    "SELECT * FROM 'https://u:a\"{}@h/x.csv'",
    "SELECT * FROM 'https://u:a {}@h/x.csv'",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'http:/u:{}@h/x.csv'",
    "SELECT 1; EXPLAIN CREATE MODEL m OPTIONS (apikye '{}')",
    "CREATE MODLE m OPTIONS (apikye '{}')",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x' OPTIONS (\n -- 'aws.secret_access_key' '{}',\n 'a' 'b')",
    "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x' OPTIONS (/* secret_access_key {} */ 'a' 'b')",
    "SELECT 1 FROM nothere -- 'aws.secret_access_key' '{}'",
    "SELECT 1 /* token = {} */ FROM nothere",
    "INSERT INTO FUNCTION s3('https://lake/x.csv', 'a', '{}', 'CSV') SELECT 1",
    "INSERT INTO FUNCTION remoteSecure('h', 'db', 't', 'me', '{}') VALUES (1)",
    "SELECT * FROM s3('https://lake/x.csv', 'a', '{}')",
    "SELECT set_config('s3.secret_key', '{}', true)",
    "CREATE SUBSCRIPTION s CONNECTION 'host=h password={}' PUBLICATION p",
    "CREATE STAGE s CREDENTIALS=(AWS_KEY_ID='a' AWS_SECRET_KEY='{}')",
    "CREATE TABLE t (a int) ENGINE = MySQL('h:1', 'db', 't', 'me', '{}')",
)
"""Statements with a secret inside a text, or without a name."""
COMMENTS = ("", " /* c */ ", "-- it's a note\n", "/* a; 'b */")
NESTED = ("{}", "EXPLAIN {}", "SELECT 1; {}", "SELECT 'a;b', \"c\"; {}; SELECT 2", "({})", "SELEC 1;{}", "BEGIN;\n{}")


def _commented(text: str, comment: str, place: int) -> str:
    """Return a text with a comment at its start, after its first word, before a secret's name, or after an `=`."""
    if place == 0:
        return f"{comment}{text}"
    if place == 1:
        return text.replace(" ", f" {comment}", 1)
    if place == 2:
        return text.replace(" (", f" {comment}(")
    return text.replace("= ", f"= {comment}") if "= " in text else text.replace(" BY ", f" {comment}BY {comment}")


@pytest.mark.parametrize("statement", [*STATEMENTS, *INSIDE])
def test_no_form_of_a_secret_is_shown(statement: str) -> None:
    """A secret is hidden in the text of a statement and in an error that quotes the secret."""
    values = [one.format(SECRET) for one in QUOTED] if statement in STATEMENTS else [SECRET]
    forms = set()
    for value, comment, place, nested in product(values, COMMENTS, range(4 if statement in STATEMENTS else 3), NESTED):
        forms.add(nested.format(_commented(statement.format(value), comment, place)))
    shown = [text for text in forms if SECRET in shown_statement(text)]
    assert shown == []
    told = [text for text in forms if SECRET in without_its_secrets(f"not valid: {SECRET} at 3", text)]
    assert told == []


@pytest.mark.parametrize("statement", [one.replace(" FOR bob", "") for one in STATEMENTS])
def test_the_words_around_a_secret_stay(statement: str) -> None:
    """A text shows its other words, and a reference in the place of a secret."""
    first = statement.partition("{}")[0]
    assert shown_statement(statement.format("'x1'")).startswith(first.rstrip("= "))
    assert shown_statement(statement.format("'env:MY_KEY'")) == statement.format("'env:MY_KEY'")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT password FROM users WHERE token = 'x'",
        "SELECT token, count(*) FROM api_keys GROUP BY token HAVING max(key) > 'abc'",
        "SELECT ai_complete('Write this; then the key points: a token is a word', model => 'small') FROM t",
        "SELECT ai_filter('is the password of {a} weak? key facts only', note) FROM t WHERE key IN ('a', 'b')",
        "SELECT ai_complete($$List: name, key, secret (of each)$$) FROM t -- the password is in a vault\n",
        "INSERT INTO users (name, password) VALUES ('bob', 'hunter2x'), ('a;b', 'token 7')",
        "UPDATE users SET password = 'hunter2x' WHERE key = 'k'",
        "CREATE TABLE api_keys (id INT PRIMARY KEY, token TEXT DEFAULT 'abcdefgh', measurement_value_1 INT)",
        "CREATE INDEX i ON t (key)",
        "CREATE TABLE t AS SELECT * FROM s WHERE token = 'abc'",
        "COPY (SELECT * FROM users WHERE token = 'x') TO 'there.csv'",
        "COPY users (name, token) FROM 'here.csv' WITH (format csv)",
        "ALTER TABLE t ADD COLUMN token TEXT DEFAULT 'abc'",
        "GRANT SELECT (token) ON api_keys TO bob",
        "COMMENT ON COLUMN t.key IS 'the first key'",
        "MERGE INTO users USING n ON users.token = n.token WHEN MATCHED THEN UPDATE SET token = 'x'",
        "EXPLAIN (FORMAT json) SELECT model FROM cars WHERE model='Golf'",
        "EXPLAIN FORMAT TREE SELECT model FROM cars WHERE token='Golf'",
        "EXPLAIN (SELECT model FROM cars WHERE token='Golf')",
        "CREATE OR REPLACE ROW FILTER ON cars TO bob AS token <> 'Golf' AND model = 'Golf'",
        "CREATE COLUMN MASK ON cars (token) TO bob AS 'Golf model'",
        "CREATE MATERIALIZED VIEW v AS SELECT model, 'abc' AS token FROM cars",
        "CREATE UNLOGGED TABLE v AS SELECT model, 'abc' AS token FROM cars",
        "EXECUTE q('Golf model', 'token')",
        "SELECT ai_complete('Write pass=fail, code: 1 or the key: a word', model => 'small') FROM t",
        "SELECT redis(a, 'bcdef') FROM t",
        "SELECT https, a FROM t WHERE b = 'https://a.example:80 of me@a.example'",
        "SELECT a -- the key of the customers: a number\nFROM t /* all, the token is a column */",
        "SELECT a FROM t WHERE mode = 'fast' AND E'it\\'s' = $q$a, b$q$",
        "SET mode = 'fast'",
        "SELECT 'a' AS password, x::text FROM t WHERE a = 'it''s; set key to b'",
    ],
)
def test_ordinary_statements_stay(text: str) -> None:
    """Rows, prompts, columns and names of tables stay, although their names are those of secrets."""
    assert shown_statement(text) == text
    assert without_its_secrets(f"not valid: {text}", text) == f"not valid: {text}"


LONG = {
    "words": "foo " + "a 1 " * 250_000,
    "numbers": "SELECT " + "1," * 500_000 + ";SET x=1",
    "addresses": "COPY t FROM " + "'s3://me:secretx@lake/x'," * 40_000,
    "statements": "; create" * 125_000,
    "options": "SET (" + "password 'abcdefgh'," * 50_000,
    "a model": "CREATE MODEL m OPTIONS (" + "a 1," * 250_000,
    "comments": "SELECT 1 " + "/**/" * 250_000,
    "quotes": "-- x\nSELECT " + "'a'," * 250_000,
    "names": "SET k " + ".key" * 250_000,
    "tags": "SELECT " + "$a$ $b$ " * 100_000,
    "escapes": "SELECT " + "E'\\\\'" * 200_000,
    "logins": "SELECT '" + "a://u:a " * 100_000,
    "explained": "EXPLAIN " + "(format " * 100_000,
    "commented": "SELECT 1 " + "-- key 'a'\n" * 80_000,
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_text_is_not_read_whole(name: str) -> None:
    """The work for an error about a text of 1 MB is that of a few pages, also where the error quotes the text."""
    text = LONG[name]
    for message in ("no abcdefgh or secretx in customers", text):
        assert steps(lambda message=message: without_its_secrets(message, text)) < 400_000  # type: ignore[misc]


@pytest.mark.parametrize("place", [0, 1, 2_047, 2_048, 300_001, 600_000])
@pytest.mark.parametrize(
    "statement", ["SET (password {}, ", "SELECT f(secret_key => {}), ", "COPY t FROM 's3://me:{}@lake/x', "]
)
def test_a_secret_is_found_in_a_long_text(statement: str, place: int) -> None:
    """An error loses a secret at any place of a long text."""
    value = SECRET if "://" in statement else f"'{SECRET}'"
    text = "SET (" * ("SET" in statement) + "'a', " * (place // 5) + statement.format(value) + "'b', " * 100_000
    assert SECRET not in without_its_secrets(f"not valid: {SECRET}, and customers", text)
    assert without_its_secrets("not valid: customers", text) == "not valid: customers"


@pytest.mark.parametrize("option", ["timeout", "max_in_flight", "price_input", "engine", "api", "unknown", "reasoning"])
@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("'abcd efgh ijkl mnop'", "abcd efgh ijkl mnop"),
        ("'ab, cd; ef''gh'", "ab, cd; ef'gh"),
        (r"E'\x63anary\'pass word'", "canary'pass word"),
        ("$q$ab,cd, ef$q$", "ab,cd, ef"),
    ],
)
def test_an_error_quotes_no_value_whole(option: str, value: str, secret: str) -> None:
    """An error loses a value of short words, and a value with quotes or escapes."""
    sql = f"CREATE MODEL m OPTIONS (model 'x', {option} {value})"
    for quoted in (secret, repr(secret)):
        assert secret not in without_its_secrets(f"{option}: got {quoted}", sql)
        assert secret not in shown_statement(sql)


@pytest.mark.parametrize("text", ["SELECT * FROM https://u:a--{}@h/x.csv", "SELECT 1 FROM nothere -- sk-proj-{}"])
def test_a_secret_beside_a_comment_is_not_shown(text: str) -> None:
    """A `--` within an address begins no comment, and a comment shows no key."""
    assert SECRET not in shown_statement(text.format(SECRET))
