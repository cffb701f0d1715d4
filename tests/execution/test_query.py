"""How a query is run: as operators, untouched, or as batch functions; and what EXPLAIN says of each."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from flightllm.config.session_settings import Settings
from flightllm.errors import AICallError, SqlError
from flightllm.execution.query import BatchQuery, PlainQuery, StagedQuery, plan
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.system_tables.indexes import ServerTables
from tests.databases import ask, explained, small_database

AI = "SELECT id, ai_gen('x', note) AS g FROM people WHERE ai_filter('y', name) AND score > 1 ORDER BY id LIMIT 2"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of small tables."""
    database = small_database(tmp_path_factory.mktemp("queries"))
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a fresh session."""
    return database.session()


@pytest.mark.parametrize(
    ("sql", "settings", "kind"),
    [
        ("SELECT id FROM people", Settings(), PlainQuery),
        ("SELECT 'ai_gen(x)' FROM people", Settings(), PlainQuery),
        ("SELECT ai_count_tokens(note) FROM people", Settings(), PlainQuery),
        (AI, Settings(), StagedQuery),
        (AI, Settings(optimizer=False), BatchQuery),
        ("SELECT unnest(ai_classify(note, ['a', 'b'], multi => true)) FROM people", Settings(), BatchQuery),
    ],
)
def test_path(database: Database, sql: str, settings: Settings, kind: type) -> None:
    """Queries without AI calls go to DataFusion; with them, to operators unless they cannot or shall not."""
    assert type(plan(ParsedText(sql), database._services, settings)) is kind


def test_explain_operators(session: Session) -> None:
    """EXPLAIN shows the rules, each stage and each operator with its call, fields and type, by the text of the user."""
    lines = explained(session, AI)
    assert lines["rules"]
    operators = [text for title, text in lines.items() if title.startswith("ai operator")]
    assert [text.split(" = ", 1)[1].splitlines()[0] for text in operators] == [
        "ai_gen('x', note)",
        "ai_filter('y', name)",
    ]
    assert "fields (note = c" in operators[0]
    assert "returns string" in operators[0]
    stages = {title: text for title, text in lines.items() if title.startswith("stage")}
    assert "batch by batch" in stages["stage result"]
    assert any("people.score > Float64(1)" in text for text in stages.values())


def test_explain_guard(session: Session) -> None:
    """EXPLAIN says which calls are made for some rows only."""
    lines = explained(session, "SELECT CASE WHEN flag THEN ai_gen('x', note) END FROM people")
    (operator,) = (text for title, text in lines.items() if title.startswith("ai operator"))
    assert "only where c" in operator


def test_explain_steps(session: Session) -> None:
    """EXPLAIN names `fuse`, and says which calls its operator asks together, which wait, and where rows are dropped."""
    lines = explained(
        session,
        "SELECT ai_gen('g', note), ai_score('s', note) FROM people WHERE ai_filter('x', note) AND"
        " ((ai_filter('y', name) AND ai_filter('z', name)) OR score > 3)",
    )
    assert lines["rules"].split(", ")[-1] == "fuse"
    (operator,) = (text for title, text in lines.items() if title.startswith("ai operator"))
    assert "only where s0_c2 > Float64(3) IS NOT TRUE AND s0_c4 IS NOT FALSE" in operator
    assert operator.splitlines()[-4:] == [
        "step 1: asks s0_c3; keeps the rows where s0_c3",
        "step 2: asks s0_c4, then s0_c5; keeps the rows where s0_c4 AND s0_c5 OR s0_c2 > Float64(3)",
        "step 3: asks s0_c6 and s0_c7",
        "runs the steps that drop rows in the order that is cheapest on the rows so far",
    ]


def test_explain_long_values(session: Session) -> None:
    """A value of a condition is searched for names of columns once, however long a word it is."""
    word = "x" * 400_000
    lines = explained(session, f"SELECT id FROM people WHERE ai_filter('y', name) OR name = '{word}'")
    assert any(f"""OR s0_c1 = Utf8("{word}")""" in text for text in lines.values())


def test_explain_without_steps(session: Session) -> None:
    """An operator that drops no rows has no steps, and `fuse` did not fire."""
    lines = explained(session, "SELECT ai_gen('g', note) FROM people")
    assert "fuse" not in lines["rules"]
    assert not any("step 1" in text for text in lines.values())


def test_explain_off(session: Session) -> None:
    """Without the optimizer EXPLAIN says why there is no operator, and shows DataFusion's plans."""
    session.set_option("optimizer", "off")
    lines = explained(session, AI)
    assert "the setting flightllm.optimizer is off" in lines["batch functions"]
    assert "ai_gen('x', note)" in lines["batch functions"]
    assert "people" in lines["logical_plan"]
    assert "Exec" in lines["physical_plan"]
    assert "people.score > Float64(1) AND ai_filter(people.name)" in lines["logical_plan"]
    assert "__ai" not in str(lines)


def test_explain_fallback(session: Session) -> None:
    """A plan that cannot cross Substrait names what stopped it."""
    lines = explained(session, "SELECT unnest(ai_classify(note, ['a', 'b'], multi => true)) FROM people")
    assert lines["batch functions"].splitlines()[0] == (
        "one call per distinct prompt of a batch: Unsupported plan type: Unnest"
    )
    assert "__ai" not in str(lines)


def test_explain_values(session: Session) -> None:
    """VALUES with calls are explained without making the calls."""
    lines = explained(session, "VALUES (ai_gen('x', a => 'one'))")
    assert "Values" in lines["logical_plan"]


def test_explain_plain(session: Session) -> None:
    """A plain query shows DataFusion's plans alone."""
    assert list(explained(session, "SELECT id FROM people")) == ["logical_plan", "physical_plan"]


@pytest.mark.parametrize("verb", ["EXPLAIN", "explain verbose", "DESCRIBE"])
def test_explain_makes_no_call(database: Database, session: Session, verb: str) -> None:
    """Explaining and planning ask the engine nothing."""
    before = database.engine.sent  # type: ignore[attr-defined]
    if verb != "DESCRIBE":
        ask(session, f"{verb} SELECT ai_gen('unasked', note) FROM people")
    session.describe("SELECT ai_gen('unasked', note) FROM people")
    assert database.engine.sent == before  # type: ignore[attr-defined]


def test_explain_analyze(session: Session) -> None:
    """EXPLAIN ANALYZE runs the query and adds what each call took."""
    lines = {
        row["plan_type"]: row["plan"]
        for row in ask(session, "EXPLAIN ANALYZE SELECT ai_gen('z', note) FROM people").rows
    }
    assert lines["calls of s0"].startswith("ai_gen('z', note)\n")
    predicted, actual = (line.split()[:5] for line in lines["calls of s0"].splitlines()[-2:])
    assert predicted == ["predicted", *actual[1:]] == ["predicted", "9", "4", "0", "4"]


def test_names(session: Session) -> None:
    """Result columns are named as the user wrote the calls; no name of ours is seen."""
    schema = session.describe("SELECT ai_gen('x', note), upper(ai_gen('x', note)), id FROM people").schema
    assert schema.names[0] == "ai_gen('x', note)"
    assert not any("__ai" in name for name in schema.names)
    text = str(explained(session, "SELECT ai_gen('x', note) FROM people"))
    assert "__ai" not in text


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT ai_filtr('x', note) FROM people", AICallError, "did you mean ai_filter"),
        ("SELECT ai_filter('{nope}', note) FROM people", AICallError, "nope"),
        ("SELECT ai_gen('x', nope) FROM people", SqlError, "nope"),
        ("SELECT ai_gen('x', note) FROM nowhere", SqlError, "nowhere"),
        ("SELECT ai_gen('x', note, model => 'other') FROM people", AICallError, "no model 'other'"),
        ("SELECT ai_gen('x', note, on_error => 'maybe') FROM people", AICallError, "on_error"),
        ("SELECT ai_gen() FROM people", AICallError, "prompt"),
        ("SELECT ai_classify(note, []) FROM people", AICallError, "label"),
        ("SELECT ai_extract(note, '{bad') FROM people", AICallError, "schema"),
        ("SELECT id FROM people WHERE ai_gen('x', note)", SqlError, r"non-boolean predicate 'ai_gen\(people.note\)'"),
        ("SELECT sum(ai_gen('x', note)) OVER FROM people", SqlError, "window"),
    ],
)
@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_wrong(session: Session, sql: str, error: type[Exception], message: str, optimizer: str) -> None:
    """What is wrong is said before anything runs, alike with the optimizer on and off."""
    with pytest.raises(error, match=message):
        session.execute(sql, settings={"optimizer": optimizer})


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_filters_on_both_sides_of_an_outer_join(
    session: Session, kind: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DataFusion by itself pushes one filter to the wrong side where columns of the sides share name and place."""
    monkeypatch.setattr("flightllm.datafusion.contexts._cores", lambda: cores)
    left = "(SELECT 1 AS k, 1 AS n UNION ALL SELECT NULL, 2 UNION ALL SELECT 5, 2)"
    right = "(SELECT 2 AS k, 1 AS m, 'q' AS y UNION ALL SELECT NULL, 2, NULL UNION ALL SELECT 7, 2, 's')"
    sql = f"SELECT u.k AS a, v.k AS b, v.y FROM {left} u {kind} JOIN {right} v ON u.n = v.m"
    joined = ask(session, sql).rows
    filtered = ask(session, f"{sql} WHERE coalesce(u.k, 0) < 3 AND v.y IS NOT NULL").rows
    expected = [row for row in joined if (row["a"] or 0) < 3 and row["y"] is not None]
    assert sorted(map(repr, filtered)) == sorted(map(repr, expected))
    asking = sql.replace("v.y FROM", "ai_gen('Say', v.y) AS y FROM") + " WHERE coalesce(u.k, 0) < 3 AND v.y IS NOT NULL"
    for optimizer in ("on", "off"):
        places = [(row["a"], row["b"]) for row in ask(session, asking, optimizer=optimizer).rows]
        assert sorted(map(repr, places)) == sorted(repr((row["a"], row["b"])) for row in expected)


def test_further_conditions_of_a_full_join(session: Session) -> None:
    """DataFusion's sort-merge join forgets a column that only the condition reads; such joins are hashed."""
    rows = "(SELECT 5 AS x, 1 AS y UNION ALL SELECT 1, 2 UNION ALL SELECT 2, 1)"
    sql = f"SELECT b.y, count(a.y) AS n FROM {rows} a FULL JOIN {rows} b ON a.y = b.y AND a.x <> 2 GROUP BY 1"
    found = {row["y"]: row["n"] for row in ask(session, sql).rows}
    assert found == {1: 2, 2: 1, None: 1}


def test_a_plain_query_is_planned_once(database: Database, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schema, its settings for joins and its rows come from one look-up of each table."""
    snapshot, taken = ServerTables.snapshot, list[str]()

    def counted(tables: ServerTables, name: str) -> pa.Table:
        taken.append(name)
        return snapshot(tables, name)

    monkeypatch.setattr(ServerTables, "snapshot", counted)
    text = "SELECT q.query_id FROM system.queries q LEFT JOIN system.sessions s ON q.session_id = s.session_id"
    assert isinstance(plan(ParsedText(text), database._services, Settings()), PlainQuery)
    assert ask(session, text).rows
    assert sorted(taken) == ["queries", "queries", "sessions", "sessions"]
