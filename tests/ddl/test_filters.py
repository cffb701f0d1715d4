"""Filters that people's labels teach: made, asked, judged, fitted again, granted and kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.errors import (
    AICallError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.storage.backup import back_up
from tests.databases import ask, explained, rows

SPAM = "ai_filter('Is {t} spam?', {t}) FIT ON (SELECT t, label FROM labelled)"
WORDS = "['hello friend', 'free money', 'see you', 'win money now', 'lunch today', 'where are you']"


MESSAGES = (
    f"CREATE TABLE messages AS SELECT {WORDS}[value % 6 + 1] || ' ' || value AS t,"
    " value % 2 = 1 AND value % 6 < 5 AS spam, value FROM generate_series(1, 240)"
)
LABELLED = "CREATE TABLE labelled AS SELECT t, spam AS label FROM messages WHERE value <= 160"


def opened_in(folder: Path) -> Database:
    """Open a database with engines and embeddings that need no model."""
    return Database.open(Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=folder))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with labelled messages, further messages, and the filter `spam`."""
    database = opened_in(tmp_path)
    session = database.session()
    session.update(MESSAGES)
    session.update(LABELLED)
    session.update(f"CREATE FILTER spam AS {SPAM}")
    yield database
    database.close()


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with labelled messages, which all tests of a process share."""
    database = opened_in(tmp_path_factory.mktemp("labels"))
    session = database.session()
    session.update(MESSAGES)
    session.update(LABELLED)
    yield session
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session on it."""
    return database.session()


def test_decides(session: Session) -> None:
    """The filter knows messages that nobody labelled, where the model guesses; it asks once a distinct message."""
    sql = "SELECT spam, spam(t) AS learned FROM messages WHERE value > 160"
    learned = ask(session, sql)
    assert learned.record.row()["calls"] == 160, "a question to the model and a vector for each message"
    right = sum(row["spam"] == row["learned"] for row in learned.rows)
    assert right > 75
    guessed = rows(session, "SELECT spam = ai_filter('Is {t} spam?', t) AS r FROM messages WHERE value > 160")
    assert sum(row["r"] for row in guessed) < 60
    again = ask(session, "SELECT count(*) AS n FROM messages WHERE value > 160 AND spam(t) AND spam(t => t)")
    assert again.calls == 0
    assert again.rows == [{"n": sum(row["learned"] for row in learned.rows)}]


def test_listed(session: Session) -> None:
    """SHOW FILTERS has the figures on labels that did not train, and the version of the labels."""
    [shown] = rows(session, "SHOW FILTERS")
    assert (shown["name"], shown["features"], shown["version"]) == ("spam", "embedding, model", 1)
    assert shown["labels"] == 160 == shown["trained_on"] + shown["judged_on"]
    assert 60 < shown["trained_on"] < 100
    assert 0.7 < shown["precision_at_least"] < shown["precision"] <= 1.0
    assert shown["fit_on"] == "SELECT t, label FROM labelled"
    session.update("ALTER FILTER spam REFIT")
    [again] = rows(session, "SHOW FILTERS")
    assert (again["version"], again["labels_version"]) == (2, shown["labels_version"])
    session.update("DELETE FROM labelled WHERE t LIKE '% 1_'")
    session.update("ALTER FILTER spam REFIT")
    [changed] = rows(session, "SHOW FILTERS")
    assert changed["labels"] < 160
    assert changed["labels_version"] != shown["labels_version"]
    told = "\n".join(explained(session, "SELECT t FROM messages WHERE spam(t)").values())
    assert "spam(t)" in told
    assert "Is `t` spam?" in told
    assert "ai_embed(t)" in told


def test_targets(session: Session) -> None:
    """A promise that the labels cannot certify makes no filter; one that they certify does."""
    session.update("CREATE FILTER sure AS " + SPAM + " WITH (precision = 0.8, recall = 0.8, confidence = 0.9)")
    [shown] = rows(session, "SELECT * FROM system.filters WHERE name = 'sure'")
    assert shown["precision_at_least"] >= 0.8 <= shown["recall_at_least"]
    assert shown["accuracy_at_least"] is None
    with pytest.raises(InvalidInputError, match=r"precision 0.999 is not certified: .* at least .*label more rows"):
        session.update(f"CREATE FILTER surer AS {SPAM} WITH (precision = 0.999)")
    assert rows(session, "SELECT name FROM system.filters WHERE name = 'surer'") == []


def test_looks_are_counted(labels: Session) -> None:
    """Each judged fit of a question counts, refused ones too; another name and DROP do not reset the count."""
    call = "ai_filter('Is {t} spam, or not?', {t}) FIT ON (SELECT t, label FROM labelled)"

    def looks(name: str) -> object:
        return rows(labels, f"SELECT looks FROM system.filters WHERE name = '{name}'")[0]["looks"]

    labels.update(f"CREATE FILTER look AS {call}")
    assert looks("look") == 1
    for number in (2, 3):
        with pytest.raises(InvalidInputError, match=f"look {number} at this question"):
            labels.update(f"CREATE FILTER never AS {call} WITH (precision = 0.999)")
    labels.update("DROP FILTER look")
    labels.update(f"CREATE FILTER other AS {call}")
    assert looks("other") == 4
    labels.update("ALTER FILTER other REFIT")
    assert looks("other") == 5
    with pytest.raises(InvalidInputError, match="too few"):
        labels.update(f"CREATE FILTER few AS {call[:-1]} LIMIT 5)")
    labels.update("CREATE FILTER fresh AS " + call.replace("or not", "or ham"))
    assert looks("fresh") == 1
    labels.update("ALTER FILTER other REFIT")
    assert looks("other") == 6


def test_labels_and_scores(session: Session) -> None:
    """Classes and numbers are learned as answers are."""
    kinds = "SELECT t, CASE WHEN label THEN 'spam' ELSE 'ham' END AS k FROM labelled"
    session.update(f"CREATE FILTER kind AS ai_classify(t, ['spam', 'ham']) FIT ON ({kinds}) WITH (accuracy = 0.8)")
    found = rows(session, "SELECT kind(t) AS k, spam FROM messages WHERE value > 160")
    assert sum((row["k"] == "spam") == row["spam"] for row in found) > 75
    grades = "SELECT t, CASE WHEN label THEN 5 ELSE 1 END AS label FROM labelled"
    session.update(f"CREATE FILTER grade AS ai_score('How bad is {{t}}?', t, low => 1, high => 5) FIT ON ({grades})")
    scores = rows(session, "SELECT grade(t) AS g FROM messages WHERE grade(t) >= 1")
    assert len(scores) == 240
    assert rows(session, "SELECT mean_error <= mean_error_at_most AS ok FROM system.filters WHERE name = 'grade'") == [
        {"ok": True}
    ]


def test_unknown_features(session: Session) -> None:
    """NULL stays NULL; an engine that fails gives NULL, as the model's own answer would be."""
    assert rows(session, "SELECT spam(NULL) AS a") == [{"a": None}]
    session.update("CREATE FILTER bare AS " + SPAM + " WITH (features = 'embedding')")
    assert ask(session, "SELECT bare(t) AS a FROM messages WHERE value > 230").record.row()["calls"] == 10


def test_kept(database: Database, session: Session, tmp_path: Path) -> None:
    """A backup and a restart keep a filter and its decisions; another embedding model needs a new fit."""
    sql = "SELECT t, spam(t) AS a FROM messages ORDER BY t"
    before = rows(session, sql)
    copy_folder = tmp_path.parent / f"{tmp_path.name}-copy"
    assert back_up(tmp_path, copy_folder) == []
    copy = opened_in(copy_folder)
    assert rows(copy.session(), sql) == before
    assert rows(copy.session(), "SHOW FILTERS") == rows(session, "SHOW FILTERS")
    copy.close()
    other = Config(
        engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake", model="other"), data_folder=copy_folder
    )
    changed = Database.open(other)
    with pytest.raises(InvalidInputError, match=r"learned with the embedding model 'fake minilm'.*REFIT"):
        ask(changed.session(), sql)
    changed.close()
    database.session().update("DROP FILTER spam")
    with pytest.raises(NotFoundError, match="no filter 'spam': see SHOW FILTERS"):
        session.update("DROP FILTER spam")
    session.update("DROP FILTER IF EXISTS spam")


def test_rights(database: Database, session: Session) -> None:
    """Labels are read with the rights of their reader, and a filter is used with a grant."""
    for name, role in (("bob", "user"), ("eve", "readonly")):
        database.access.store.add_user(User(name, role))  # type: ignore[arg-type]
    bob, eve = (database.session(database.access.store.user(name).principal) for name in ("bob", "eve"))
    with pytest.raises(FlightLLMError, match="labelled"):
        bob.update(f"CREATE FILTER his AS {SPAM}")
    with pytest.raises(PermissionDeniedError, match="requires the role user or admin"):
        eve.update(f"CREATE FILTER hers AS {SPAM}")
    session.update("GRANT SELECT ON messages TO bob")
    with pytest.raises(PermissionDeniedError, match="no USAGE on function 'spam'"):
        ask(bob, "SELECT spam(t) FROM messages")
    assert rows(bob, "SHOW FILTERS") == []
    session.update("GRANT EXECUTE ON FILTER spam TO bob")
    assert ask(bob, "SELECT spam(t) FROM messages").table.num_rows == 240
    assert len(rows(bob, "SHOW FILTERS")) == 1
    for statement in (f"CREATE OR REPLACE FILTER spam AS {SPAM}", "ALTER FILTER spam REFIT", "DROP FILTER spam"):
        with pytest.raises(PermissionDeniedError, match="can only be changed by its owner or an admin"):
            bob.update(statement)


@pytest.mark.parametrize(
    ("filter_", "error", "message"),
    [
        ("ai_gen('x', t) FIT ON (SELECT t, label FROM labelled)", AICallError, "a filter learns from one call"),
        ("ai_filter('x', t) OR true FIT ON (SELECT t, label FROM labelled)", AICallError, "one call of an AI function"),
        ("ai_filter('x', t, confidence => true) FIT ON (SELECT t, label FROM labelled)", AICallError, "leave out conf"),
        ("ai_filter('x', t) FIT ON (SELECT t FROM labelled)", InvalidInputError, "no column label: it needs t, label"),
        ("ai_filter('x', t) FIT ON (SELECT t, t AS label FROM labelled)", InvalidInputError, "true or false, or Yes"),
        ("ai_filter('x', t) FIT ON (SELECT t, label FROM labelled LIMIT 5)", InvalidInputError, "5 labels are too few"),
        ("ai_filter('x', t) FIT ON (SELECT t, true AS label FROM labelled)", InvalidInputError, "are 'No': label more"),
        (f"{SPAM} WITH (precison = 0.9)", InvalidInputError, "no option precison"),
        (f"{SPAM} WITH (precision = 1)", InvalidInputError, "above 0 and below 1"),
        (f"{SPAM} WITH (features = 'smell')", InvalidInputError, "features must be one or more of"),
        ("ai_classify(t, ['a', 'b']) FIT ON (SELECT t, 'a' AS label FROM labelled) WITH (recall = .9)",
         InvalidInputError, "ai_classify cannot certify recall"),
    ],
)  # fmt: skip
def test_refused(labels: Session, filter_: str, error: type[Exception], message: str) -> None:
    """What cannot be learned says why, and stores nothing."""
    with pytest.raises(error, match=message):
        labels.update(f"CREATE FILTER wrong AS {filter_}")
    assert rows(labels, "SELECT name FROM system.filters WHERE name = 'wrong'") == []
