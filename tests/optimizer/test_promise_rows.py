"""The promise of a whole query: which calls get a share, why others get none, and that the rows stay the same."""

from collections.abc import Iterator

import pytest

from flightllm.functions.promise import Promise
from flightllm.optimizer import LAST_RULES, RULES, rewrite
from flightllm.optimizer.promise_rows import Means, Shares, promise_rows
from flightllm.plan.nodes import AiMap, Filter, Node, walk
from flightllm.quality.targets import Targets
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, plan_lines, plan_of, rows, small_database

A, B = "ai_filter('a', note)", "ai_filter('b', note, model => 'dear')"
LABEL = "ai_classify(note, ['a', 'b', 'c'])"
SCORE = "ai_score('z', note)"
WHOLE = Targets(recall=0.95, precision=0.9, confidence=0.9)
MEANS = Means(lambda _: ("model small",), {None: 1.0, "dear": 5.0}.__getitem__)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return small tables, a dear model, and a proxy of both models."""
    database = small_database(tmp_path_factory.mktemp("promises"))
    session = database.session()
    session.update("CREATE MODEL dear OPTIONS (engine 'fake', model 'd', price_input 5, price_output 5)")
    session.update("CREATE MODEL small OPTIONS (engine 'fake', model 's', proxy_for 'default, dear')")
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session whose queries promise the rows of their results."""
    session = database.session()
    session.update("SET flightllm.quality = 'recall 0.95, precision 0.9, confidence 0.9'")
    return session


def shared(database: Database, sql: str, means: Means = MEANS, targets: Targets = WHOLE) -> tuple[Node, Shares]:
    """Return a query's plan with promises, and the shares."""
    planned = plan_of(database, sql, folds=True)
    root, _ = rewrite(planned.root, planned.functions, RULES, LAST_RULES)
    return promise_rows(root, planned.functions, targets, means)


def given(shares: Shares) -> dict[str, Promise | None]:
    """Return the promises by the texts of their calls."""
    return {call.text: call.promise for call in shares.given}


@pytest.mark.parametrize(
    ("sql", "promising"),
    [
        (f"SELECT id FROM people WHERE {A}", [A]),
        (f"SELECT id FROM people WHERE {A} AND id > 1 ORDER BY id DESC", [A]),
        (f"SELECT id FROM people WHERE {A} AND {B}", [B]),
        (f"SELECT id FROM people WHERE {B} AND {A}", [B]),
        (f"SELECT id, {LABEL} AS l FROM people", [LABEL]),
        (f"SELECT id, {LABEL} AS l, {A} AS f FROM people WHERE {B} ORDER BY id", [A, B, LABEL]),
        (f"SELECT id, CASE WHEN flag THEN {LABEL} ELSE 'n' END AS l FROM people", [LABEL]),
        (f"SELECT id FROM people WHERE NOT {A}", [f"NOT {A}"]),
        (f"SELECT id FROM people WHERE {SCORE} >= 5", [f"{SCORE} >= 5"]),
        (f"SELECT id FROM people WHERE {LABEL} = 'a' AND {SCORE} > 3", [f"{LABEL} = 'a'", f"{SCORE} > 3"]),
        (f"SELECT id FROM people WHERE {A} UNION ALL SELECT id FROM people WHERE {B}", [A, B]),
        (f"SELECT * FROM people JOIN likes ON people.id = person_id WHERE {A} AND thing = 'tea'", None),
        (f"SELECT upper(n) FROM (SELECT name AS n FROM people WHERE {A}) AS t WHERE n <> 'x'", [A]),
    ],
)
def test_shares(database: Database, session: Session, sql: str, promising: list[str] | None) -> None:
    """Filters above all others and labels of the result get a share, and the rows stay those of the models."""
    _, shares = shared(database, sql)
    if promising is not None:
        assert sorted(given(shares)) == sorted(promising)
    plain = database.session()
    order = "" if "ORDER BY" in sql else " ORDER BY 1"
    assert rows(session, f"{sql}{order}") == rows(plain, f"{sql}{order}"), "few rows are asked about anyway"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT count(*) FROM people WHERE {A}", "groups or aggregates"),
        (f"SELECT name FROM people WHERE {A} GROUP BY name", "groups or aggregates"),
        (f"SELECT DISTINCT name FROM people WHERE {A}", "groups or aggregates"),
        (f"SELECT id FROM people WHERE {A} ORDER BY id LIMIT 2", "a LIMIT takes only some of its rows"),
        (f"SELECT id, rank() OVER (ORDER BY id) FROM people WHERE {A}", "a window function"),
        (f"SELECT id FROM people WHERE {A} OR id = 1", "it is in OR or another condition"),
        (f"SELECT id FROM people WHERE {A} IS NULL", "it is in OR or another condition"),
        (f"SELECT id FROM people WHERE CASE WHEN flag THEN {A} ELSE id > 2 END", "it is in OR"),
        ("SELECT id FROM people WHERE id IN (SELECT person_id FROM likes WHERE ai_filter('a', thing))", "a join"),
        ("SELECT id FROM people LEFT JOIN likes ON id = person_id AND ai_filter('a', thing)", "a join"),
        (f"SELECT id FROM people WHERE {A} UNION SELECT id FROM people WHERE {A}", "groups or aggregates"),
        ("SELECT id, ai_gen('x', note) AS g FROM people", "its answer is not one of a few options"),
        (f"SELECT id, {SCORE} AS s FROM people", "the number itself is shown"),
        ("SELECT id, ai_filter('a', note, temperature => 1) AS f FROM people", "its answers are random"),
        ("SELECT id, ai_filter('a', note, confidence => true) AS f FROM people", "its answer is not one of a few"),
        ("SELECT id FROM people WHERE ai_filter('is it May?')", "it has no fields"),
    ],
)
def test_exact(database: Database, session: Session, sql: str, reason: str) -> None:
    """Where a share proves nothing about the result, all rows are asked about; EXPLAIN and a notice say why."""
    root, shares = shared(database, sql)
    assert not shares.given
    assert all(call.ai.promise is None for node in walk(root) if isinstance(node, AiMap) for call in node.calls)
    assert reason in " ".join(shares.lines())
    assert reason in plan_lines(session, sql)["quality"]
    ran = ask(session, sql)
    assert reason in (ran.record.error or "")
    assert ran.record.status == "done"


def test_chosen_filter_is_last(database: Database) -> None:
    """The dear filter gets the share, and so it sees only the rows that all other filters let through."""
    sql = f"SELECT id, {LABEL} AS l FROM people WHERE {B} AND {A}"
    root, shares = shared(database, sql)
    asked = [call.ai.text for node in walk(root) if isinstance(node, AiMap) for call in node.calls]
    assert asked == [LABEL, B, A]
    assert [reason for _, reason in shares.reasons] == [
        "another filter comes after it, and could keep just the rows that a proxy of this one loses"
    ]
    top = next(node for node in walk(root) if isinstance(node, Filter))
    assert isinstance(top.input, AiMap)
    assert top.input.calls[0].ai.text == B


def test_filters_of_one_model_promise_together(database: Database) -> None:
    """Filters of one model make one promise, in one operator below the labels."""
    other = "ai_filter('c', note)"
    root, shares = shared(database, f"SELECT id, {LABEL} AS l FROM people WHERE {A} AND {other}")
    assert sorted(given(shares)) == sorted([A, other, LABEL])
    assert given(shares)[A] == given(shares)[other]
    assert [promise.filters for promise in given(shares).values() if promise] == [2, 2, 1]
    below = [node for node in walk(root) if isinstance(node, AiMap)][1]
    assert [call.ai.text for call in below.calls] == [A, other]
    assert len(below.steps) == 2


def test_vectors_leave_filters_of_one_model_exact(database: Database) -> None:
    """Without a language model as a proxy, filters of one model stay one operator; the label gets the whole promise."""
    means = Means(lambda _: ("embedding",), MEANS.price)
    sql = f"SELECT id, {LABEL} AS l FROM people WHERE {A} AND ai_filter('c', note)"
    _, shares = shared(database, sql, means)
    assert list(given(shares)) == [LABEL]
    assert "its model has other filters over the same rows" in " ".join(shares.lines())


def test_errors_add_up(database: Database) -> None:
    """The chances to miss are those of the query together, also over the parts of a UNION ALL."""
    _, shares = shared(database, f"SELECT id, {LABEL} AS l FROM people WHERE {A}")
    found = [promise for promise in given(shares).values() if promise is not None]
    assert sum(1 - promise.confidence for promise in found) == pytest.approx(0.1)
    _, shares = shared(database, f"SELECT id FROM people WHERE {A} UNION ALL SELECT id FROM people WHERE {B}")
    assert {(p.recall, p.precision, round(p.confidence, 9)) for p in given(shares).values() if p} == {(0.95, 0.9, 0.95)}


def test_recall_alone_leaves_labels_exact(database: Database) -> None:
    """Behind a filter without a precision, labels ask their model."""
    sql = f"SELECT id, {LABEL} AS l FROM people WHERE {A}"
    _, shares = shared(database, sql, targets=Targets(recall=0.9))
    assert list(given(shares)) == [A]
    assert "without a precision of the query" in "".join(shares.lines())


def test_no_proxy(database: Database) -> None:
    """A call whose model has no proxy asks it about all rows; a filter with one gets the share."""
    means = Means(lambda model: ("model small",) if model is None else "dear has no proxy", MEANS.price)
    root, shares = shared(database, f"SELECT id FROM people WHERE {A} AND {B}", means)
    assert list(given(shares)) == [A]
    assert [reason for _, reason in shares.reasons] == ["dear has no proxy"]
    assert next(node for node in walk(root) if isinstance(node, AiMap)).calls[0].ai.text == A


def test_own_targets(database: Database, session: Session) -> None:
    """A call with targets of its own keeps them, and the setting adds nothing."""
    sql = f"SELECT id FROM people WHERE {A} AND ai_filter('c', note, recall => 0.9, proxy => 'small')"
    _, shares = shared(database, sql)
    assert not shares.given
    assert "a call of the query has targets of its own" in plan_lines(session, sql)["quality"]


def test_changes_of_rows_are_exact(database: Database, session: Session) -> None:
    """DELETE and UPDATE ask the model about every row, because a wrong row would be lost for good."""
    session.update("CREATE TABLE gone AS SELECT * FROM people")
    wanted = rows(database.session(), f"SELECT id FROM gone WHERE NOT coalesce({A}, false) ORDER BY id")
    session.update(f"DELETE FROM gone WHERE {A}")
    assert rows(session, "SELECT id FROM gone ORDER BY id") == wanted
    session.update("DROP TABLE gone")
