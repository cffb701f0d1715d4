"""Where a plan is cut, which stages stream, and where the order of rows is kept."""

import pytest

from flightllm.config.session_settings import Settings
from flightllm.execution.planning import plan
from flightllm.execution.staged_query import StagedQuery
from flightllm.plan.stages import Limit, Operator, PairJoin, Relational, RowIdStage, StageInput, United, stage_frame
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask


def stage_of(database: Database, sql: str) -> Relational:
    """Return the stages of a query."""
    query = plan(ParsedText(sql), database._services, Settings())
    assert isinstance(query, StagedQuery)
    return query._stage


def stage_inputs(stage: Relational) -> list[StageInput]:
    """Return all stage inputs, the last to run first."""
    return [
        j
        for stage_input in stage.inputs
        for j in (stage_input, *(k for below in inputs(stage_input) for k in stage_inputs(below)))
    ]


def inputs(stage_input: StageInput) -> tuple[Relational, ...]:
    """Return the stages that fill a stage input."""
    return stage_input.inputs if isinstance(stage_input, United | PairJoin) else (stage_input.input,)


@pytest.mark.parametrize(
    ("sql", "streams"),
    [
        ("SELECT id, upper(ai_gen('x', note)) FROM people", True),
        ("SELECT id FROM people WHERE ai_filter('x', note) AND score > 2", True),
        ("SELECT id, ai_gen('x', note) FROM people ORDER BY id LIMIT 3", True),
        ("SELECT id FROM people WHERE ai_filter('x', note) LIMIT 3", True),
        ("SELECT count(ai_gen('x', note)) FROM people", False),
        ("SELECT id FROM people ORDER BY ai_score('x', note)", False),
        ("SELECT DISTINCT ai_gen('x', note) FROM people", False),
        ("SELECT id, sum(ai_score('x', note)) OVER (ORDER BY id) FROM people", False),
        ("SELECT id, ai_gen('x', note) FROM people UNION ALL SELECT 1, 'a'", False),
        ("SELECT p.id FROM people p LEFT JOIN likes l ON p.id = l.person_id AND ai_filter('x', l.thing)", False),
    ],
)
def test_streams(database: Database, sql: str, streams: bool) -> None:
    """A result streams where each row can be finished by itself."""
    assert stage_of(database, sql).streams == streams


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT id, ai_gen('x', note) FROM people", [False]),
        ("SELECT id, ai_gen('x', note) FROM people ORDER BY id LIMIT 3", [True]),
        ("SELECT ai_gen('y', b => ai_gen('x', note)) FROM people ORDER BY id LIMIT 3", [True, True]),
        ("SELECT id, ai_gen('x', note) FROM people ORDER BY id", [False]),
        ("SELECT id, ai_gen('x', note) AS g FROM people ORDER BY g LIMIT 3", [False]),
        ("SELECT max(g) FROM (SELECT ai_gen('x', note) AS g FROM people ORDER BY id LIMIT 3)", [False]),
    ],
)
def test_ordered(database: Database, sql: str, ordered: list[bool]) -> None:
    """An operator keeps the order of its input only where a sort below decides the order of the result."""
    operators = [j for j in stage_inputs(stage_of(database, sql)) if isinstance(j, Operator)]
    assert [operator.ordered for operator in operators] == ordered


@pytest.mark.parametrize(
    ("sql", "limits"),
    [
        ("SELECT id FROM people WHERE ai_filter('x', note) LIMIT 3 OFFSET 1", [(1, 3)]),
        ("SELECT id FROM people WHERE ai_filter('x', note) OFFSET 2", [(2, None)]),
        (
            "SELECT id FROM (SELECT id FROM people WHERE ai_filter('x', note) LIMIT 5) WHERE id > 1 LIMIT 2",
            [(0, 2), (0, 5)],
        ),
        ("SELECT id, ai_gen('x', note) FROM people LIMIT 3", []),
        ("SELECT id FROM people WHERE ai_filter('x', note) ORDER BY id LIMIT 3", [(0, 3)]),
    ],
)
def test_limits(database: Database, sql: str, limits: list[tuple[int, int | None]]) -> None:
    """A limit over a filtered operator stops it early; other limits are DataFusion's."""
    found = [j for j in stage_inputs(stage_of(database, sql)) if isinstance(j, Limit)]
    assert [(j.offset, j.limit) for j in found] == limits


def test_numbered_once(database: Database) -> None:
    """Rows that two stages read are one stage input."""
    sql = "SELECT p.id FROM people p LEFT JOIN likes l ON p.id = l.person_id AND ai_filter('x', p.note, l.thing)"
    numbered = [j for j in stage_inputs(stage_of(database, sql)) if isinstance(j, RowIdStage)]
    assert len(numbered) == 2
    assert len({j.table for j in numbered}) == 1


def test_only_needed_columns(database: Database) -> None:
    """Columns pass through an operator only if something above reads them."""
    (operator,) = stage_inputs(stage_of(database, "SELECT id, ai_gen('x', note) FROM people"))
    assert isinstance(operator, Operator)
    assert operator.input.schema.names == ["c0", "c1"]


def test_order_of_many(session: Session) -> None:
    """Order survives an operator over many batches, nested calls and a predicate on answers."""
    session.update("CREATE OR REPLACE TABLE big AS SELECT value AS id, value % 50 AS k FROM generate_series(1, 30000)")
    inner = "SELECT id, ai_gen('y', b => ai_gen('x', k)) AS g FROM big ORDER BY id DESC LIMIT 20000"
    ids = [row["id"] for row in ask(session, f"SELECT id FROM ({inner}) WHERE length(g) > 2", cache="off").rows]
    assert ids == list(range(30_000, 10_000, -1))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT note, id FROM people WHERE ai_filter('x', note) LIMIT 3",
        "SELECT ai_gen('x', note), score FROM people ORDER BY score LIMIT 3",
        "SELECT id, score FROM (SELECT * FROM people ORDER BY id LIMIT 5) AS p WHERE ai_filter('x', note) AND id > 1",
        "SELECT [id, id] AS l, ai_gen('x', note) AS g, ai_score('y', note) FROM people LIMIT 2",
        "SELECT count(*), id FROM people WHERE ai_filter('x', note) GROUP BY id",
    ],
)
def test_types(database: Database, sql: str) -> None:
    """Each stage has the types that DataFusion gives to its plan."""
    query = plan(ParsedText(sql), database._services, Settings())
    assert isinstance(query, StagedQuery)
    top = query._stage
    for stage in (top, *(s for stage_input in stage_inputs(top) for s in inputs(stage_input))):
        assert stage.schema.types == stage_frame(query._context, stage.plan).schema().types
