"""Fits to the labels in a table when a query is planned, and rows to label next."""

from collections.abc import Iterator

import pytest

from flightllm.access.store import User
from flightllm.errors import (
    AICallError,
    BudgetExceededError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from flightllm.execution.bind import extract
from flightllm.learning.fitting import draw, trains
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, explained, rows
from tests.ddl.test_filters import LABELLED, MESSAGES, SPAM, opened_in

RIGHT = "SELECT sum(CASE WHEN spam = {} THEN 1 ELSE 0 END) AS n FROM messages WHERE value > 160"
CALL = "ai_filter('Is {t} spam?', t, labels => 'labelled')"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database with labelled messages and three filters, which all tests share."""
    database = opened_in(tmp_path_factory.mktemp("learn"))
    kind = "CREATE FILTER kind AS ai_classify(t, ['spam', 'ham']) FIT ON (SELECT t, {} FROM labelled)"
    filters = (
        f"CREATE FILTER spam AS {SPAM}",
        f"CREATE FILTER bare AS {SPAM} WITH (features = 'embedding')",
        kind.format("CASE WHEN label THEN 'spam' ELSE 'ham' END"),
    )
    for statement in (MESSAGES, LABELLED, *filters):
        database.session().update(statement)
    database.access.store.add_user(User("bob", "user"))
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session on it."""
    return database.session()


@pytest.mark.parametrize(
    "call",
    [
        CALL,
        "ai_filter('Is {t} spam?', t => lower(t), labels => 'public.labelled')",
        "AI_IF(labels => 'labelled', prompt => 'Is {t} spam?', t => t)",
    ],
)
def test_labels_of_a_table(session: Session, call: str) -> None:
    """A call with labels decides messages that nobody labelled; the fields can be any expressions."""
    assert rows(session, RIGHT.format(call))[0]["n"] > 75


def test_same_as_a_filter(session: Session) -> None:
    """The labels give the same answers as the filter of the same labels, and the fit is kept until they change."""
    sql = f"SELECT count(*) AS n FROM messages WHERE spam(t) <> {CALL}"
    assert rows(session, sql) == [{"n": 0}]
    assert ask(session, f"SELECT {CALL} FROM messages").calls == 0
    told = "\n".join(row["plan"] for row in ask(session, f"EXPLAIN ANALYZE SELECT {CALL} FROM messages").rows)
    assert "calibrated by 160 labels of people: precision" in told
    assert CALL in "\n".join(explained(session, f"SELECT {CALL} FROM messages").values())


def test_own_labels(session: Session) -> None:
    """The labels that people gave to this question on the page teach it."""
    sql = "SELECT ai_filter('Is {t} spam, really?', t) FROM messages"
    [call] = extract(ParsedText(sql), session._services)[0].calls.values()
    session.update(
        "INSERT INTO system.labels (function, task, fields, label) SELECT 'ai_filter',"
        f" '{call.task}', named_struct('t', t), CASE WHEN label THEN 'Yes' ELSE 'No' END FROM labelled"
    )
    learned = "ai_filter('Is {t} spam, really?', t, labels => 'system.labels')"
    assert rows(session, RIGHT.format(learned))[0]["n"] > 75
    session.update("CREATE FILTER own AS ai_filter('Is {t} spam, really?', t) FIT ON system.labels")
    assert rows(session, RIGHT.format("own(t)"))[0]["n"] > 75
    before = rows(session, "SELECT * FROM ai_next_labels('own', 'SELECT t FROM messages', 2)")
    session.update(
        "INSERT INTO system.labels (function, task, fields, label) SELECT function, task, fields, 'No'"
        " FROM ai_next_labels('own', 'SELECT t FROM messages', 2)"
    )
    after = rows(session, "SELECT t FROM ai_next_labels('own', 'SELECT t FROM messages', 2)")
    assert {row["t"] for row in before}.isdisjoint(row["t"] for row in after), "rows with a label are not offered again"
    session.update("ALTER FILTER own REFIT")
    assert rows(session, "SELECT labels FROM system.filters WHERE name = 'own'") == [{"labels": 162}]
    with pytest.raises(InvalidInputError, match="0 labels are too few"):
        ask(session, "SELECT ai_filter('Is {t} new?', t, labels => 'system.labels') FROM messages")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("ai_filter('Is {t} spam?', t, labels => 'absent')", FlightLLMError, "absent"),
        ("ai_filter('Is {x} spam?', x => t, labels => 'labelled')", InvalidInputError, "no column x: .* as in t => …"),
        (
            "ai_filter('Spam?', lower(t), labels => 'labelled')",
            InvalidInputError,
            r"no column field1: .* have t, label\.",
        ),
        (
            "ai_filter('Spam?', t, labels => 'messages')",
            InvalidInputError,
            "no column label: they need the columns t, label",
        ),
        ("ai_filter(t, labels => 'labelled')", AICallError, "the prompt is a text"),
        ("ai_filter('Is it?', messages.*, labels => 'labelled')", AICallError, "a star cannot name"),
        ("ai_filter('x', t, labels => 'labelled', confidence => true)", AICallError, "leave out confidence"),
        (
            "ai_filter('x', t, labels => 'labelled', proxy => 'embedding', recall => 0.9)",
            AICallError,
            r"labels and recall => cannot be combined.* WITH \(recall = 0\.9\)",
        ),
        (
            "ai_score('x', t, labels => 'labelled', proxy => 'embedding', accuracy => 0.9) > 3",
            AICallError,
            "accuracy => cannot be combined.* leave out the proxy and its targets$",
        ),
    ],
)
def test_wrong_labels(session: Session, call: str, error: type[Exception], message: str) -> None:
    """A call whose labels cannot be read says so."""
    with pytest.raises(error, match=message):
        ask(session, f"SELECT {call} FROM messages")


def test_next_rows(session: Session) -> None:
    """The next rows to label have no label, are different, and show the answer that the filter gives now."""
    found = rows(session, "SELECT * FROM ai_next_labels('spam', 'SELECT t FROM messages', 10)")
    values = {row["t"] for row in found}
    assert len(values) == 10
    assert values.isdisjoint(row["t"] for row in rows(session, "SELECT t FROM labelled"))
    now = {row["t"]: row["a"] for row in rows(session, "SELECT t, spam(t) AS a FROM messages")}
    assert all(row["answer"] == ("Yes" if now[row["t"]] else "No") for row in found)
    assert found[0]["margin"] == min(row["margin"] for row in found if row["side"] == "train")
    again = "SELECT n.t FROM ai_next_labels('spam', rows => 'SELECT t FROM messages', count => 10) AS n"
    assert rows(session, again) == [{"t": row["t"]} for row in found]
    assert rows(session, "SELECT * FROM ai_next_labels('spam', 'SELECT t FROM labelled')") == []


def test_next_rows_within_budget(session: Session) -> None:
    """The rows to label ask models when the query runs, in its record and within its limits."""
    sql = "SELECT t FROM ai_next_labels('spam', 'SELECT t || '' too'' AS t FROM messages', 3)"
    before = rows(session, "SELECT sum(calls) AS n FROM system.ai_calls")
    assert session.describe(sql).schema.names == ["t"]
    assert "up to 3 rows for the filter spam" in explained(session, sql)["rows to label"]
    session.set_option("max_calls", "10")
    with pytest.raises(BudgetExceededError, match="max_calls"):
        ask(session, sql)
    assert rows(session, "SELECT sum(calls) AS n FROM system.ai_calls") == before
    session.set_option("max_calls", "none")
    found = ask(session, sql)
    assert found.calls > 100
    assert rows(session, "SELECT sum(calls) AS n FROM system.ai_calls")[0]["n"] == (before[0]["n"] or 0) + found.calls


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t FROM ai_next_labels('spam', 'SELECT t FROM messages;', 5)",
        "SELECT t FROM ai_next_labels('spam', 'SELECT t FROM messages -- all', 5)",
        "SELECT t FROM ai_next_labels('spam', 'SELECT t FROM messages; -- all', 5)",
        "SELECT t FROM ai_next_labels('spam', 'messages', 5)",
        "SELECT t FROM ai_next_labels('spam', (SELECT t FROM messages /* all */), count => 5)",
        "SELECT x.t FROM ai_next_labels(count => 5, rows => messages, filter => 'spam') AS x",
        "WITH w AS (SELECT t FROM messages) SELECT t FROM ai_next_labels('spam', (SELECT t FROM w), 5)",
        "SELECT t FROM (SELECT * FROM ai_next_labels('spam', TABLE messages, 5)) AS x",
    ],
)
def test_spellings_of_rows(session: Session, sql: str) -> None:
    """The rows can be a text, SQL or a table, with a comment or a semicolon at the end."""
    assert rows(session, sql) == rows(session, "SELECT t FROM ai_next_labels('spam', 'SELECT t FROM messages', 5)")


def test_names_of_rows(session: Session) -> None:
    """Names of tables in the rows mean those of the session."""
    session.update("CREATE SCHEMA IF NOT EXISTS elsewhere")
    session.update("CREATE OR REPLACE TABLE elsewhere.messages AS SELECT 'Win a prize!' AS t")
    session.update("SET search_path = elsewhere")
    assert rows(session, "SELECT t FROM ai_next_labels('spam', 'SELECT t FROM messages')") == [{"t": "Win a prize!"}]
    session.update("CREATE TEMP TABLE own AS SELECT 'Hello' AS t")
    assert rows(session, "SELECT t FROM ai_next_labels('spam', 'SELECT t FROM own')") == [{"t": "Hello"}]


def test_next_rows_with_other_calls(session: Session) -> None:
    """A call over the rows to label asks about these rows only; no view holds them, and they judge no evaluation."""
    sql = "SELECT ai_filter('Is {t} long?', t) AS long FROM ai_next_labels('spam', 'SELECT t FROM messages', 4)"
    assert ask(session, sql).calls == 4
    evaluated = "ai_evaluate(labelled, ai_filter('Spam?', t), label)"
    named = "(SELECT t, true AS l FROM ai_next_labels('spam', messages))"
    for text in (
        "CREATE VIEW to_label AS SELECT t FROM ai_next_labels('spam', 'SELECT t FROM messages')",
        f"SELECT * FROM ai_evaluate({named}, ai_filter('Is {{t}}?', t), l)",
        "SELECT ai_next_labels('spam', 'SELECT t FROM messages')",
        f"SELECT * FROM ai_next_labels('spam', (SELECT call AS t FROM {evaluated}), 4)",
    ):
        with pytest.raises(FlightLLMError, match=r"CREATE TABLE … AS|write SELECT"):
            ask(session, text) if text.startswith("SELECT") else session.update(text)


def test_chosen_rows_do_not_judge(session: Session) -> None:
    """Rows chosen by their margins train; each second row judges, and its choice does not depend on the margin."""
    found = rows(session, "SELECT * FROM ai_next_labels('spam', 'SELECT t FROM messages', 10)")
    assert [row["side"] for row in found] == ["train", "judge"] * 5
    assert all((row["side"] == "train") == trains(draw(row["t"])) for row in found)
    every = rows(session, "SELECT t FROM messages WHERE value > 160")
    judging = sorted((row["t"] for row in every if not trains(draw(row["t"]))), key=draw)
    assert [row["t"] for row in found if row["side"] == "judge"] == judging[:5]
    everything = rows(session, "SELECT * FROM ai_next_labels('spam', 'SELECT t FROM messages', 1000)")
    assert sorted(row["t"] for row in everything) == sorted(row["t"] for row in every)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("ai_next_labels('spaam', 'SELECT t FROM messages')", NotFoundError, "no filter 'spaam'"),
        ("ai_next_labels('spam', 'SELECT value FROM absent')", FlightLLMError, "absent"),
        ("ai_next_labels('spam', 'SELECT t FROM messages', 0)", AICallError, "from 1 to 1,000"),
        ("ai_next_labels('spam', messages, 100000)", AICallError, "argument count is from 1 to 1,000, not 100000"),
        ("ai_next_labels('spam')", AICallError, "argument rows is missing: write ai_next_labels"),
        ("ai_next_labels(spam, messages, 100000)", AICallError, "argument filter is not the name of a filter in quot"),
        ("ai_next_labels('spam', 3)", AICallError, "argument rows is not a query or a table"),
        ("ai_next_labels('spam', messages, few)", AICallError, "argument count is not a whole number"),
        ("ai_next_labels('spam', messages, 3, 4)", AICallError, "more than 3 arguments"),
        ("ai_next_labels('spam', messages, most => 3)", AICallError, "no argument most"),
        ("ai_next_labels('spam', messages, rows => messages)", AICallError, "argument rows is given twice"),
    ],
)
def test_wrong_rows(session: Session, call: str, error: type[Exception], message: str) -> None:
    """A wrong call says what is wrong."""
    with pytest.raises(error, match=message):
        ask(session, f"SELECT * FROM {call}")


@pytest.mark.parametrize(
    ("call", "value", "question"),
    [
        ("spam(t)", "spam(t)", "spam"),
        ("spam(t => lower(t))", "spam(lower(t))", "spam"),
        ("bare(t)", "bare(t)", "spam"),
        ("kind(t)", "kind(t) = 'spam'", "CASE WHEN spam THEN 'spam' ELSE 'ham' END"),
        (CALL, CALL, "spam"),
        ("ai_filter('Is {t} spam, to judge?', t, labels => 'labelled')", "spam(t)", "spam"),
    ],
)
def test_evaluated(session: Session, call: str, value: str, question: str) -> None:
    """An evaluation judges a learned filter by the answers that it gives, whatever its features."""
    session.update(
        f"CREATE OR REPLACE TABLE judged AS SELECT t, {question} AS truth, spam FROM messages WHERE value > 160"
    )
    [found] = rows(session, f"SELECT accuracy, n, failed FROM ai_evaluate(judged, {call}, truth)")
    [right] = rows(session, f"SELECT avg(CASE WHEN ({value}) = spam THEN 1.0 ELSE 0.0 END) AS share FROM judged")
    assert (found["n"], found["failed"]) == (80, 0)
    assert found["accuracy"] == pytest.approx(right["share"])
    assert right["share"] > 0.9


def test_evaluated_within_budget(session: Session) -> None:
    """The fit of an evaluated call is predicted, and counts against the limits of the evaluation."""
    call = "ai_filter('Is {t} spam, to be judged?', t, labels => 'labelled')"
    sql = f"SELECT accuracy FROM ai_evaluate((SELECT t, spam FROM messages WHERE value > 140), {call}, spam)"
    before = rows(session, "SELECT sum(calls) AS n FROM system.ai_calls")
    with pytest.raises(BudgetExceededError, match="240 calls"):
        list(session.execute(sql, settings={"max_calls": "200"}).batches)
    assert rows(session, "SELECT sum(calls) AS n FROM system.ai_calls") == before
    found = ask(session, sql)
    assert sum(row["calls"] for row in found.record.call_rows() if row["function"] == "ai_filter") == 240
    assert found.rows[0]["accuracy"] > 0.9


def test_fixed_options(session: Session) -> None:
    """Options of a learned filter cannot vary, and the error has the expression to evaluate instead."""
    with pytest.raises(
        AICallError, match=r"only layouts can vary: evaluate its expression instead, ai_filter\('Is \{t\} spam"
    ):
        ask(session, "SELECT * FROM ai_evaluate(labelled, spam(t), label, examples => [0, 2])")


def test_next_rows_of_learned_rows(session: Session) -> None:
    """The rows to label can come from a call with labels, whose fit is made first."""
    call = "ai_filter('Is {t} spam, as rows?', t, labels => 'labelled')"
    text = "SELECT t FROM ai_next_labels('spam', (SELECT t FROM messages WHERE {}), 100) ORDER BY t"
    assert rows(session, text.format(call)) == rows(session, text.format("spam(t)")) != []


def test_rights(database: Database) -> None:
    """Labels and rows are read with the rights of the query, and the filter needs a grant."""
    bob = database.session(database.access.store.user("bob").principal)
    database.session().update("GRANT SELECT ON messages TO bob")
    with pytest.raises(FlightLLMError, match="labelled"):
        ask(bob, f"SELECT {CALL} FROM messages")
    for name in ("spam", "absent"):
        with pytest.raises(PermissionDeniedError, match=f"no USAGE on function '{name}'"):
            ask(bob, f"SELECT * FROM ai_next_labels('{name}', 'SELECT t FROM messages')")
    database.session().update("GRANT EXECUTE ON FILTER spam TO bob")
    assert len(rows(bob, "SELECT * FROM ai_next_labels('spam', 'SELECT t FROM messages', 3)")) == 3


def test_fit_within_budget(session: Session) -> None:
    """A fit asks no model before the query runs; its calls are in the record, and within the query's limits."""
    call = "ai_filter('Is {t} spam, or not?', t, labels => 'labelled')"
    sql = f"SELECT {call} AS found FROM messages"
    before = rows(session, "SELECT sum(calls) AS n FROM system.ai_calls")
    assert "asks about the 160 rows of labelled first" in explained(session, sql)["fit of labels"]
    session.describe(sql)
    assert rows(session, "SELECT sum(calls) AS n FROM system.ai_calls") == before
    with pytest.raises(BudgetExceededError, match="240 calls"):
        list(session.execute(sql, settings={"max_calls": "5"}).batches)
    done = ask(session, sql)
    asked = [row["calls"] for row in done.record.call_rows() if row["function"] == "ai_filter"]
    assert asked == [160, 80], "the labelled rows, and then the others"
    again = ask(session, sql)
    assert (again.calls, again.rows) == (0, done.rows)
