"""Extraction of AI calls: what is replaced, what stays, and what is refused."""

import re
from collections.abc import Sequence

import pyarrow as pa
import pytest
from datafusion import SessionContext, udf

from flightllm.errors import AICallError, SqlError
from flightllm.functions import FunctionRegistry
from flightllm.functions.bind import AnyNames
from flightllm.functions.call import AICall
from flightllm.sql.calls import Extracted, extract_calls
from flightllm.sql.parsed_text import ParsedText

REGISTRY = FunctionRegistry.load()
TABLES = {"movies": ["movie_id", "Movie Info"], "reviews": ["movie_id", "review"]}


def extract(sql: str) -> Extracted:
    """Extract with the shipped functions and two tables."""
    return extract_calls(ParsedText(sql), REGISTRY, TABLES.__getitem__, names=AnyNames())


def shape(sql: str) -> str:
    """Return the stubbed SQL with stubs' hashes cut off, for comparing."""
    return re.sub(r"__(\w+?)_[0-9a-f]{16}\(", r"<\1>(", extract(sql).sql)


def only(sql: str) -> AICall:
    """Return the only call of a text."""
    (call,) = extract(sql).calls.values()
    return call


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT ai_filter('x', a) FROM t", "SELECT <ai_filter>(a) FROM t"),
        ("SELECT AI_Filter ( /* ( */ 'x', a -- )\n ) , b", "SELECT <ai_filter>(a) , b"),
        ("SELECT llm('x')", "SELECT <ai_gen>('')"),
        ("SELECT DISTINCT ON (a) a, llm('x') FROM t", "SELECT DISTINCT ON (a) a, <ai_gen>('') FROM t"),
        ("SELECT ai_filter('x', r => a || ',' || b)", "SELECT <ai_filter>(a || ',' || b)"),
        (
            "SELECT CASE WHEN ai_filter('x', a) THEN ai_gen('y', b) ELSE 'ai_gen(''z'')' END",
            "SELECT CASE WHEN <ai_filter>(a) THEN <ai_gen>(b) ELSE 'ai_gen(''z'')' END",
        ),
        ("SELECT ai_summarize(ai_translate(a, 'fr'))", "SELECT <ai_summarize>(<ai_translate>(a))"),
        ("SELECT ai_gen('x', (SELECT ai_gen('y', b) FROM u))", "SELECT <ai_gen>((SELECT <ai_gen>(b) FROM u))"),
        ("SELECT a FROM t JOIN u ON ai_filter('x', a, b), v", "SELECT a FROM t JOIN u ON <ai_filter>(a, b), v"),
        ("SELECT AVG(ai_score('x', a)) OVER (ORDER BY b)", "SELECT AVG(<ai_score>(a)) OVER (ORDER BY b)"),
        ("SELECT count(*) FILTER (WHERE ai_filter('x', a))", "SELECT count(*) FILTER (WHERE <ai_filter>(a))"),
        ("SELECT a IS DISTINCT FROM ai_gen('x', b)", "SELECT a IS DISTINCT FROM <ai_gen>(b)"),
        ("SELECT substring(a FROM ai_gen('x', b))", "SELECT substring(a FROM <ai_gen>(b))"),
        ("SELECT ai_extract(a, ['x', 'y'])['x']", "SELECT <ai_extract>(a)['x']"),
        ("SELECT ai_extract(a, ['X', 'y']).X, 1", "SELECT <ai_extract>(a)['X'], 1"),
        ("SELECT ai_extract(a, ['y']).Y.\"Z\"", "SELECT <ai_extract>(a)['y']['Z']"),
        ("EXPLAIN ANALYZE SELECT NOT ai_if(p, a)", "EXPLAIN ANALYZE SELECT NOT <ai_filter>(p, a)"),
        (
            "WITH c AS (SELECT * FROM t WHERE ai_filter('x', a)) SELECT b FROM c ORDER BY ai_score('y', b)",
            "WITH c AS (SELECT * FROM t WHERE <ai_filter>(a)) SELECT b FROM c ORDER BY <ai_score>(b)",
        ),
    ],
)
def test_replaced(sql: str, expected: str) -> None:
    """A call becomes its stub wherever an expression may stand; all other text stays."""
    assert shape(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'ai_gen(x)', \"ai_gen\"('x'), s.ai_gen('x') -- ai_gen('x')\n /* ai_gen( */ FROM t",
        "SELECT ai_count_tokens(a), ai_gen FROM ai_gen",
        "CREATE TABLE IF NOT EXISTS llm (a int)",
        "INSERT INTO ai_log (a, b) VALUES (1, 2)",
        "WITH ai_x (a) AS (SELECT 1), llm(b) AS (SELECT 2) SELECT a FROM ai_x",
        "SELECT a FROM t AS llm(a), (SELECT 1) ai_u(b)",
    ],
)
def test_left_alone(sql: str) -> None:
    """Text, comments, quoted or qualified names and names of tables are no calls."""
    assert extract(sql) == Extracted(sql, {})


def test_fields() -> None:
    """Fields are named by =>, by column, else by position, and made unique; each is required."""
    call = only("SELECT ai_gen('{x} {b} {field3}', x => a + 1, t.b, lower(c), u.b, \"D e\") FROM t")
    assert call.fields == ("x", "b", "field3", "b_2", "D e")
    assert call.required == frozenset(range(5))
    assert call.instruction == "`x` `b` `field3`"


def test_equal_calls_share_a_stub() -> None:
    """Call sites that mean the same share a stub; their arguments may differ."""
    assert len(extract("SELECT ai_filter('x', a.v), AI_IF( 'x' , b.v ) FROM a, b").calls) == 1
    assert len(extract("SELECT ai_filter('x', v), ai_filter('x', v, on_error => 'fail')").calls) == 2


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        ("SELECT llm('x', m.*) FROM movies m", '"m"."movie_id", "m"."Movie Info"'),
        ("SELECT llm('x', *) FROM movies", '"movies"."movie_id", "movies"."Movie Info"'),
        ("SELECT llm('x', r.*) FROM movies m JOIN reviews AS r USING (movie_id)", '"r"."movie_id", "r"."review"'),
        ("SELECT llm('x', r.*) FROM (movies m CROSS JOIN reviews r)", '"r"."movie_id", "r"."review"'),
        ("SELECT llm('x', r.*) FROM movies m JOIN movies n ON m.a = n.a, reviews r", '"r"."movie_id", "r"."review"'),
        ("DELETE FROM reviews r WHERE llm('x', r.*) = 'y'", '"r"."movie_id", "r"."review"'),
    ],
)
def test_stars(sql: str, arguments: str) -> None:
    """A star becomes the quoted columns of the tables in FROM; its fields are optional."""
    assert f"({arguments})" in extract(sql).sql
    assert only(sql).required == frozenset()


def test_star_scopes() -> None:
    """An alias is that of the nearest SELECT around the call; each arm of a UNION has its own."""
    sql = (
        "SELECT ai_gen('a', m.*) FROM movies m WHERE EXISTS (SELECT 1 FROM reviews r WHERE ai_filter('b', m.*, r.*)) "
        "UNION ALL SELECT ai_gen('c', m.*) FROM reviews m"
    )
    fields = {call.instruction[0]: call.fields for call in extract(sql).calls.values()}
    assert fields == {
        "a": ("movie_id", "Movie Info"),
        "b": ("movie_id", "Movie Info", "movie_id_2", "review"),
        "c": ("movie_id", "review"),
    }


def test_star_over_queries() -> None:
    """The columns of subqueries and CTEs come from planning them, their own AI calls stubbed, each once."""
    asked: list[str] = []

    def columns_of_query(query: Extracted) -> Sequence[str]:
        asked.append(re.sub(r"_[0-9a-f]{16}", "", query.sql))
        return ["p", "q"]

    sql = (
        "WITH c AS (SELECT ai_gen('u', movies.*) p, 1 q FROM movies) "
        "SELECT llm('x', c.*), llm('y', c.*), llm('z', d.*) FROM c, (SELECT * FROM c) AS d(a, b)"
    )
    extracted = extract_calls(ParsedText(sql), REGISTRY, TABLES.__getitem__, columns_of_query, names=AnyNames())
    with_c = 'WITH c AS (SELECT __ai_gen("movies"."movie_id", "movies"."Movie Info") p, 1 q FROM movies) '
    assert asked == [with_c + 'SELECT * FROM "c"', with_c + 'SELECT * FROM (SELECT * FROM c) AS "d"(a, b)']
    assert '("d"."p", "d"."q")' in extracted.sql


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ("seed => t.seed", "seed"),
        ("seed => (1)", "seed"),
        ("\"seed\" => s || 'x'", "seed"),
        ("context => 'abc'", "context"),
        ("language => 'fr', year => 2024", "year"),
        ("top_p => concat('0.5')", "top_p"),
        ("max_tokens => b", "max_tokens"),
        ("on_error => (a)", "on_error"),
        ("top_k => concat('5')", "top_k"),
        ("model => t.model", "model"),
    ],
)
def test_fields_by_name(arguments: str, field: str) -> None:
    """An expression is a field under any name; so is a literal under a name that is no option anywhere."""
    extracted = extract_calls(
        ParsedText(f"SELECT ai_gen('x', {arguments})"), REGISTRY, TABLES.__getitem__, names=AnyNames()
    )
    (call,) = extracted.calls.values()
    assert field in call.fields


def test_literals_that_the_prompt_names() -> None:
    """A name in the braces of the prompt is a field's, whatever its value is."""
    sql = "SELECT ai_gen('Use {seed} and {Top_P}', seed => 7, top_p => 0.5)"
    (call,) = extract_calls(ParsedText(sql), REGISTRY, TABLES.__getitem__, names=AnyNames()).calls.values()
    assert call.fields == ("seed", "top_p")
    assert call.parameters.seed is None


def test_options_beside_columns_of_their_name() -> None:
    """Where a column has the name in braces, a literal under the name is the option."""
    sql = "SELECT ai_gen('Plant {seed}', t.seed, seed => 7, top_p => 0.5)"
    (call,) = extract_calls(ParsedText(sql), REGISTRY, TABLES.__getitem__, names=AnyNames()).calls.values()
    assert call.fields == ("seed",)
    assert (call.parameters.seed, call.parameters.top_p) == (7, 0.5)


def test_bound_options() -> None:
    """A bound number of a type that SQL has no literals of is a literal."""
    cast = "arrow_cast({}, 'Int32')"
    sql = f"SELECT ai_gen('x', a, seed => {cast.format(7)}, max_tokens => {cast.format('NULL')}, top_p => -0)"
    (call,) = extract_calls(ParsedText(sql), REGISTRY, TABLES.__getitem__, names=AnyNames()).calls.values()
    assert (call.fields, call.parameters.seed) == (("a",), 7)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT (CALL).answer", "SELECT (STUB)['answer']"),
        ("SELECT avg((CALL).answer), (CALL)", "SELECT avg((STUB)['answer']), (STUB)"),
        ("SELECT x WHERE ((CALL)).answer AND (CALL).answer", "SELECT x WHERE ((STUB))['answer'] AND (STUB)['answer']"),
        ("SELECT f(CALL).answer", "SELECT f(STUB).answer"),
    ],
)
def test_fields_of_a_call_in_parentheses(sql: str, expected: str) -> None:
    """`.name` after a call in parentheses of its own is read as the call's field; after a function's it is not."""
    call = "ai_filter('x', a, confidence => true)"
    extracted = extract_calls(ParsedText(sql.replace("CALL", call)), REGISTRY, TABLES.__getitem__, names=AnyNames())
    (stub,) = extracted.calls
    assert extracted.sql == expected.replace("STUB", f"{stub}(a)")


def test_how_long_the_model_thinks() -> None:
    """A call says how long the model thinks; one that says nothing leaves it to the model."""
    sql = "SELECT ai_gen('a', b, reasoning => 'low'), ai_filter('a', b, reasoning => NULL), ai_summarize(b)"
    calls = extract_calls(ParsedText(sql), REGISTRY, TABLES.__getitem__, names=AnyNames()).calls.values()
    assert [call.parameters.reasoning for call in calls] == ["low", None, None]


@pytest.mark.parametrize(
    ("options", "promise"),
    [
        ("recall => '0.8', label_budget => '50', confidence => '0.9'", "recall 0.8, confidence 0.9"),
        ("recall => arrow_cast('0.8', 'Decimal128(1, 1)')", "recall 0.8, confidence 0.95"),
        ("recall => .8, proxy => small", "recall 0.8, confidence 0.95"),
        ("recall => .8, proxy => 'none'", "None"),
        ("recall => NULL", "None"),
    ],
)
def test_promises(options: str, promise: str) -> None:
    """A text takes the type of its option, and a proxy needs no quotes. No proxy and no target promise nothing."""
    call = only(f"SELECT ai_filter('x', a, {options})")
    assert call.fields == ("a",)
    assert str(call.promise) == promise


def test_fields_named_as_targets() -> None:
    """A column in parentheses, or under a name that the prompt has in braces, is a field."""
    assert only("SELECT ai_filter('x', a, recall => (recall))").fields == ("a", "recall")
    assert only("SELECT ai_filter('x {proxy}', proxy => proxy)").fields == ("proxy",)


def test_no_usage_after_values() -> None:
    """An error about the value of an option has no usage after it."""
    for options in ("recall => 2", "recall => id", "proxy => ''", "temperature => 'hot'", "label_budget => 5"):
        with pytest.raises(AICallError) as caught:
            only(f"SELECT ai_filter('x', a, {options})")
        assert "Usage" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT ai_flter('x')", "1:8 is not an AI function; did you mean ai_filter"),
        ("SELECT\n ai_gen()", "ai_gen at 2:2: missing argument prompt. Usage: ai_gen"),
        ("SELECT ai_summarize(a, b)", "too many arguments: at most 1"),
        ("SELECT ai_summarize(a, text => b)", "text is given twice"),
        ("SELECT ai_summarize(a, wat => 1)", "unknown option wat; known by name: max_words, model"),
        (
            "SELECT ai_gen('x', a, temprature => 1)",
            "unknown option temprature; did you mean temperature\\? To pass a field .* Usage: ",
        ),
        ("SELECT ai_gen('x', a, Temp_Rature => 1)", "did you mean temperature\\?"),
        ("SELECT ai_gen('x', a, maxTokens => 1)", "unknown option maxtokens; did you mean max_tokens\\?"),
        (
            "SELECT ai_gen('x', a, n => 1)",
            "unknown option n; known by name: .*put its value in parentheses: n",
        ),
        ("SELECT ai_gen('x', a, top_k => 0.5)", "unknown option top_k; .*"),
        ("SELECT ai_gen('x', a, random_seed => 1)", "unknown option random_seed; did you mean seed"),
        ("SELECT ai_gen('x', a, seed => 1.5)", "seed must be a whole number, not 1.5"),
        ("SELECT ai_gen('x', a, seed => -1)", "seed must be at least 0"),
        ("SELECT ai_gen('x', a, seed => 2147483648)", "seed must be at most 2147483647"),
        ("SELECT ai_gen('x', a, top_p => 1.1)", "top_p must be at most 1"),
        ("SELECT ai_filter('x', a, system => 'Be kind')", "unknown option system; did you mean instructions"),
        ("SELECT ai_filter('x', a, timeout => NULL)", "unknown option timeout"),
        ("SELECT ai_filter('x', a, stop => ['a', 'b'])", "unknown option stop"),
        ("SELECT ai_filter('x {other}', other => a, min_p => -1)", "unknown option min_p"),
        ("SELECT ai_summarize(a, seed => b)", "seed must be a literal, not an expression"),
        ("SELECT ai_summarize(a, top_k => b)", "unknown option top_k; .*"),
        ("SELECT ai_gen('x', a, temperature => 'hot')", "temperature must be a number, not 'hot'"),
        ("SELECT ai_gen('x', a, temperature => -1)", "temperature must be at least 0"),
        (
            "SELECT ai_gen('x', a, reasoning => 'max')",
            "reasoning must be one of 'off', 'low', 'medium', 'high', not 'max'",
        ),
        ("SELECT ai_gen('x', a, reasoning_effort => 'low')", "option reasoning_effort; did you mean reasoning"),
        ("SELECT ai_gen('x', a, enable_thinking => false)", "option enable_thinking; did you mean reasoning"),
        ("SELECT ai_gen('x', a, max_tokens => 1.5)", "max_tokens must be a whole number"),
        ("SELECT ai_summarize(a, max_tokens => b)", "max_tokens must be a literal"),
        ("SELECT ai_filter('x', a, confidence => 1)", "confidence as a number belongs to a promise"),
        (
            "SELECT ai_filter('x', a, recall => id)",
            "recall must be a constant number above 0 and below 1, not the column",
        ),
        (
            "SELECT ai_filter('x', a, label_budget => id)",
            "label_budget must be a constant whole number, not the column",
        ),
        ("SELECT ai_filter('x', a, accuracy => upper(b))", "accuracy must be a constant number .*, not an expression"),
        ("SELECT ai_filter('x', a, confidence => b)", "confidence must be true, false, or a constant number"),
        ("SELECT ai_filter('x', a, proxy => t.b)", "proxy must be the name of a model, not the column b"),
        ("SELECT ai_filter('x', a, recall => arrow_cast('95', 'Int16'))", "recall must be above 0 and below 1, not 95"),
        ("SELECT ai_filter('x', a, recall => 0.9, proxy => '')", "proxy must name a model"),
        ("SELECT ai_filter('x', a, recall => 0.9, proxy => 'auto, b')", "'auto' means all proxies of the model"),
        (
            "SELECT ai_classify(a, ['x'], confidence => true, multi => true)",
            "confidence => true works for one label only",
        ),
        ("SELECT ai_gen('x', a, confidence => true)", "unknown option confidence"),
        ("SELECT ai_gen('x', a, on_error => 'ignore')", "on_error must be one of 'null', 'struct', 'result', 'fail'"),
        ("SELECT ai_classify(a, ['x'], multi => 1)", "multi must be true or false"),
        ("SELECT ai_classify(a, 'x')", "labels must be a list"),
        ("SELECT ai_classify(a, [])", "labels must be a list"),
        ("SELECT ai_classify(a, [b])", "labels must be a constant list"),
        ("SELECT ai_classify(a, ['x', 'x'])", "labels must be distinct"),
        ("SELECT ai_gen(NULL, a)", "prompt must be text, not NULL"),
        ("SELECT ai_gen('{nme}', name => a)", "fields: name.; did you mean .name."),
        ("SELECT ai_score('x', a, low => 5, high => 1)", "low => 5 must be less"),
        ("SELECT ai_extract(a, 'no json')", "schema is not JSON"),
        ("SELECT ai_gen('x', a, response_format => '{}')", "needs one type"),
        ("SELECT ai_gen('x',, a)", "an argument is empty"),
        ("SELECT ai_gen(DISTINCT 'x')", "DISTINCT works only in aggregate"),
        ("SELECT ai_gen('x', y => *) FROM movies", "cannot be named y"),
        ("SELECT ai_gen(*) FROM movies", "prompt cannot be a star"),
        ("SELECT ai_gen('x', z.*) FROM movies m", "no table z in FROM"),
        ("SELECT ai_gen('x', s.*) FROM (SELECT 1) s", "s is a subquery: name its columns"),
        ("SELECT ai_gen('x', f.*) FROM range(3) f", "columns of f are not known"),
        ("SELECT ai_gen('x', a) OVER (PARTITION BY b)", "OVER cannot follow"),
        ("SELECT ai_gen('x', a) FILTER (WHERE b)", "FILTER cannot follow"),
        ("SELECT a FROM ai_gen('x')", "is not a table function"),
        ("SELECT ai_gen('x'", "no closing parenthesis"),
        ("SELECT " + "ai_gen('x', " * 50 + "a" + ")" * 50, "nested more than 32"),
    ],
)
def test_refused(sql: str, message: str) -> None:
    """A malformed call is an error that says what is wrong and what to write."""
    with pytest.raises(AICallError, match=message):
        extract(sql)


def test_unbalanced() -> None:
    """A bracket without an opening bracket is an error with its position."""
    with pytest.raises(SqlError, match=r"'\)' at 1:22 has no opening bracket"):
        extract("SELECT ai_gen('x', a))")


def test_display_name() -> None:
    """Column names that DataFusion made from stubs are given back as the user wrote them."""
    extracted = extract("SELECT AI_FILTER('x', a), avg(ai_score('y', a))")
    names = extracted.sql.removeprefix("SELECT ").split(", ")
    assert [extracted.display_name(name) for name in names] == ["AI_FILTER('x', a)", "avg(ai_score(a))"]


def test_stubs_plan_and_run() -> None:
    """DataFusion runs the stubbed SQL; fields of a struct are reached by name."""
    sql = "SELECT ai_extract(a, ['x'])['x'] AS p, ai_gen('g', n, response_format => ['y']).y AS q FROM t"
    extracted = extract(sql)
    context = SessionContext()
    context.from_pydict({"a": ["one"], "n": [1]}, "t")
    for call in extracted.calls.values():

        def answer(*columns: pa.Array, call: AICall = call) -> pa.Array:
            value = {field.name: f"{field.name} of {columns[0][0]}" for field in call.type}
            return pa.array([value] * len(columns[0]), type=call.type)

        context.register_udf(udf(answer, [pa.string()] * len(call.fields), call.type, "volatile", call.stub))
    assert context.sql(extracted.sql).to_pylist() == [{"p": "x of one", "q": "y of 1"}]
