"""Long statements of many shapes: all steps from the text to the plan grow with the length of the text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pytest

from flightllm.common.stopping import stopped_if
from flightllm.datafusion.contexts import scratch_context
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.session.session import Session
from tests.counting import steps
from tests.databases import ask, open_database

_SETUP = (
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', [1, 2]), (2, 'b', [2])) v(i, s, a)",
    "CREATE TABLE kept (i BIGINT)",
    "CREATE TABLE vectors (v FLOAT[])",
    f"CREATE TABLE wide ({', '.join(f'c{k} BIGINT' for k in range(400))})",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A text of equal parts; it has up to `most` parts, because the server or DataFusion refuses more."""

    text: str
    """The text with `{}` for the parts."""
    part: str
    """One part with `{k}` for its number."""
    between: str = ", "
    most: int = 800

    def sql(self, count: int) -> str:
        """Return the text of `count` parts."""
        return self.text.replace("{}", self.between.join(self.part.replace("{k}", str(k)) for k in range(count)))


_QUICK = {
    "list": Shape("SELECT cardinality([{}])", "{k}"),
    "list of texts": Shape("SELECT cardinality([{}])", "'a{k}'"),
    "map": Shape("SELECT MAP {{}}", "'k{k}': {k}", most=400),
    "struct": Shape("SELECT {{}}", "'k{k}': {k}", most=400),
    "concat": Shape("SELECT concat({})", "'a{k}'"),
    "case": Shape("SELECT CASE i {} END FROM t", "WHEN {k} THEN 'a text that is long enough {k}'", " ", 400),
    "in": Shape("SELECT * FROM t WHERE i IN ({})", "{k}"),
    "names": Shape("SELECT {}", "a", "."),
    "insert of a vector": Shape("INSERT INTO vectors VALUES ([{}])", "{k}.5"),
    "parameters added": Shape("SELECT {}", "?", "+", 200),
    "parameters in": Shape("SELECT * FROM t WHERE i IN ({})", "?"),
}
_OTHERS = {
    "list of floats": Shape("SELECT cardinality([{}])", "{k}.25"),
    "list of negative numbers": Shape("SELECT cardinality([{}])", "-{k}"),
    "array": Shape("SELECT ARRAY[{}]", "{k}"),
    "make_array": Shape("SELECT make_array({})", "{k}"),
    "list of nulls": Shape("SELECT cardinality([{}])", "NULL"),
    "list of columns": Shape("SELECT cardinality([{}]) FROM t", "i"),
    "list of sums": Shape("SELECT cardinality([{}]) FROM t", "i + {k}"),
    "list of lists": Shape("SELECT cardinality([{}])", "[{k}, 1]"),
    "list of casts": Shape("SELECT cardinality([{}])", "{k}::FLOAT"),
    "named_struct": Shape("SELECT named_struct({})", "'k{k}', {k}"),
    "two lists": Shape("SELECT array_distance([{}], [{}])", "{k}.5"),
    "unnest": Shape("SELECT unnest([{}])", "{k}"),
    "coalesce": Shape("SELECT coalesce({}) FROM t", "i"),
    "greatest": Shape("SELECT greatest({}) FROM t", "{k}00000000000"),
    "calls": Shape("SELECT concat({}) FROM t", "abs({k})"),
    "casts": Shape("SELECT concat({}) FROM t", "CAST({k} AS TEXT)"),
    "items": Shape("SELECT {} FROM t", "i AS a_name_that_is_long_enough_{k}"),
    "items of sums": Shape("SELECT {} FROM t", "concat(s, 'a text that is long enough {k}') AS c{k}"),
    "quoted names": Shape("SELECT {}", '"a"', "."),
    "names in FROM": Shape("SELECT 1 FROM {}", "a", "."),
    "brackets": Shape("SELECT {}", "[]", ""),
    "subscripts": Shape("SELECT a{} FROM t", "[1]", ""),
    "a long text": Shape("SELECT '{}'", "abcdefgh", ""),
    "a long number": Shape("SELECT {}", "1", ""),
    "comments": Shape("SELECT 1 {}", "/* a */", ""),
    "line comments": Shape("SELECT 1 {}", "-- a\n", ""),
    "conditions of case": Shape("SELECT CASE {} END FROM t", "WHEN i = {k} THEN 'a text that is long enough {k}'", " "),
    "in of texts": Shape("SELECT * FROM t WHERE s IN ({})", "'a{k}'"),
    "in of calls": Shape("SELECT * FROM t WHERE i IN ({})", "abs({k}0000000000)"),
    "not in": Shape("SELECT * FROM t WHERE i NOT IN ({})", "-{k}"),
    "values": Shape("VALUES {}", "({k})"),
    "values of several types": Shape("SELECT * FROM (VALUES {}) v(a, b, c)", "({k}, 'a{k}', NULL)"),
    "values of calls": Shape("VALUES {}", "(abs({k}))"),
    "values of lists": Shape("VALUES {}", "([{k}, 1])"),
    "wide values": Shape("VALUES ({})", "{k}"),
    "union all": Shape("{}", "SELECT {k} AS a", " UNION ALL ", 240),
    "union": Shape("{}", "SELECT i FROM t", " UNION ", 240),
    "intersect": Shape("{}", "SELECT i FROM t", " INTERSECT ", 120),
    "with": Shape("WITH {} SELECT * FROM q0", "q{k} AS (SELECT {k} AS a)", most=200),
    "and": Shape("SELECT * FROM t WHERE {}", "s <> 'a text that is long enough {k}'", " AND ", 480),
    "or": Shape("SELECT * FROM t WHERE {}", "s = 'a text that is long enough {k}'", " OR ", 480),
    "sum": Shape("SELECT {}", "{k}", " + ", 480),
    "sum of columns": Shape("SELECT {} FROM t", "i", " + ", 480),
    "concatenation": Shape("SELECT {}", "'a{k}'", " || ", 480),
    "window functions": Shape("SELECT {} FROM t", "sum(i) OVER (ORDER BY i ROWS {k} PRECEDING)", most=240),
    "aggregates": Shape("SELECT {} FROM t", "sum(i + {k})"),
    "grouping": Shape("SELECT count(*) FROM t GROUP BY {}", "concat(s, 'a text that is long enough {k}')"),
    "ordering": Shape("SELECT * FROM t ORDER BY {}", "concat(s, 'a text that is long enough {k}')"),
    "subqueries": Shape("SELECT {}", "(SELECT max(i) FROM t) AS c{k}", most=400),
    "exists": Shape("SELECT * FROM t WHERE {}", "EXISTS (SELECT 1 FROM t AS u WHERE u.i = {k})", " AND ", 400),
    "between": Shape(
        "SELECT * FROM t WHERE {}",
        "s BETWEEN 'a text that is long enough {k}' AND 'b text of the same length {k}'",
        " OR ",
        240,
    ),
    "prompt of many parts": Shape("SELECT ai_gen('q', {}) FROM t", "s"),
    "labels": Shape("SELECT ai_classify(s, [{}]) FROM t", "'a{k}'"),
    "in beside an AI call": Shape("SELECT ai_gen('q', s) FROM t WHERE i IN ({})", "{k}"),
    "list beside an AI call": Shape("SELECT ai_gen('q', s), [{}] FROM t", "{k}"),
    "values under an AI call": Shape("SELECT ai_gen('q', b) FROM (VALUES {}) v(a, b)", "({k}, 'a{k}')"),
    "AI conditions": Shape("SELECT * FROM t WHERE {}", "ai_if('q{k}', s)", " AND ", 200),
    "insert of rows": Shape("INSERT INTO kept VALUES {}", "({k})"),
    "insert of vectors": Shape("INSERT INTO vectors VALUES {}", "([0.5, {k}])"),
    "update of columns": Shape("UPDATE wide SET {}", "c{k} = {k}", most=400),
    "update by case": Shape("UPDATE t SET s = CASE s {} END", "WHEN 'a text that is long enough {k}' THEN '{k}'", " "),
    "delete": Shape("DELETE FROM kept WHERE i IN ({})", "{k}"),
    "parameters in values": Shape("VALUES {}", "(?)"),
    "parameters in a list": Shape("SELECT cardinality([{}])", "?"),
    "parameters in a call": Shape("SELECT concat({})", "?"),
    "parameters as items": Shape("SELECT {}", "?"),
    "numbered parameters": Shape("SELECT * FROM t WHERE i IN ({})", "$1{k}"),
    "parameters inserted": Shape("INSERT INTO kept VALUES {}", "(?)"),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session of a database with small tables."""
    database = open_database(tmp_path_factory.mktemp("data"))
    opened = database.session()
    for statement in _SETUP:
        opened.update(statement)
    yield opened
    database.close()


def _planned(session: Session, sql: str) -> Callable[[], object]:
    """Return the work that plans a statement as a client's driver does: describe it, bind values, plan it."""
    count = sql.count("?")
    values = pa.record_batch({str(k): [k] for k in range(count)}) if count else None

    def work() -> None:
        try:
            session.describe(sql)
            if sql.startswith(("INSERT", "UPDATE", "DELETE")):
                session.update(sql, None if values is None else pa.Table.from_batches([values]))
            else:
                session.execute(sql, values).batches.close()
        except FlightLLMError:  # a refusal must be quick too
            return

    return work


def _grows_with_the_text(session: Session, shape: Shape) -> None:
    def counted(count: int) -> int:
        return steps(_planned(session, shape.sql(count)))

    counted(1)  # what is imported and kept once
    # From 8,192 characters of a plan on, its bounds are computed, so the shorter text has to be longer than that too.
    assert counted(shape.most) < 2.3 * counted(shape.most // 2)


@pytest.mark.parametrize("shape", _QUICK.values(), ids=_QUICK)
def test_steps_grow_with_the_text(session: Session, shape: Shape) -> None:
    """A text of twice the length takes about twice the steps from the text to the plan."""
    _grows_with_the_text(session, shape)


@pytest.mark.slow
@pytest.mark.parametrize("shape", _OTHERS.values(), ids=_OTHERS)
def test_steps_of_other_shapes(session: Session, shape: Shape) -> None:
    """The same holds for all kinds of expressions and statements."""
    _grows_with_the_text(session, shape)


_ROWS = (
    ", ".join(map(str, range(70))),
    " ,\n".join(f"-{k}.25" for k in range(70)),
    ",".join(f"{k}e3" if k % 2 else f".{k}" for k in range(70)),
    ",".join(["18446744073709551615", "99999999999999999999"] * 35),
    ",".join(["-9223372036854775808", "-0.0"] * 35),
    ",".join(["1", "NULL"] * 35),
    ",".join(["1_000"] * 70),
    "/* 1 */" + ",".join(["- 1", "+2"] * 35),
)


@pytest.mark.parametrize("row", _ROWS)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT [{}] AS x",
        "SELECT cardinality([{}]) AS x",
        "SELECT 5 IN ({}) AS x",
        "SELECT '[{}]' AS x",
        "VALUES ([{}])",
    ],
)
def test_long_rows_of_numbers_have_the_values_of_datafusion(session: Session, text: str, row: str) -> None:
    """A long run of numbers is one token, but its type and its values are those that DataFusion gives."""
    sql = text.replace("{}", row)
    try:
        expected = scratch_context().sql(sql).to_arrow_table()
    except Exception:  # noqa: BLE001 - DataFusion's own exception
        with pytest.raises(FlightLLMError):
            ask(session, sql)
        return
    assert ask(session, sql).table.to_pylist() == expected.to_pylist()


def test_names_of_long_lists(session: Session) -> None:
    """A column's name has a long list as the user wrote it, and equal lists are equal in any spelling."""
    numbers = list(map(str, range(70)))
    found = ask(session, f"SELECT cardinality([{', '.join(numbers)}]), cardinality([{','.join(numbers)}])").table
    assert found.schema.names == [f"cardinality([{', '.join(numbers)}])", f"cardinality([{','.join(numbers)}])"]


def test_long_list_as_an_option(session: Session) -> None:
    """The options of an AI function see each number of a long list."""
    numbers = [*map(str, range(70)), "-1.5"]
    found = ask(session, f"SELECT ai_classify(s, [{', '.join(numbers)}]) AS label FROM t").rows
    assert {row["label"] for row in found} <= {*numbers}


@pytest.mark.parametrize(
    ("work", "parts"),
    [
        ("execute", "SELECT * FROM (VALUES {}) v(a)"),
        pytest.param("execute", "SELECT concat({}, 'z')", marks=pytest.mark.slow),
        pytest.param("describe", "SELECT concat({}, 'z')", marks=pytest.mark.slow),
        ("describe", "INSERT INTO kept VALUES {}"),
    ],
)
def test_planning_stops_with_its_statement(session: Session, work: str, parts: str) -> None:
    """Once nobody waits for a statement, its planning ends at the next look, and no step hides that."""
    sql = parts.replace("{}", ", ".join(["('a')"] * 1_500))
    looks = 0

    def stopped(at: int) -> bool:
        nonlocal looks
        looks += 1
        return looks >= at

    getattr(session, work)(sql)  # some tokens are kept from now on, and take no look
    with stopped_if(partial(stopped, 10**9)):
        getattr(session, work)(sql)
    for at in range(1, looks, max(1, looks // 20)):
        looks = 0
        with stopped_if(partial(stopped, at)), pytest.raises(CancelledError):
            getattr(session, work)(sql)
        assert looks == at


def test_long_lists_as_parameters(session: Session) -> None:
    """A list of many numbers is bound with its type and its values."""
    for kind in (pa.int8(), pa.int32(), pa.uint32(), pa.int64(), pa.float32(), pa.float64()):
        value = [float("inf") if pa.types.is_floating(kind) else 1, None, 2] * 30
        for numbers in ([k - 50 for k in range(100)] if kind != pa.uint32() else list(range(100)), value):
            row = pa.record_batch({"0": pa.array([numbers], pa.list_(kind))})
            found = ask(session, "SELECT ? AS x", row).table
            assert found.schema.field("x").type.value_type == kind
            assert found["x"].to_pylist() == [numbers]


def test_types_in_a_deep_chain_of_parameters(session: Session) -> None:
    """Parameters of a chain that Substrait cannot express have the types to which DataFusion casts them."""
    found = session.describe(f"SELECT {'+'.join('?' * 200)} AS x")
    assert set(found.parameters.types) == {pa.int64()}
    assert found.schema.names == ["x"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(i + ?) AS x, {} AS y FROM t",
        "SELECT sum(i) FILTER (WHERE i > ?) OVER () AS x, {} AS y FROM t",
        "SELECT {} AS y FROM t WHERE i IN (SELECT i + ? FROM t)",
    ],
)
def test_types_beside_a_deep_chain(session: Session, sql: str) -> None:
    """A parameter within an aggregate, a window or a subquery keeps its type beside a long chain of operators."""
    alone, beside = (session.describe(sql.format("+".join(["1"] * count))) for count in (2, 200))
    assert beside.parameters == alone.parameters
    assert beside.parameters.types == [pa.int64()]
