"""EXPLAIN of the statements that fit a filter: what they would ask, without asking."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import (
    FlightLLMError,
    InvalidInputError,
    MissingExtraError,
    NotFoundError,
    PermissionDeniedError,
)
from flightllm.execution import learn
from flightllm.execution.planning import plan
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import explained, rows
from tests.simulated import Model, Simulation, VectorModel, simulated

LABELS = {f"message {at}": at % 3 == 0 for at in range(90)}
CALL = "ai_filter('Is {{t}} spam{}?', t)"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Simulation]]:
    """Return a database with 66 rows, four without a label and two labelled ones twice, and the models that it asks."""
    with simulated({"demo": Model.of(LABELS)}, VectorModel(LABELS, noise=0.3)) as simulation:
        engine = EngineConfig("fake", "demo", price_input=1.0, price_output=2.0)
        config = Config(engine=engine, embedding=EmbeddingConfig("fake"), data_folder=tmp_path_factory.mktemp("fits"))
        database = Database.open(config)
        session = database.session()
        session.update(
            "CREATE TABLE labelled AS SELECT 'message ' || CASE WHEN value < 62 THEN value % 60 ELSE value END AS t,"
            " CASE WHEN value < 62 THEN value % 60 % 3 = 0 END AS label FROM generate_series(0, 65)"
        )
        database.access.store.add_user(User("bob", "user"))
        yield database, simulation
        database.close()


@pytest.fixture
def session(opened: tuple[Database, Simulation]) -> Session:
    """Return a session on it."""
    return opened[0].session()


def asked(opened: tuple[Database, Simulation]) -> int:
    """Return how many prompts and texts the models got so far."""
    simulation = opened[1]
    texts = 0 if simulation.embedder is None else simulation.embedder.asked
    return texts + sum(len(engine.asked) for engine in simulation.engines.values())


def total(session: Session, sql: str) -> dict[str, Any]:
    """Return the predicted work of a statement."""
    [row] = rows(session, f"EXPLAIN (FORMAT JSON) {sql}")
    found: dict[str, Any] = json.loads(row["plan"])["total"]["predicted"]
    return found


@pytest.mark.parametrize(
    ("name", "fit", "calls", "line"),
    [
        ("a", "FIT ON (SELECT t, label FROM labelled)", 60, "62 labelled rows of 66, with 60 different values"),
        ("b", "FIT ON labelled WITH (precision = 0.8)", 60, "by the features embedding, model"),
        ("c", "FIT ON labelled WITH (features = 'model')", 60, "by the feature model"),
        ("d", "FIT ON labelled WITH (features = 'embedding')", 0, "by the feature embedding; the prediction leaves"),
        ("e", "FIT ON (SELECT t, ai_filter('Odd? {t}', t) AS label FROM labelled)", 128, "is not known"),
    ],
)
def test_create(
    opened: tuple[Database, Simulation], session: Session, name: str, fit: str, calls: int, line: str
) -> None:
    """EXPLAIN shows the labelled rows, the features, and the calls with their price; it asks and stores nothing."""
    before, sql = asked(opened), f"CREATE FILTER {name} AS {CALL.format(f', {name}')} {fit}"
    told = explained(session, sql)
    assert told["change"] == f"CREATE FILTER {name}: EXPLAIN changes nothing"
    assert line in told["fit of labels"]
    work = total(session, sql)
    assert work["calls"] == calls
    assert ((work["price"] or 0) > 0) == (calls > 0)
    assert asked(opened) == before
    assert rows(session, f"SELECT name FROM system.filters WHERE name = '{name}'") == []


def test_as_predicted(opened: tuple[Database, Simulation], session: Session) -> None:
    """The fit makes the predicted calls; then its answers are known, and EXPLAIN of REFIT predicts none."""
    create = f"CREATE FILTER spam AS {CALL.format('')} FIT ON labelled"
    work, before = total(session, create), len(opened[1].engines["demo"].asked) if opened[1].engines else 0
    session.update(create)
    assert len(opened[1].engines["demo"].asked) - before == work["calls"] == 60
    told = explained(session, "ALTER FILTER spam REFIT")
    assert told["change"] == "REFIT of the filter spam, version 1: EXPLAIN changes nothing"
    assert "62 labelled rows" in told["fit of labels"]
    assert "Is {t} spam?" in "\n".join(told.values())
    assert total(session, "ALTER FILTER spam REFIT")["calls"] == 0
    session.set_option("cache", "off")
    assert total(session, "ALTER FILTER spam REFIT")["calls"] == 60
    kept = explained(session, f"CREATE FILTER IF NOT EXISTS spam AS {CALL.format('')} FIT ON labelled")
    assert "would change nothing, because there is a filter of this name" in kept["change"]
    assert rows(session, "SELECT version, looks FROM system.filters WHERE name = 'spam'") == [
        {"version": 1, "looks": 1}
    ]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("EXPLAIN ALTER FILTER absent REFIT", NotFoundError, "no filter 'absent'"),
        ("EXPLAIN ANALYZE CREATE FILTER x AS {} FIT ON labelled", FlightLLMError, "would run the CREATE FILTER"),
        ("EXPLAIN ANALYZE ALTER FILTER x REFIT", FlightLLMError, "would run the ALTER FILTER … REFIT"),
        ("EXPLAIN DROP FILTER x", FlightLLMError, "changes of rows, CREATE FUNCTION and fits of filters"),
        ("EXPLAIN CREATE FILTER x AS {} FIT ON (SELECT t FROM labelled)", InvalidInputError, "no column label"),
        ("EXPLAIN CREATE FILTER x AS {} FIT ON labelled WITH (recal = 0.9)", InvalidInputError, "no option recal"),
        ("EXPLAIN CREATE FILTER x AS {} FIT ON (SELECT t, 'maybe' FROM labelled)", InvalidInputError, "maybe"),
        ("EXPLAIN CREATE FILTER x AS ai_score('?', t, low => 1, high => 5) FIT ON labelled WITH (recall = 0.9)",
         InvalidInputError, "cannot certify recall"),
        ("EXPLAIN CREATE FILTER ai_x AS {} FIT ON labelled", InvalidInputError, "server's own functions"),
    ],
)  # fmt: skip
def test_refused(session: Session, sql: str, error: type[Exception], message: str) -> None:
    """EXPLAIN gives the errors of the statement, as far as no model is needed."""
    with pytest.raises(error, match=message):
        rows(session, sql.format(CALL.format("")))


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        ("(SELECT 'row ' || value, value % 3 = 0 FROM generate_series(1, 100001))", "than 100,000 rows: add a LIMIT"),
        ("(SELECT t, label FROM labelled WHERE label LIMIT 4)", "^4 labels are too few"),
        ("(SELECT t, true FROM labelled)", "are 'No': label more rows"),
        ("(SELECT t, 'maybe' FROM labelled)", "maybe"),
        ("system.labels", "^0 labels are too few"),
    ],
)
def test_labels_refused(opened: tuple[Database, Simulation], session: Session, fit: str, message: str) -> None:
    """CREATE FILTER refuses labels that no fit can take before it asks a model, and EXPLAIN gives the same error."""
    before, sql = asked(opened), f"CREATE FILTER refused AS {CALL.format(', refused')} FIT ON {fit}"
    with pytest.raises(InvalidInputError, match=message) as created:
        session.update(sql)
    with pytest.raises(InvalidInputError) as planned:
        explained(session, sql)
    assert str(planned.value) == str(created.value)
    assert asked(opened) == before


def test_many_rows_without_a_label(session: Session) -> None:
    """Rows without a label do not count against the limit on labels."""
    more = "SELECT t, label FROM labelled UNION ALL SELECT 'new', NULL FROM generate_series(1, 100000)"
    told = explained(session, f"CREATE FILTER rare AS {CALL.format('')} FIT ON ({more})")
    assert "62 labelled rows of 100,066, with 60 different values" in told["fit of labels"]


def test_rights(opened: tuple[Database, Simulation]) -> None:
    """A user without the right to a filter or to its labels learns nothing about them."""
    database = opened[0]
    bob = database.session(database.access.store.user("bob").principal)
    with pytest.raises(FlightLLMError, match="labelled"):
        rows(bob, f"EXPLAIN CREATE FILTER own AS {CALL.format('')} FIT ON labelled")
    database.session().update(f"CREATE OR REPLACE FILTER theirs AS {CALL.format('')} FIT ON labelled")
    with pytest.raises(NotFoundError, match="no filter 'theirs'"):
        rows(bob, "EXPLAIN ALTER FILTER theirs REFIT")
    database.session().update("GRANT EXECUTE ON FILTER theirs TO bob")
    with pytest.raises(PermissionDeniedError):
        rows(bob, "EXPLAIN ALTER FILTER theirs REFIT")


def test_table_of_the_session(session: Session) -> None:
    """The labels can be in a temporary table."""
    session.update("CREATE TEMP TABLE own AS SELECT * FROM labelled WHERE label IS NOT NULL")
    told = explained(session, f"CREATE FILTER mine AS {CALL.format('')} FIT ON own")
    assert "62 labelled rows of 62" in told["fit of labels"]


@pytest.mark.parametrize(("features", "plans"), [("model", 1), ("embedding", 1), ("model, embedding", 2)])
def test_features_are_planned_once(
    session: Session, monkeypatch: pytest.MonkeyPatch, features: str, plans: int
) -> None:
    """The rows and the call are read once; only where vectors belong to the features, the model's have a plan too."""
    planned = list[str]()

    def counted(text: ParsedText, *given: Any) -> Any:
        planned.append(text.sql)
        return plan(text, *given)

    monkeypatch.setattr(learn, "plan", counted)
    sql = f"CREATE FILTER n AS {CALL.format(', n')} FIT ON labelled WITH (features = '{features}')"
    explained(session, sql)
    own = [sql for sql in planned if learn.FEATURES_OF in sql]
    assert len([sql for sql in own if "labelled" in sql]) == plans
    assert len(own) == plans + 1, "the call is read once"


def test_missing_packages_cost_nothing(
    opened: tuple[Database, Simulation], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without scikit-learn, a fit is refused before a model is asked."""
    before = asked(opened)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match=r"\[learn\]"):
        session.update(f"CREATE FILTER unfit AS {CALL.format(', unfit')} FIT ON labelled")
    assert asked(opened) == before
