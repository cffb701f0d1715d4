"""Substrait plans made by a client run as the same query in SQL does, AI rules included."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext, udf
from datafusion.substrait import Producer
from google.protobuf.message import Message
from substrait.algebra_pb2 import Expression, FetchRel, JoinRel, Rel, RelRoot, SetRel
from substrait.extensions.extensions_pb2 import SimpleExtensionDeclaration
from substrait.plan_pb2 import Plan, PlanRel

from flightllm.access.store import User
from flightllm.common.names import STORED_SUFFIX
from flightllm.common.principal import Principal
from flightllm.config import LimitsConfig
from flightllm.errors import (
    AICallError,
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    SqlError,
    UnsupportedError,
)
from flightllm.flight.sql_info import SUBSTRAIT
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, canonical, small_database

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
FUNCTIONS: dict[str, tuple[list[pa.DataType], pa.DataType]] = {
    "ai_filter": ([TEXT, TEXT], pa.bool_()),
    "ai_gen": ([TEXT, TEXT], TEXT),
    "ai_score": ([TEXT, TEXT], pa.float64()),
    "ai_classify": ([TEXT, TEXTS], TEXT),
    "ai_mask": ([TEXT, pa.map_(TEXT, TEXT)], TEXT),
    "ai_sentiment": ([TEXT], TEXT),
    "ai_count_tokens": ([TEXT], pa.int64()),
    "ai_similarity": ([TEXT, TEXT], pa.float64()),
    "ai_guess": ([TEXT], TEXT),
    "vector_search": ([TEXT, TEXT], TEXTS),
}
"""What a client declares for the server's functions, to be able to plan calls of them."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Open a database with the small tables."""
    return small_database(Path(tmp_path_factory.mktemp("plans")))


@pytest.fixture(scope="module")
def session(database: Database) -> Session:
    """Open a session."""
    return database.session()


@pytest.fixture(scope="module")
def client(session: Session) -> SessionContext:
    """Make a client's own context, with tables and functions of the same names."""
    context = SessionContext()
    for name, source in (("people", "people"), ("likes", "likes"), ("nothing", "nothing"), ("some", "people")):
        rows = ask(session, f"SELECT * FROM {source}").table
        empty = pa.RecordBatch.from_pylist([], schema=rows.schema)
        context.register_record_batches(name, [rows.to_batches() or [empty]])
    for name, (takes, gives) in FUNCTIONS.items():
        context.register_udf(udf(lambda *given: given[0], takes, gives, "volatile", name))
    return context


def _plan(client: SessionContext, sql: str, *, optimized: bool = False) -> bytes:
    frame = client.sql(sql)
    logical = frame.optimized_logical_plan() if optimized else frame.logical_plan()
    return bytes(Producer.to_substrait_plan(logical, client).encode())


def _run(session: Session, plan: bytes, **settings: str) -> Ran:
    result = session.execute_plan(plan, settings)
    return Ran(pa.Table.from_batches(list(result.batches), result.schema), result.query)


QUERIES = (
    "SELECT * FROM people",
    "SELECT id, score * 2 AS double FROM people WHERE flag AND name LIKE 'A%'",
    "SELECT p.name, l.thing FROM people p JOIN likes l ON p.id = l.person_id",
    "SELECT p.name, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id WHERE l.thing IS NULL",
    "SELECT name, count(*) AS n, avg(score) AS a FROM people GROUP BY name HAVING count(*) > 1 ORDER BY n DESC",
    "SELECT id FROM people UNION ALL SELECT person_id FROM likes",
    "SELECT id, rank() OVER (ORDER BY score) AS r FROM people",
    "SELECT name FROM people WHERE id IN (SELECT person_id FROM likes)",
    "SELECT DISTINCT day FROM people ORDER BY day LIMIT 3",
    "SELECT * FROM (VALUES (1, 'a')) AS v(x, y)",
    "SELECT * FROM nothing",
    "SELECT name FROM people WHERE ai_filter('Is {note} nice?', note) AND score > 1",
    "SELECT name, ai_gen('Say {name}', name) AS said FROM people WHERE score > 1",
    "SELECT name, ai_classify(note, ['a', 'b']) AS label FROM people",
    "SELECT ai_mask(note, MAP {'person': 'a name'}) AS masked FROM people",
    """SELECT p.name, l.thing FROM people p JOIN likes l ON p.id = l.person_id
        WHERE ai_filter('Does {thing} fit?', l.thing) AND p.flag""",
    "SELECT name, avg(ai_score('How good is {note}?', note)) AS s FROM people GROUP BY name",
    "SELECT ai_sentiment(note) AS mood FROM people WHERE id IN (SELECT person_id FROM likes)",
    "SELECT ai_gen('Again: {field1}', ai_gen('Say {name}', name)) AS twice FROM people WHERE id < 3",
    "SELECT ai_count_tokens(note) AS n FROM people",
    "SELECT ai_gen('Say {id}', id) AS said FROM people WHERE id < 4",
    "SELECT ai_gen('Say {field1}', 'x') AS said FROM people WHERE id < 4",
    "SELECT ai_gen('Say {field1}', upper(name)) AS said FROM people WHERE id < 4",
)


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("sql", QUERIES)
def test_a_plan_is_as_good_as_sql(session: Session, client: SessionContext, sql: str, *, optimized: bool) -> None:
    """Rows, types and the number of calls are those of the SQL the client planned, optimized by it or not."""
    expected = ask(session, sql, cache="off")
    ran = _run(session, _plan(client, sql, optimized=optimized), cache="off")
    assert ran.table.schema == expected.table.schema
    assert canonical(ran.table) == canonical(expected.table)
    assert ran.calls <= expected.calls


@pytest.fixture(scope="module")
def restricted(database: Database) -> Session:
    """Open a session of a user who sees some rows of the tables, one column masked, and a view in a table's place."""
    admin = database.session()
    database.access.store.add_user(User("eve", "readonly"))
    for table in ("people", "likes", "nothing", "some"):
        if table == "some":
            admin.update("CREATE VIEW some AS SELECT * FROM people WHERE score > 1")
        admin.update(f"GRANT SELECT ON {table} TO eve")
    admin.update("CREATE ROW FILTER ON people TO eve AS id <> 2")
    admin.update("CREATE ROW FILTER ON likes TO eve AS thing <> 'x'")
    admin.update("CREATE COLUMN MASK ON people(note) TO eve AS concat('secret of ', name)")
    return database.session(Principal("eve", "readonly"))


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("sql", [*QUERIES, "SELECT name, note FROM some WHERE flag"])
def test_a_plan_over_what_is_seen(restricted: Session, client: SessionContext, sql: str, *, optimized: bool) -> None:
    """Who sees a part of a table gets by a plan what it gets by SQL, also where the plan reads some columns alone."""
    expected = ask(restricted, sql, cache="off")
    ran = _run(restricted, _plan(client, sql, optimized=optimized), cache="off")
    assert ran.table.schema == expected.table.schema
    assert canonical(ran.table) == canonical(expected.table)


@pytest.mark.parametrize(
    "names",
    [
        (f"people{STORED_SUFFIX}",),
        ("public", f"people{STORED_SUFFIX}"),
        ("flightllm", "public", f"people{STORED_SUFFIX}"),
    ],
)
@pytest.mark.parametrize("below", [False, True])
def test_the_hidden_name(
    restricted: Session, session: Session, client: SessionContext, names: tuple[str, ...], *, below: bool
) -> None:
    """The name of a whole table in plans opens nothing, in a subquery neither, and for nobody."""
    sql = (
        "SELECT 1 FROM likes WHERE EXISTS (SELECT 1 FROM people WHERE id = person_id)"
        if below
        else "SELECT * FROM people"
    )
    plan = Plan.FromString(_plan(client, sql, optimized=True))
    for rel in _relations(plan):
        if rel.HasField("read") and rel.read.named_table.names[-1] == "people":
            _reading(*names)(rel)
    for asking in (restricted, session):
        with pytest.raises(NotFoundError, match="no table"):
            asking.execute_plan(plan.SerializeToString())


def test_parts_of_a_read(session: Session, client: SessionContext) -> None:
    """A read with a condition, a choice of columns and an order of its own is taken as it is meant; a wrong one not."""
    plan = Plan.FromString(_plan(client, "SELECT name, id FROM people WHERE id < 3"))
    root = plan.relations[0].root
    condition = next(rel for rel in _relations(plan) if rel.HasField("filter")).filter.condition
    read = next(rel for rel in _relations(plan) if rel.HasField("read")).read
    read.filter.CopyFrom(condition)
    for place in (0, 1, 4):
        read.projection.select.struct_items.add(field=place)
    read.common.emit.output_mapping.extend([1, 0])
    scan = Rel(read=read)
    root.input.CopyFrom(scan)
    expected = ask(session, "SELECT name, id FROM people WHERE id < 3")
    assert canonical(_run(session, plan.SerializeToString()).table) == canonical(expected.table)
    root.input.read.common.emit.output_mapping.append(3)
    with pytest.raises(InvalidInputError, match="a column that the table does not have"):
        session.execute_plan(plan.SerializeToString())


def test_described_as_it_runs(session: Session, client: SessionContext) -> None:
    """A plan's description has the schema it runs with and no parameters; nothing is asked."""
    plan = _plan(client, "SELECT name, ai_gen('Say {name}', name) FROM people")
    description = session.describe_plan(plan)
    assert (description.is_update, len(description.parameters)) == (False, 0)
    assert description.schema == session.execute_plan(plan).schema
    assert description.schema.names == ["name", 'ai_gen(Utf8("Say {name}"),people.name)']


def test_the_version_is_the_one_inside(client: SessionContext) -> None:
    """GetSqlInfo tells the version of Substrait that DataFusion writes."""
    version = Plan.FromString(_plan(client, "SELECT 1")).version
    assert f"{version.major_number}.{version.minor_number}.{version.patch_number}" == SUBSTRAIT


def _read_files(rel: Rel) -> None:
    rel.read.local_files.items.add(uri_file="/etc/passwd")


def _reading(*names: str) -> Callable[[Rel], None]:
    def change(rel: Rel) -> None:
        del rel.read.named_table.names[:]
        rel.read.named_table.names.extend(names)

    return change


def _write(rel: Rel) -> None:
    read = Rel.FromString(rel.SerializeToString())
    rel.write.named_table.names.append("people")
    rel.write.input.CopyFrom(read)


def _many(rel: Rel) -> None:
    read = Rel.FromString(rel.SerializeToString())
    rel.set.CopyFrom(SetRel(op=SetRel.SET_OP_UNION_ALL, inputs=[read] * 5_000))


def _no_column(rel: Rel) -> None:
    read = Rel.FromString(rel.SerializeToString())
    rel.filter.input.CopyFrom(read)
    rel.filter.condition.selection.direct_reference.struct_field.field = 99
    rel.filter.condition.selection.root_reference.SetInParent()


def _no_function(rel: Rel) -> None:
    read = Rel.FromString(rel.SerializeToString())
    rel.filter.input.CopyFrom(read)
    rel.filter.condition.scalar_function.function_reference = 77


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (_read_files, UnsupportedError, "reads local_files: read a table of the catalog"),
        (_reading(), InvalidInputError, "write schema and name"),
        (_reading("nope"), NotFoundError, "no table 'nope'"),
        (_reading("other", "public", "people"), NotFoundError, "no catalog 'other'"),
        (_reading("judged"), UnsupportedError, "view with AI calls"),
        (_reading("likes"), SqlError, "(?i)schema|field|column"),
        (_write, UnsupportedError, "a relation of the kind write"),
        (_many, LimitExceededError, r"\[limits\] sql_terms = 2,000"),
        (_no_column, FlightLLMError, "malformed|column|field"),
        (_no_function, InvalidInputError, "function 77: declare it in the extensions"),
        (lambda rel: rel.Clear(), UnsupportedError, "a relation of the kind nameless"),
    ],
)
def test_refused(session: Session, client: SessionContext, change: Any, error: type[Exception], message: str) -> None:
    """Files, writing, other catalogs, unknown names and oversized plans are refused, and say why."""
    session.update("CREATE OR REPLACE VIEW judged AS SELECT ai_sentiment(note) AS mood FROM people")
    plan = Plan.FromString(_plan(client, "SELECT * FROM people"))
    scan = next(rel for rel in _relations(plan) if rel.HasField("read"))
    change(scan)
    with pytest.raises(error, match=message):
        session.execute_plan(plan.SerializeToString())


def _relations(message: Message) -> list[Rel]:
    found = [message] if isinstance(message, Rel) else []
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in (value,) if isinstance(value, Message) else value:
                found += _relations(part)
    return found


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT ai_guess(note) FROM people", AICallError, "ai_guess is not an AI function"),
        (
            "SELECT ai_gen('Say {thing} of {nothing}', name) FROM people",
            AICallError,
            r"\{thing\}, which is not a field",
        ),
        ("SELECT vector_search('plots', note) FROM people", UnsupportedError, "send the query as SQL"),
        ("SELECT ai_similarity(name, note) FROM people", UnsupportedError, "send the query as SQL"),
        ("SELECT ai_classify(note, [name]) FROM people", AICallError, "labels must be a constant list"),
        ("SELECT id FROM people WHERE score > $1", FlightLLMError, "(?i)parameter|placeholder"),
    ],
)
def test_wrong_calls(session: Session, client: SessionContext, sql: str, error: type[Exception], message: str) -> None:
    """Calls are checked like those in SQL; parameters have no values."""
    with pytest.raises(error, match=message):
        list(session.execute_plan(_plan(client, sql)).batches)


def test_what_is_no_plan(session: Session) -> None:
    """Other bytes, no relation, two relations and endless nesting are told apart from plans."""
    deep = b""
    for _ in range(300):  # a fetch whose input is a fetch, and so on
        deep = _inside(Rel.FETCH_FIELD_NUMBER, _inside(FetchRel.INPUT_FIELD_NUMBER, deep))
    deep = _inside(RelRoot.INPUT_FIELD_NUMBER, deep)
    root = PlanRel(root=RelRoot(input=Rel()))
    for encoded in (
        b"\xff",
        b"",
        Plan(relations=[PlanRel(rel=Rel())]).SerializeToString(),
        Plan(relations=[root, root]).SerializeToString(),
        Plan(relations=[root]).SerializeToString(),
        _inside(Plan.RELATIONS_FIELD_NUMBER, _inside(PlanRel.ROOT_FIELD_NUMBER, deep)),
    ):
        with pytest.raises(FlightLLMError):
            session.execute_plan(encoded)


def test_nested_semi_joins_are_read_quickly(session: Session, client: SessionContext) -> None:
    """Finding out the names of columns takes no time that doubles with each level."""
    plan = Plan.FromString(_plan(client, "SELECT * FROM people"))
    rel = plan.relations[0].root.input
    scan = Rel.FromString(rel.SerializeToString())
    for _ in range(24):
        below = Rel.FromString(rel.SerializeToString())
        rel.Clear()
        rel.join.left.CopyFrom(below)
        rel.join.right.CopyFrom(scan)
        rel.join.type = JoinRel.JOIN_TYPE_LEFT_SEMI
        rel.join.expression.literal.boolean = True
    assert session.describe_plan(plan.SerializeToString()).schema.names[0] == "id"


def _inside(number: int, body: bytes) -> bytes:
    """Return a message whose field `number` is the message `body`."""
    length, size = len(body), bytearray()
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + body


def test_a_plan_is_bounded_in_bytes(tmp_path: Path) -> None:
    """The limit of an SQL text holds for a plan."""
    database = small_database(tmp_path, limits=LimitsConfig(sql_bytes=2_000))
    with pytest.raises(LimitExceededError, match="sql_bytes = 2,000"):
        database.session().execute_plan(b"x" * 2_001)


def test_tpch_like_by_hand(session: Session) -> None:
    """A plan put together message by message, an aggregate over a filtered table, with names only at its root."""
    plan = Plan()
    for anchor, name in ((1, "gt"), (2, "sum")):
        plan.extensions.add().extension_function.MergeFrom(_function(anchor, name))
    root = plan.relations.add().root
    root.names.extend(["flag", "total"])
    aggregate = root.input.aggregate
    aggregate.grouping_expressions.append(_column(0))
    aggregate.groupings.add().expression_references.append(0)
    measure = aggregate.measures.add().measure
    measure.function_reference = 2
    measure.arguments.add().value.CopyFrom(_column(1))
    project = aggregate.input.project
    project.common.emit.output_mapping.extend([6, 7])
    project.expressions.extend([_column(4), _column(3)])
    condition = project.input.filter.condition.scalar_function
    condition.function_reference = 1
    condition.arguments.add().value.CopyFrom(_column(0))
    condition.arguments.add().value.literal.i64 = 1
    read = project.input.filter.input.read
    read.named_table.names.extend(["flightllm", "public", "people"])
    read.base_schema.names.extend(["id", "name", "note", "score", "flag", "day"])
    kinds: list[Callable[[Any], Any]] = [
        *(lambda t: t.i64, lambda t: t.string, lambda t: t.string, lambda t: t.fp64),
        *(lambda t: t.bool, lambda t: t.date),
    ]
    for kind in kinds:
        kind(read.base_schema.struct.types.add()).nullability = 1
    expected = ask(session, "SELECT flag, sum(score) AS total FROM people WHERE id > 1 GROUP BY flag")
    assert canonical(_run(session, plan.SerializeToString()).table) == canonical(expected.table)


def _function(anchor: int, name: str) -> Any:
    return SimpleExtensionDeclaration.ExtensionFunction(function_anchor=anchor, name=name)


def _column(place: int) -> Expression:
    found = Expression()
    found.selection.direct_reference.struct_field.field = place
    found.selection.root_reference.SetInParent()
    return found


def test_own_functions(session: Session, client: SessionContext) -> None:
    """A plan calls no function that only the server's own texts call, as in SQL."""
    client.register_udf(udf(lambda given: given, [TEXTS], TEXT, "volatile", "__hash"))
    with pytest.raises(PermissionDeniedError, match="__hash is a function that only the server can call"):
        _run(session, _plan(client, "SELECT __hash(make_array(name)) FROM people"))


def test_models(database: Database, client: SessionContext) -> None:
    """A model that a plan names must be there, and be granted, as in SQL."""
    admin = database.session()
    admin.update("CREATE OR REPLACE MODEL fast OPTIONS (engine 'fake')")
    database.access.store.add_user(User("ann", "user"))
    admin.update("GRANT ALL ON SCHEMA public TO ann")
    ann = database.session(Principal("ann", "user"))
    client.register_udf(udf(lambda *given: given[0], [TEXT, TEXT], TEXT, "volatile", "ai_complete"))
    plan = _plan(client, "SELECT ai_complete('fast', 'Say it') FROM likes")
    with pytest.raises(PermissionDeniedError, match=r"'ann' .* no USAGE on model 'fast'"):
        _run(ann, plan)
    admin.update("GRANT USAGE ON MODEL fast TO ann")
    assert [site["model"] for site in _run(ann, plan).record.call_rows()] == ["fast"]
    with pytest.raises(PermissionDeniedError, match="no USAGE on model 'none', or it does not exist"):
        _run(ann, _plan(client, "SELECT ai_complete('none', 'Say it') FROM likes"))
    admin.update("REVOKE USAGE ON MODEL default FROM user")
    with pytest.raises(PermissionDeniedError, match="no USAGE on model 'default'"):
        _run(ann, _plan(client, "SELECT ai_sentiment(thing) FROM likes"))
