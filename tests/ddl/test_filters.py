"""Filters that people's labels teach: made, asked, judged, fitted again, granted and kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.ddl import filters
from flightllm.errors import (
    AICallError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from flightllm.execution.learn import learn
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


def test_another_question(session: Session) -> None:
    """A new version of the stored prompt, and another layout of prompts, need a new fit."""
    session.update("CREATE PROMPT asked AS 'Is {t} spam?'")
    call = "ai_filter(t => t, prompt => asked"
    session.update(f"CREATE FILTER by_prompt AS {call}) FIT ON labelled")
    labelled = f"SELECT count(*) AS n FROM messages WHERE {call}, labels => 'labelled')"
    assert ask(session, labelled).table.num_rows == 1
    assert ask(session, labelled).calls == 0
    assert len(rows(session, "SELECT by_prompt(t) AS a FROM messages LIMIT 3")) == 3
    session.update("CREATE OR REPLACE PROMPT asked AS 'Is {t} an offer?'")
    with pytest.raises(InvalidInputError, match=r"its stored prompt has a new version.*REFIT"):
        ask(session, "SELECT by_prompt(t) AS a FROM messages LIMIT 3")
    to_label = "SELECT t FROM ai_next_labels('by_prompt', messages, 3)"
    with pytest.raises(InvalidInputError, match=r"its stored prompt has a new version.*REFIT"):
        ask(session, to_label)
    assert ask(session, labelled).calls > 0, "the labels are fitted to the new question"
    session.update("ALTER FILTER by_prompt REFIT")
    assert len(rows(session, "SELECT by_prompt(t) AS a FROM messages LIMIT 3")) == 3
    session.update("CREATE FILTER bare AS " + SPAM + " WITH (features = 'embedding')")
    session.update("SET flightllm.layout = 'fields'")
    with pytest.raises(InvalidInputError, match=r"learned with the setting flightllm.layout = 'instruction'.*REFIT"):
        ask(session, to_label)
    with pytest.raises(InvalidInputError, match=r"learned with the setting flightllm.layout = 'instruction'.*REFIT"):
        ask(session, "SELECT spam(t) AS a FROM messages LIMIT 3")
    assert len(rows(session, "SELECT bare(t) AS a FROM messages LIMIT 3")) == 3, "it asks no prompt"
    assert ask(session, labelled).calls > 0


def test_scores_by_the_model(session: Session) -> None:
    """A score is learned from the model's probabilities alone, and EXPLAIN ANALYZE has its error."""
    score = "ai_score('How bad is {t}?', t, low => 1, high => 5)"
    grades = "(SELECT t, CASE WHEN label THEN 5 ELSE 1 END AS label FROM labelled)"
    session.update(f"CREATE FILTER grade AS {score} FIT ON {grades}")
    [shown] = rows(session, "SELECT features FROM system.filters WHERE name = 'grade'")
    assert shown == {"features": "model"}
    with pytest.raises(InvalidInputError, match="ai_score learns only from"):
        session.update(f"CREATE FILTER other AS {score} FIT ON {grades} WITH (features = 'embedding, model')")
    told = str(explained(session, "ANALYZE SELECT grade(t) FROM messages"))
    assert "by 160 labels of people: mean error" in told
    assert "as numbers" not in told


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


@pytest.mark.parametrize("label", ["CAST(label AS DOUBLE)", "CASE WHEN label THEN '1.0' ELSE '0.0' END"])
def test_labels_of_pandas(labels: Session, label: str) -> None:
    """1.0 and 0.0 are Yes and No; NaN and NULL are no labels, also where they are texts."""
    missing = f"CASE WHEN t LIKE '% 1_' THEN NULL WHEN t LIKE '% 2_' THEN 'NaN' ELSE CAST({label} AS VARCHAR) END"
    labels.update(f"CREATE FILTER n AS ai_filter('Is {{t}} spam?', t) FIT ON (SELECT t, {missing} FROM labelled)")
    [found] = rows(labels, "SELECT labels, precision FROM system.filters WHERE name = 'n'")
    assert found["labels"] == 140
    assert found["precision"] > 0.8
    labels.update("DROP FILTER n")


def test_notices(labels: Session) -> None:
    """A filter that gives one answer to all rows, and labels that contradict each other, are told to the client."""
    same = "(SELECT 'word ' || CAST(value % 40 AS VARCHAR) AS t, value % 3 = 0 AS label FROM range(120))"
    change = asked(
        labels, f"CREATE FILTER dull AS ai_filter('Is {{t}} red?', t) FIT ON {same} WITH (features = 'model')"
    )
    assert "40 of 40 different values have labels that contradict each other" in change
    same = "(SELECT 'same' AS t, u, u % 3 = 0 AS label FROM (SELECT value AS u FROM range(120)))"
    change = asked(labels, "CREATE FILTER flat AS ai_filter('Is it red?', t => substr(t || u, 1, 4)) FIT ON " + same)
    assert "the filter answers" in change
    assert "to all" in change
    assert "recall" in change
    labels.update("DROP FILTER dull")
    labels.update("DROP FILTER flat")


def asked(session: Session, sql: str) -> str:
    """Run a statement; return the notes on its result."""
    session.update(sql)
    found = rows(
        session, "SELECT error FROM system.queries WHERE kind = 'create_filter' ORDER BY started_at DESC LIMIT 1"
    )
    return str(found[0]["error"])


def test_names_of_the_server(labels: Session) -> None:
    """No list, record or error of a fit has a name that only the server writes."""
    labels.update(f"CREATE FILTER once AS {SPAM}")
    told = str(rows(labels, "SELECT text FROM system.ai_calls"))
    assert "ai_filter('Is {t} spam?', t)" in told
    assert "__" not in told
    labels.update("DROP FILTER once")
    with pytest.raises(FlightLLMError, match="decides only for the server") as error:
        rows(labels, "SELECT __learned_filter('x', 'a', NULL, NULL)")
    assert "Traceback" not in str(error.value)


def test_other_kind(session: Session) -> None:
    """DROP FUNCTION does not drop a filter, and neither kind replaces the other."""
    with pytest.raises(InvalidInputError, match="'spam' is a filter: write DROP FILTER"):
        session.update("DROP FUNCTION IF EXISTS spam")
    with pytest.raises(InvalidInputError, match="'spam' is a filter: drop it first"):
        session.update("CREATE OR REPLACE FUNCTION spam AS ai_filter('x', t)")
    with pytest.raises(InvalidInputError, match="'spam' is a filter: drop it first"):
        rows(session, "EXPLAIN CREATE OR REPLACE FUNCTION spam AS ai_filter('x', t)")
    session.update("CREATE FUNCTION plain AS ai_filter('x', t)")
    with pytest.raises(InvalidInputError, match="'plain' is a function: drop it first"):
        session.update(f"CREATE OR REPLACE FILTER plain AS {SPAM}")
    assert ask(session, "SELECT spam(t) FROM messages LIMIT 1").table.num_rows == 1


@pytest.mark.parametrize(
    ("statement", "meanwhile", "left"),
    [
        (f"CREATE FILTER late AS {SPAM}", "CREATE FUNCTION late AS ai_filter('theirs', t)", {"late": 1, "spam": 1}),
        (f"CREATE OR REPLACE FILTER spam AS {SPAM}", "DROP FILTER spam", {}),
        ("ALTER FILTER spam REFIT", "DROP FILTER spam", {}),
        ("ALTER FILTER spam REFIT", f"CREATE OR REPLACE FILTER spam AS {SPAM}", {"spam": 2}),
    ],
)
def test_changed_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch, statement: str, meanwhile: str, left: dict[str, int]
) -> None:
    """What another statement does during a fit stays: the fit is not stored over it."""

    def slow(*given: Any) -> Any:
        made = learn(*given)
        monkeypatch.setattr(filters, "learn", learn)
        session.update(meanwhile)
        return made

    monkeypatch.setattr(filters, "learn", slow)
    with pytest.raises(InvalidInputError, match="in the meantime: nothing was stored"):
        session.update(statement)
    listed = rows(session, "SELECT name, version FROM system.filters UNION SELECT name, version FROM system.functions")
    assert {row["name"]: row["version"] for row in listed} == left


def test_rights(database: Database, session: Session) -> None:
    """Labels are read with the rights of their reader, and a filter is used with a grant."""
    for name, role in (("bob", "user"), ("eve", "readonly"), ("kim", "user")):
        database.access.store.add_user(User(name, role))  # type: ignore[arg-type]
    names = ("bob", "eve", "kim")
    bob, eve, kim = (database.session(database.access.store.user(name).principal) for name in names)
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
    [shown] = rows(bob, "SHOW FILTERS")
    assert (shown["labels"], shown["fit_on"]) == (160, None), "the query of the labels can quote rows of its owner"
    for statement in ("DROP FILTER spam", "ALTER FILTER spam REFIT"):
        with pytest.raises(NotFoundError, match="no filter 'spam'"):
            kim.update(statement)
    kim.update("DROP FILTER IF EXISTS spam")
    for statement in (f"CREATE OR REPLACE FILTER spam AS {SPAM}", "ALTER FILTER spam REFIT", "DROP FILTER spam"):
        with pytest.raises(PermissionDeniedError, match="can only be changed by its owner or an admin"):
            bob.update(statement)


@pytest.mark.parametrize(
    ("filter_", "error", "message"),
    [
        ("ai_gen('x', t) FIT ON (SELECT t, label FROM labelled)", AICallError,
         "^labels cannot teach ai_gen: write a call of ai_filter, ai_classify or ai_score$"),
        ("ai_filter('x', t) OR true FIT ON (SELECT t, label FROM labelled)", AICallError,
         "^a learned filter is one call of ai_filter, ai_classify or ai_score, not ai_filter"),
        ("ai_filter('x', t, confidence => true) FIT ON (SELECT t, label FROM labelled)", AICallError,
         r"not from ai_filter\('x', t, confidence => true\): leave out conf"),
        ("ai_filter('x', t) FIT ON (SELECT t FROM labelled)", InvalidInputError, "no column label: it needs t, label"),
        ("ai_filter('x', t) FIT ON (SELECT value AS pos, t, spam FROM messages)", InvalidInputError,
         "no column label: it needs t, label, and has pos, t, spam. Name the columns by AS"),
        ("ai_filter('x', t) FIT ON (SELECT spam AS id, t FROM messages)", InvalidInputError,
         "no column label: it needs t, label, and has id, t"),
        ("ai_filter('x', t) FIT ON (SELECT label, t AS body FROM labelled)", InvalidInputError, "no column t: it"),
        ("ai_filter('x', t) FIT ON messages", InvalidInputError, "no column label: it needs t, label, and has t, spa"),
        ("ai_filter('x', t) FIT ON (SELECT t, t AS label FROM labelled)", InvalidInputError, "not answers of the call"),
        ("ai_filter('x', t) FIT ON (SELECT t, label FROM labelled LIMIT 5)", InvalidInputError, "5 labels are too few"),
        ("ai_filter('x', t) FIT ON (SELECT t, true AS label FROM labelled)", InvalidInputError, "are 'No': label more"),
        (f"{SPAM} WITH (precison = 0.9)", InvalidInputError, "no option precison"),
        (f"{SPAM} WITH (precision = 1)", InvalidInputError, "above 0 and below 1"),
        (f"{SPAM} WITH (features = 'smell')", InvalidInputError, "features must be one or more of"),
        ("ai_classify(t, ['a', 'b']) FIT ON (SELECT t, 'a' AS label FROM labelled) WITH (recall = .9)",
         InvalidInputError, "ai_classify cannot certify recall"),
        ("ai_filter('x', t, proxy => 'embedding', recall => .9, precision => .8) FIT ON labelled", AICallError,
         r"recall or precision => cannot be combined.* WITH \(recall = 0\.9, precision = 0\.8\)"),
        ("ai_classify(t, ['a', 'b'], proxy => 'embedding', accuracy => .9) FIT ON labelled", AICallError,
         r"WITH \(accuracy = 0\.9\)"),
    ],
)  # fmt: skip
def test_refused(labels: Session, filter_: str, error: type[Exception], message: str) -> None:
    """What cannot be learned says why, and stores nothing."""
    with pytest.raises(error, match=message):
        labels.update(f"CREATE FILTER wrong AS {filter_}")
    assert rows(labels, "SELECT name FROM system.filters WHERE name = 'wrong'") == []


def test_targets_of_a_cascade(session: Session) -> None:
    """EXPLAIN refuses them as CREATE FILTER does; targets of the session are none of the call, and stop no fit."""
    create = "CREATE FILTER wrong AS ai_filter('Is {t} spam?', {t}, proxy => 'embedding', recall => .9) FIT ON labelled"
    with pytest.raises(AICallError, match="labels and recall => cannot be combined"):
        explained(session, create)
    session.update("SET flightllm.quality = 'recall 0.9'")
    session.update(f"CREATE OR REPLACE FILTER spam AS {SPAM}")
    assert len(rows(session, "SELECT spam(t) AS a FROM messages LIMIT 3")) == 3


@pytest.mark.parametrize("columns", ["value AS pos, spam AS label, t", "t AS body, spam AS ship", "t, spam"])
def test_columns(labels: Session, columns: str) -> None:
    """Columns are taken by name, whatever columns stand beside them, or else by their order."""
    call = "AS ai_filter('Is {t} spam?', {t}) FIT ON"
    labels.update(f"CREATE OR REPLACE FILTER by_name {call} labelled")
    labels.update(f"CREATE OR REPLACE FILTER by_rule {call} (SELECT {columns} FROM messages WHERE value <= 160)")
    found = rows(labels, "SELECT DISTINCT labels_version FROM system.filters WHERE name IN ('by_name', 'by_rule')")
    assert len(found) == 1
