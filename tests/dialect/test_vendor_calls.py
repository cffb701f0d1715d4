"""AI functions as vendors spell them do what ours do; what would do something else names the line to write."""

from dataclasses import replace

import pytest

from flightllm.dialect import rewrite
from flightllm.errors import FlightLLMError, SqlError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask
from tests.dialect.places import EMPTY

_PERSONAL = (
    "['name', 'email', 'phone number', 'date of birth', 'gender', 'age', 'address', 'national id', 'passport',"
    " 'tax identifier', 'payment card data', 'driver''s license', 'IP address']"
)
_ASKED = (
    '{"type": "object", "properties": {"thing": {"type": ["string", "null"], "description":'
    ' "What is liked?"}}, "required": ["thing"]}'
)
_TYPED = (
    '{"type": "object", "properties": {"thing": {"type": "string"}, "n": {"type": "integer"}}, "required":'
    ' ["thing", "n"]}'
)
_VALUE = '{{"type": "object", "properties": {{"value": {{"type": "{}"}}}}, "required": ["value"]}}'

SNOWFLAKE = [
    ("AI_FILTER(PROMPT('Is it tea? {0}', note))", "ai_filter('Is it tea? {note}', note)"),
    ("AI_CLASSIFY(note, ['a', 'b']):labels[0]", "ai_classify(note, ['a', 'b'])"),
    ("AI_CLASSIFY(note, ['a', 'b']):labels[0]::string", "ai_classify(note, ['a', 'b'])"),
    ("(AI_CLASSIFY(note, ['a', 'b'])):labels[0]", "ai_classify(note, ['a', 'b'])"),
    ("AI_CLASSIFY(note, ['a', 'b'])['labels'][0]", "ai_classify(note, ['a', 'b'])"),
    ("AI_CLASSIFY(note, ['a', 'b']):labels", "CASE WHEN note IS NOT NULL THEN [ai_classify(note, ['a', 'b'])] END"),
    ("AI_CLASSIFY(note, ['a', 'b'])['labels']", "CASE WHEN note IS NOT NULL THEN [ai_classify(note, ['a', 'b'])] END"),
    ("AI_EXTRACT(note, ['thing'])['response']['thing']", "ai_extract(note, ['thing']).thing"),
    ("SNOWFLAKE.CORTEX.CLASSIFY_TEXT(note, ['a', 'b'])['label']", "ai_classify(note, ['a', 'b'])"),
    (
        "SNOWFLAKE.CORTEX.COMPLETE('default', 'Sum up: ' || note)['choices'][0]['messages']",
        "ai_gen('Sum up: ' || note)",
    ),
    (
        "AI_CLASSIFY(note, [{'label': 'a', 'description': 'tea'}, {'label': 'b'}])",
        "ai_classify(note, [{'label': 'a', 'description': 'tea'}, {'label': 'b'}])",
    ),
    (
        "AI_CLASSIFY(note, ['a', 'b'], {'output_mode': 'multi'}):labels",
        "ai_classify(note, ['a', 'b'], multi => true)",
    ),
    (
        "AI_CLASSIFY(note, ['a', 'b'], {'output_mode': 'multi'}):labels[0]",
        "ai_classify(note, ['a', 'b'], multi => true)[1]",
    ),
    (
        "AI_CLASSIFY(note, ['a', 'b'], {'task_description': 'It''s short.', 'output_mode': 'single'})",
        "ai_classify(note, ['a', 'b'], instructions => 'It''s short.')",
    ),
    ("AI_COMPLETE('default', 'Sum up: ' || note)", "ai_gen('Sum up: ' || note)"),
    ("AI_COMPLETE('default', PROMPT('Sum up: {0}', note))", "ai_gen('Sum up: {note}', note)"),
    (
        "AI_COMPLETE('default', 'Sum up: ' || note, {'temperature': 0, 'max_tokens': 9, 'guardrails': FALSE})",
        "ai_gen('Sum up: ' || note, max_tokens => 9)",
    ),
    (
        "AI_COMPLETE(model => 'default', prompt => 'Sum up: ' || note, model_parameters => {'max_tokens': 9})",
        "ai_gen('Sum up: ' || note, max_tokens => 9)",
    ),
    (
        (
            "AI_COMPLETE(model => 'default', prompt => 'Sum up: ' || note, response_format => {'type': 'json',"
            " 'schema': {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}})"
        ),
        (
            "ai_gen('Sum up: ' || note, response_format =>"
            """ '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}')"""
        ),
    ),
    ("AI_REDACT(note, ['NAME', 'EMAIL'])", "ai_mask(note, ['NAME', 'EMAIL'])"),
    ("AI_REDACT(note)", f"ai_mask(note, {_PERSONAL})"),
    ("AI_EXTRACT(text => note, responseFormat => ['thing', 'mood'])", "ai_extract(note, ['thing', 'mood'])"),
    (
        "AI_EXTRACT(text => note, responseFormat => {'thing': 'What is liked?'}):response.thing",
        f"ai_extract(note, '{_ASKED}').thing",
    ),
    (
        "AI_EXTRACT(text => note, responseFormat => [['thing', 'What is liked?']]):response:thing::string",
        f"ai_extract(note, '{_ASKED}').thing",
    ),
    ("AI_EXTRACT(note, ['thing']):response", "ai_extract(note, ['thing'])"),
    ("AI_TRANSLATE(note, 'fr', 'en')", "ai_translate(note, 'en')"),
    ("AI_TRANSLATE(note, NULL, 'en')", "ai_translate(note, 'en')"),
    ("AI_SENTIMENT(note):categories[0].sentiment::varchar", "ai_sentiment(note)"),
    ("SNOWFLAKE.CORTEX.COMPLETE('default', 'Sum up: ' || note)", "ai_gen('Sum up: ' || note)"),
    ("SNOWFLAKE.CORTEX.TRY_COMPLETE('default', 'Sum up: ' || note)", "ai_gen('Sum up: ' || note)"),
    ("SNOWFLAKE.CORTEX.SUMMARIZE(note)", "ai_summarize(note)"),
    ("snowflake.cortex.translate(note, 'en', 'fr')", "ai_translate(note, 'fr')"),
    ("SNOWFLAKE.CORTEX.CLASSIFY_TEXT(note, ['a', 'b']):label", "ai_classify(note, ['a', 'b'])"),
    ("SNOWFLAKE.CORTEX.AI_FILTER(PROMPT('Is it tea? {0}', note))", "ai_filter('Is it tea? {note}', note)"),
    ("SNOWFLAKE.CORTEX.AI_CLASSIFY(note, ['a', 'b']):labels[0]", "ai_classify(note, ['a', 'b'])"),
]
BIGQUERY = [
    ("AI.IF(('Is it tea? ', note))", "ai_if('Is it tea? ' || note)"),
    ("AI.IF(prompt => ('Is it tea? ', note), connection_id => 'us.c')", "ai_if('Is it tea? ' || note)"),
    ("AI.IF(connection_id => 'us.c', prompt => ('Is it tea? ', note))", "ai_if('Is it tea? ' || note)"),
    (
        "AI.IF(connection_id => AI.GENERATE('x').result, request_type => 'shared', prompt => ('Is it? ', note))",
        "ai_if('Is it? ' || note)",
    ),
    ("AI.IF(STRUCT('Is it tea? ', note))", "ai_if('Is it tea? ' || note)"),
    ("AI.IF((name, ' is glad: ', upper(note), id + 1))", "ai_if(name || ' is glad: ' || upper(note) || (id + 1))"),
    ("AI.IF((id, score, ' is a lot'))", "ai_if('' || id || score || ' is a lot')"),
    ("AI.SCORE(('How glad? ', note))", "ai_score('How glad? ' || note)"),
    ("AI.CLASSIFY(note, categories => ['a', 'b'])", "ai_classify(note, ['a', 'b'])"),
    ("AI.CLASSIFY(note, ['a', 'b'], output_mode => 'multi')", "ai_classify(note, ['a', 'b'], multi => true)"),
    (
        "AI.CLASSIFY(('About: ', note), categories => [('a', 'tea'), ('b', 'rain')])",
        "ai_classify('About: ' || note, [('a', 'tea'), ('b', 'rain')])",
    ),
    ("AI.GENERATE(('Sum up: ', note)).result", "ai_gen('Sum up: ' || note)"),
    ("(AI.GENERATE(('Sum up: ', note))).result", "ai_gen('Sum up: ' || note)"),
    ("CASE WHEN true THEN (AI.GENERATE(('Sum up: ', note))).result END", "ai_gen('Sum up: ' || note)"),
    ("NOT (AI.GENERATE_BOOL(('Is it tea? ', note))).result", "NOT ai_filter('Is it tea? ' || note)"),
    ("AI.GENERATE(('Sum up: ', note), endpoint => 'default').result", "ai_gen('Sum up: ' || note)"),
    (
        "AI.GENERATE(('Sum up: ', note), output_schema => 'thing STRING, n INT64').thing",
        f"ai_gen('Sum up: ' || note, response_format => '{_TYPED}').thing",
    ),
    ("AI.GENERATE_BOOL(('Is it tea? ', note)).result", "ai_filter('Is it tea? ' || note)"),
    (
        "AI.GENERATE_INT(('How many? ', note)).result",
        f"ai_gen('How many? ' || note, response_format => '{_VALUE.format('integer')}').value",
    ),
    (
        "AI.GENERATE_DOUBLE(('How many? ', note)).result",
        f"ai_gen('How many? ' || note, response_format => '{_VALUE.format('number')}').value",
    ),
    (
        "AI.GENERATE_INT(AI.GENERATE_INT(('How many? ', note)))",
        (
            f"ai_gen(ai_gen('How many? ' || note, response_format => '{_VALUE.format('integer')}').value,"
            f" response_format => '{_VALUE.format('integer')}').value"
        ),
    ),
    (
        "AI.IF(('Is it good? ', AI.GENERATE(('Sum up: ', note)).result))",
        "ai_if('Is it good? ' || ai_gen('Sum up: ' || note))",
    ),
]
DATABRICKS = [
    ("ai_query('default', 'Sum up: ' || note)", "ai_gen('Sum up: ' || note)"),
    ("ai_query(endpoint => 'default', request => 'Sum up: ' || note)", "ai_gen('Sum up: ' || note)"),
    (
        "ai_query('default', 'Sum up: ' || note, modelParameters => named_struct('max_tokens', 9))",
        "ai_gen('Sum up: ' || note, max_tokens => 9)",
    ),
    (
        "ai_query('default', 'Sum up: ' || note, returnType => 'STRUCT<thing: STRING, n: INT>')",
        f"ai_gen('Sum up: ' || note, response_format => '{_TYPED}')",
    ),
    ("ai_query('default', 'Sum up: ' || note, returnType => 'STRING')", "ai_gen('Sum up: ' || note)"),
    (
        "ai_query('default', 'Sum up: ' || note, failOnError => true)",
        "ai_gen('Sum up: ' || note, on_error => 'fail')",
    ),
    ("ai_classify(note, ARRAY('a', 'b'))", "ai_classify(note, ['a', 'b'])"),
    ("ai_analyze_sentiment(note)", "ai_sentiment(note)"),
    ("ai_extract(note, ARRAY('thing', 'mood'))", "ai_extract(note, ['thing', 'mood'])"),
    ("ai_mask(note, ARRAY('person', 'email'))", "ai_mask(note, ['person', 'email'])"),
    ("ai_summarize(note, 20)", "ai_summarize(note, max_words => 20)"),
    ("ai_summarize(note, 0)", "ai_summarize(note)"),
    ("ai_classify(note, ARRAY('a', 'b')):response[0]", "ai_classify(note, ['a', 'b'])"),
]
REFUSED = [
    ("AI.GENERATE_BOOL(MODEL demo, note).result", "write AI.GENERATE_BOOL(note, endpoint => 'demo')"),
    ("AI_SENTIMENT(note, name)", "ai_classify(note, ['positive', 'negative', 'neutral', 'mixed']"),
    ("AI_CLASSIFY(note, ['a', 'b']):labels::string", "write :labels[0]"),
    ("SNOWFLAKE.CORTEX.SPLIT_TEXT_RECURSIVE_CHARACTER(note, 'none', 9)", "write one row for each piece"),
    ("AI_CLASSIFY(note, ['a', 'b']):label", ":label does not exist"),
    ("AI_CLASSIFY(note, ['a', 'b'], {'colour': 'red'})", "the option 'colour' is not known here"),
    ("AI_COMPLETE('default', note, {'guardrails': TRUE})", "the option 'guardrails' is not known here"),
    *(
        (call, "the option 'response_format' is not known here, because its answer has one form: leave it out")
        for call in (
            "AI_FILTER(PROMPT('Good? {0}', note), {'response_format': 'x'})",
            "AI_CLASSIFY(note, ['a', 'b'], {'response_format': 'x'})",
            "AI_SUMMARIZE(note, {'response_format': 'x'})",
            """AI.IF(('Good? ', note), model_params => JSON '{"generation_config":{"response_format":"x"}}')""",
            """AI.SCORE(('Good? ', note), model_params => JSON '{"generation_config":{"response_format":"x"}}')""",
            *(
                f"""llm_{name}({{'model_name': 'm', 'model_parameters': '{{"response_format": "x"}}'}},"""
                " {'prompt': 'Best?', 'context_columns': [{'data': note}]})"
                for name in ("filter", "first", "last", "rerank")
            ),
        )
    ),
    ("AI_FILTER(note, {'max_words': 3})", "the option 'max_words' is not known here"),
    ("AI_TRANSLATE(note, name, 'fr')", "write ai_translate(note, 'fr')"),
    ("AI_TRANSLATE(note, AI.GENERATE('x').result, 'fr')", "write ai_translate(note, 'fr')"),
    ("AI_COUNT_TOKENS('ai_complete', 'llama', note)", "ai_count_tokens(note)"),
    ("SNOWFLAKE.CORTEX.EXTRACT_ANSWER(note, 'Who?')[0]:answer", "ai_gen('Who?', note)"),
    ("SNOWFLAKE.CORTEX.COUNT_TOKENS('llama', note)", "ai_count_tokens(note)"),
    ("AI.SCORE(('How glad, from 1 to 5? ', note))", "low => 1, high => 5"),
    ("AI.SCORE(('How glad, from -1 to 1? ', note))", "low => -1, high => 1"),
    ("AI.SCORE(('How glad, 0.5 - 2.5? ', note))", "low => 0.5, high => 2.5"),
    ("AI.GENERATE(('Sum up: ', note)).full_response", "leave it out"),
    ("AI.GENERATE(('Sum up: ', note), output_schema => 'thing')", "response_format => with a JSON Schema"),
    ("AI.IF(('Is it tea? ', note), endpont => 'm')", "'endpont' is not known here: write one of prompt"),
    ("AI.GENERATE(('Sum up: ', note), output_schem => 'a STRING')", "'output_schem' is not known here"),
    ("ai_query(endpoint => 'default', request => note, temp => 'x')", "'temp' is not known here"),
    ("ai_query('default', note, 'STRING', true, 5)", "it takes 4 values without a name"),
    ("ai.if('Is it tea? ' || note, score)", "its second value is the name of a model"),
    ("AI.GENERATE_TEXT('default', CONCAT('Sum up: ', note))", "(CONCAT('Sum up: ', note), model => 'default')"),
    (
        "AI.GENERATE(MODEL demo, STRUCT('Sum up: ' AS a, note AS prompt))",
        "write AI.GENERATE(('Sum up: ', note), endpoint => 'demo')",
    ),
    ("ML.GENERATE_EMBEDDING(MODEL m, CONCAT(name, note) AS content)", "ai_embed(CONCAT(name, note))"),
    ("ai_query('databricks-gte-large-en', note)", "ai_embed(note)"),
    ("ai_query(endpoint => 'databricks-bge-large-en', request => note)", "ai_embed(note)"),
    ("fusion_rrf(id, score)", "write coalesce(1.0 / (60 + id), 0) + coalesce(1.0 / (60 + score), 0)"),
    ("fusion_combsum(id, score)", "coalesce(id, 0) + coalesce(score, 0)"),
    ("open_prompt(note)", "ai_gen(note)"),
    ("ai_query('default', note, 'returnType', 'STRING')", "write returnType => 'STRING'"),
    ("ai_query('default', note, '{\"max_tokens\": 9}')", "write modelParameters => named_struct('max_tokens', 300)"),
    ("ai.ollama_generate('default', note)->'response'", "write ->>'response' after the call"),
    (
        "llm_embedding({'model_name': 'm'}, [{'data': note}])",
        "write {'context_columns': [{'data': note}]}",
    ),
    ("azure_ai.set_setting('azure_openai.endpoint', 'a')", "write CREATE MODEL m OPTIONS (engine 'openai'"),
    ("ai.load_dataset('a')", "write CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'folder'"),
    ("AI_SUMMARIZE_AGG(note, modl => 'm')", "the option 'modl' is not known here"),
    ("AI_COMPLETE('default', note, model_paramters => {'seed': 1})", "write model_parameters, or leave it out"),
    (
        "llm_complete({'model_name': 'default'}, {'prompt': 'x', 'context_columns': [{'data': note, 'nme': 'n'}]})",
        "the column's key 'nme' is not known here",
    ),
    ("azure_ai.generate('Sum up: ' || note, 'default', 1)", "it takes 2 values without a name"),
    ("ai.ollama_generate('default', 'tea?', raw_response => true)->>'response'", "'raw_response' is not known here"),
    ("AI.IF(('Is it tea? ', note), optimization_mode => 'MINIMIZE_COST')", "recall => 0.95"),
    ("AI.IF(STRUCT('Is it tea? ' AS a, note AS b))", "write ('a text', column)"),
    ("AI.EMBED(note)", "ai_embed(note)"),
    ("ai_query('default', note, returnType => 'INT')", "CAST the result of the call"),
]
TABLES = [
    ("ML.GENERATE_TEXT(MODEL demo, TABLE people, STRUCT(40 AS top_k))", "top_k has no counterpart here: leave it out"),
    ("ML.GENERATE_TEXT(MODEL demo, TABLE people, STRUCT('x' AS prompt))", "no function here reads files"),
    ("ML.GENERATE_TEXT(MODEL demo, people)", "write (SELECT … AS prompt)"),
    ("ML.GENERATE_TEXT(demo, TABLE people)", "write (MODEL name, (SELECT text AS prompt FROM t), STRUCT(…))"),
    ("ML.GENERATE_TEXT(MODEL demo, TABLE people, STRUCT(note AS prompt))", "write (SELECT *, note AS prompt FROM t)"),
    ("AI.GENERATE_TABLE(MODEL demo, TABLE people)", "write STRUCT('city STRING' AS output_schema)"),
    ("AI.GENERATE_TEXT(MODEL demo, TABLE people, STRUCT(0))", "write STRUCT(0 AS temperature)"),
    ("AI.GENERATE_TEXT(MODEL demo, TABLE people, STRUCT(score AS temperature))", "must be constants"),
    ("ai_forecast(TABLE(people), horizon => '2025-01-01')", "no function here forecasts"),
]


def _answers(session: Session, expression: str) -> list[object]:
    query = f"SELECT id, {expression} AS answer FROM people ORDER BY id"
    return [row["answer"] for row in ask(session, query).rows]


@pytest.mark.parametrize(("pasted", "ours"), [*SNOWFLAKE, *BIGQUERY, *DATABRICKS])
def test_does_what_ours_does(session: Session, pasted: str, ours: str) -> None:
    """A vendor's spelling gives each row the answer that ours gives, NULL where its text is NULL."""
    found = _answers(session, pasted)
    assert found == _answers(session, ours)
    assert any(answer is not None for answer in found)
    assert found[3] is None  # its note is


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "databricks", "duckdb", "postgres", "spark"])
@pytest.mark.parametrize(
    "call",
    [
        "ai_classify(note, labels => '[\"a\", \"b\"]', multi => true, instructions => 'Be {{x}}', temperature => 0)",
        "ai_gen('Sum up: ' || note, max_tokens => 9, instructions => 'x', on_error => 'struct', seed => 5)",
        "ai_summarize(note, max_words => 9, instructions => 'Be brief')",
    ],
)
def test_options_in_each_dialect(session: Session, dialect: str, call: str) -> None:
    """A call can have any number of options, whichever dialect is set."""
    query = f"SELECT id, {call} AS a FROM people ORDER BY id"
    assert ask(session, query, dialect=dialect).rows == ask(session, query).rows


def test_value_and_error_as_databricks(session: Session) -> None:
    """`on_error => 'result'` has Databricks' names of the value and the error."""
    call = "ai_gen('Sum up: ' || note, on_error => '{}')"
    query = "SELECT ({0}).{1} AS value, ({0}).{2} AS error FROM people ORDER BY id"
    theirs = ask(session, query.format(call.format("result"), "result", "errorMessage")).rows
    assert theirs == ask(session, query.format(call.format("struct"), "value", "error")).rows
    assert any(row["value"] for row in theirs)


@pytest.mark.parametrize(("pasted", "line"), REFUSED)
def test_refused_with_the_line(session: Session, pasted: str, line: str) -> None:
    """What would give other values is refused, at its place, with what to write."""
    with pytest.raises(FlightLLMError) as error:
        session.execute(f"SELECT id,\n  {pasted} FROM people")
    assert line in str(error.value)
    assert " at 2:3" in str(error.value)


@pytest.mark.parametrize(
    "line", sorted({line for _, line in REFUSED if line[-1] == ")" and line[:4] in {"ai_g", "ai_s", "ai_c"}})
)
def test_lines_run(session: Session, line: str) -> None:
    """The line that a refusal names runs as it stands."""
    aggregate = any(name in line for name in ("string_agg", "ai_agg", "ai_summarize_agg"))
    found = ask(session, f"SELECT {line} AS a FROM people {'GROUP BY name' if aggregate else ''}").rows
    assert len(found) == (6 if aggregate else 9)


@pytest.mark.parametrize(("pasted", "line"), TABLES)
def test_refused_in_from(session: Session, pasted: str, line: str) -> None:
    """What functions that make tables do not take is an error that says what to write."""
    with pytest.raises(FlightLLMError) as error:
        session.execute(f"SELECT * FROM {pasted}")
    assert line in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        "ml_generate_text_result['candidates'][0]['content']['parts'][0]['text']",
        "ml_generate_text_result.candidates[0].content.parts[0].text",
        "JSON_VALUE(ml_generate_text_result, '$.candidates[0].content.parts[0].text')",
        "ml_generate_text_result['predictions'][0]['content']",
        "JSON_VALUE(ml_generate_text_result, '$.predictions[0].content')",
    ],
)
def test_paths_to_the_text(session: Session, path: str) -> None:
    """Each way to the text in the response of ML.GENERATE_TEXT gives the text."""
    query = f"SELECT id, {path} AS a FROM ML.GENERATE_TEXT(MODEL demo, (SELECT note AS prompt, id FROM people))"
    found = {row["id"]: row["a"] for row in ask(session, query, dialect="bigquery").rows}
    plain = ask(session, "SELECT id, ai_gen('' || note) AS a FROM people")
    assert found == {row["id"]: row["a"] for row in plain.rows}


@pytest.mark.parametrize(
    ("call", "ours"),
    [
        ("AI.GENERATE(note)", "AI.GENERATE(note).result"),
        ("AI.GENERATE_BOOL(('Is it tea? ', note))", "ai_filter('Is it tea? ' || note)"),
        ("AI.GENERATE_INT(('How many? ', note))", "AI.GENERATE_INT(('How many? ', note)).result"),
        ("AI.GENERATE_DOUBLE(('How much? ', note))", "AI.GENERATE_DOUBLE(('How much? ', note)).result"),
    ],
)
def test_results_of_a_name(session: Session, call: str, ours: str) -> None:
    """A query reads `.result` of the name that a CTE gives to a call."""
    query = f"WITH c AS (SELECT id, {call} AS g FROM people) SELECT g.result AS a FROM c ORDER BY id"
    assert [row["a"] for row in ask(session, query, dialect="bigquery").rows] == _answers(session, ours)


def test_status_of_a_name(session: Session) -> None:
    """The status of a call whose result has a name is an error that says where to read it."""
    query = "WITH c AS (SELECT AI.GENERATE(note) AS g FROM people) SELECT g.result AS a, g.status AS b FROM c"
    with pytest.raises(SqlError, match="write the call again with"):
        ask(session, query, dialect="bigquery")


def test_rows_without_a_name(session: Session) -> None:
    """A join with USING can follow a call in FROM that has no name."""
    call = "ML.GENERATE_TEXT(MODEL demo, (SELECT id, note AS prompt FROM people), STRUCT(TRUE AS flatten_json_output))"
    query = "SELECT o.id, ml_generate_text_llm_result AS a FROM {} LEFT JOIN people AS o USING (id) ORDER BY 1"
    found = ask(session, query.format(call), dialect="bigquery").rows
    assert found == ask(session, "SELECT id, ai_gen('' || note, model => 'demo') AS a FROM people ORDER BY 1").rows
    assert found == ask(session, query.format(f"{call} AS g"), dialect="bigquery").rows


def test_vectors(session: Session) -> None:
    """A cast to a vector keeps a list of its length; another one is an error."""
    query = "SELECT VECTOR_INNER_PRODUCT([1, 2]::VECTOR(FLOAT, 2), [3, 4]::VECTOR(INT, 2)) AS p"
    assert ask(session, query, dialect="snowflake").rows == [{"p": 11.0}]
    for value in ("[1, 2, 3]", "note"):
        with pytest.raises(FlightLLMError, match="write a list of this many numbers"):
            ask(session, f"SELECT {value}::VECTOR(FLOAT, 2) AS p FROM people", dialect="snowflake")


@pytest.mark.parametrize("path", ["$.usage_metadata.total_token_count", "$.candidates[0].finish_reason"])
def test_other_parts_of_a_response(session: Session, path: str) -> None:
    """A path to a part of the response that is not here is an error, and not NULL."""
    query = f"SELECT JSON_VALUE(ml_generate_text_result, '{path}') FROM ML.GENERATE_TEXT(MODEL demo, TABLE people)"
    with pytest.raises(FlightLLMError, match="leave it out; system"):
        ask(session, query, dialect="bigquery")


def test_tables_in_queries(session: Session) -> None:
    """Functions that make tables stand in CTEs and joins, and their queries contain calls."""
    query = (
        "WITH c AS (SELECT * FROM AI.GENERATE_TEXT(MODEL demo, (SELECT AI.GENERATE(note).result AS prompt, id FROM"
        " people))) SELECT p.id, c.result, b.result AS other FROM people AS p JOIN c ON c.id = p.id JOIN"
        " ML.GENERATE_TABLE(MODEL demo, (SELECT id, prompt FROM c), STRUCT('''result STRING,\n n INT64''' AS"
        " output_schema)) AS b ON b.id = p.id"
    )
    found = ask(session, query, dialect="bigquery").rows
    assert len(found) == 9
    assert any(row["result"] and row["other"] for row in found)


@pytest.mark.parametrize(
    "pasted", ["AI.GENERATE(('Sum up: ', note)).result", "AI_CLASSIFY(note, ['a', 'b']):labels[0]"]
)
def test_kept_in_views_and_changes(session: Session, pasted: str) -> None:
    """A view, a table and an UPDATE take vendors' spellings too."""
    session.update(f"CREATE OR REPLACE VIEW v AS SELECT id, {pasted} AS a FROM people")
    session.update(f"CREATE OR REPLACE TABLE kept AS SELECT id, note, {pasted} AS a FROM people")
    expected = _answers(session, pasted)
    for table in ("v", "kept"):
        assert [row["a"] for row in ask(session, f"SELECT a FROM {table} ORDER BY id").rows] == expected
    session.update("UPDATE kept SET a = NULL")
    session.update(f"UPDATE kept SET a = {pasted}")
    assert [row["a"] for row in ask(session, "SELECT a FROM kept ORDER BY id").rows] == expected


def test_errors_keep_their_place(session: Session) -> None:
    """An error after a rewritten call says where it is in the text as sent."""
    sql = "SELECT AI.IF(prompt => ('Is it tea? ', note), connection_id => 'us.x'), ai_nothing(1) FROM people"
    with pytest.raises(SqlError, match=f"1:{sql.index('ai_nothing') + 1} "):
        session.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO ai.score (a, b) VALUES (1, 2)",
        "CREATE VECTOR INDEX i ON ai.score (body)",
        "CREATE TABLE ai.score (a INT)",
        "SELECT ai.score FROM ai WHERE ai.score > (1)",
        "SELECT ai_filter('Is it? {a}', a) FROM t",
        "SELECT 'AI.IF((1, 2))', \"AI.IF\" FROM t",
        "SELECT ai_classify(t, ['a', 'b'])['x'] FROM t",
        "SELECT [AI_ONE:1]",
        "WITH ai_agg(a) AS (SELECT 1) SELECT * FROM ai_agg",
        "WITH RECURSIVE b AS (SELECT 1), ai_agg(a) AS (SELECT 1) SELECT * FROM ai_agg",
        "SELECT * FROM (SELECT 1) ai_redact(b)",
        "SELECT * FROM t AS ai_agg(b), t ai_redact(c)",
    ],
)
def test_leaves_alone(sql: str) -> None:
    """Tables and columns of such names, and our own spelling, stay as they are."""
    assert rewrite(ParsedText(sql), EMPTY).text == sql


@pytest.mark.parametrize(
    "sql", ["SELECT ai_redact(a), ai_agg(a) FROM t", "SELECT list(a), json_query(a, '$.b') FROM t"]
)
def test_leaves_own_functions_alone(sql: str) -> None:
    """A function of a configured folder is called by its name, whatever vendors call so."""
    own = replace(EMPTY, own_functions=frozenset({"ai_redact", "ai_agg", "list", "json_query"}))
    assert rewrite(ParsedText(sql), own).text == sql


@pytest.mark.parametrize("dialect", ["default", "postgres", "duckdb"])
def test_fields_of_our_prompts(session: Session, dialect: str) -> None:
    """Outside of snowflake, a call is the server's own, whose other names are fields of the prompt."""
    asked = [f"SELECT ai_complete({name}, 'hi', note => name) AS a FROM people" for name in ("'default'", "default")]
    first, second = (ask(session, sql, dialect=dialect).rows for sql in asked)
    assert first == second
    with pytest.raises(FlightLLMError, match="'note' is not known here"):
        ask(session, asked[0], dialect="snowflake")
