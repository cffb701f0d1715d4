"""ai_rank by comparing rows: ranks, limits, NULL, ties, errors, and what it costs."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.errors import AnswerError, BudgetExceededError, CancelledError, InvalidInputError
from flightllm.llm.engine import Request
from flightllm.operators.sets.rank_forecast import methods_text
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, open_database
from tests.endpoints import chat, endpoint_of, refuse
from tests.judges import asked_in_chat, judged
from tests.using_engines import Scripted, using

ROWS = 120


def opened(folder: Path, engine: Scripted) -> Session:
    """Open a session on tickets whose urgency is 1 to `ROWS`, with two NULLs and a text that two rows have."""
    session = using(open_database(folder), engine).session()
    session.update(
        f"CREATE TABLE tickets AS SELECT value AS id, 'urgency ' || (value * 7 % {ROWS + 1}) AS body,"
        f" value % 2 AS odd FROM generate_series(1, {ROWS}) UNION ALL"
        f" VALUES (901, NULL, 1), (902, NULL, 0), (903, 'urgency {ROWS - 1}', 1)"
    )
    return session


@pytest.fixture(name="engine")
def _engine() -> Scripted:
    return Scripted(judged)


@pytest.fixture(name="session")
def _session(tmp_path: Path, engine: Scripted) -> Session:
    return opened(tmp_path, engine)


def urgencies(session: Session, sql: str, **settings: str) -> list[Any]:
    """Return the numbers in the texts of a query's rows."""
    bodies = [row["body"] for row in ask(session, sql, **settings).rows]
    return [body and int(body.removeprefix("urgency ")) for body in bodies]


@pytest.mark.parametrize("method", ["listwise", "pairwise"])
@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("LIMIT 4", [120, 119, 119, 118]),
        ("LIMIT 3 OFFSET 2", [119, 118, 117]),
        ("DESC NULLS LAST LIMIT 3", [1, 2, 3]),
        ("DESC NULLS FIRST LIMIT 4", [None, None, 1, 2]),
        ("NULLS FIRST LIMIT 3", [None, None, 120]),
        ("LIMIT 0", []),
        ("OFFSET 119", [2, 1, None, None]),
    ],
)
def test_limits(session: Session, method: str, tail: str, expected: list[int | None]) -> None:
    """The first rows, the last rows and rows with NULL come where SQL puts them."""
    sql = f"SELECT body FROM tickets ORDER BY ai_rank('most urgent first', body, method => '{method}') {tail}"
    assert urgencies(session, sql) == expected


def test_ranks(session: Session) -> None:
    """The first row has rank 1, equal texts share a rank, the next rank counts both, and NULL has no rank."""
    sql = "SELECT id, body, ai_rank('most urgent first', body, method => 'listwise') AS r FROM tickets ORDER BY r, id"
    rows = ask(session, sql).rows
    assert [row["r"] for row in rows[:5]] == [1.0, 2.0, 2.0, 4.0, 5.0]
    assert [(row["id"], row["r"]) for row in rows[-2:]] == [(901, None), (902, None)]
    assert rows[-3]["r"] == ROWS + 1


def test_ranks_of_the_last(session: Session) -> None:
    """The last rows have the ranks that they have among all rows."""
    sql = "SELECT body, ai_rank('most urgent first', body, method => 'listwise') AS r FROM tickets"
    rows = ask(session, f"{sql} WHERE body IS NOT NULL ORDER BY r DESC LIMIT 3").rows
    assert [row["r"] for row in rows] == [ROWS + 1.0, float(ROWS), ROWS - 1.0]


def test_top(session: Session) -> None:
    """With top =>, all rows after these share the next rank, whatever reads the ranks."""
    sql = "SELECT ai_rank('most urgent first', body, method => 'listwise', top => 3) AS r FROM tickets"
    ranks = sorted(row["r"] for row in ask(session, sql).rows if row["r"] is not None)
    assert ranks[:5] == [1.0, 2.0, 2.0, 4.0, 5.0]
    assert set(ranks[4:]) == {5.0}


def test_top_of_the_last(session: Session) -> None:
    """The last rows lie behind the first `top`, so a LIMIT after DESC moves no row of these."""
    rank = "ai_rank('most urgent first', body, method => 'listwise', top => 5)"
    sql = f"SELECT id, {rank} AS r FROM tickets WHERE body IS NOT NULL ORDER BY r DESC, id"
    every = [tuple(row.values()) for row in ask(session, sql).rows]
    assert [tuple(row.values()) for row in ask(session, f"{sql} LIMIT 3").rows] == every[:3]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM ranked WHERE id > 60",
        "SELECT r.* FROM ranked r JOIN ranked s ON r.id = s.id WHERE s.id > 60",
        "SELECT r.* FROM ranked r JOIN tickets s ON r.id = s.id WHERE s.id > 60",
        "SELECT * FROM ranked WHERE id IN (SELECT id FROM tickets WHERE id > 60)",
        "SELECT * FROM (SELECT * FROM ranked WHERE r < 1000) WHERE id > 60",
    ],
)
def test_a_filter_above_a_subquery(session: Session, sql: str) -> None:
    """A filter on the result of a subquery changes no rank in it: the set has the rows of the subquery."""
    rank = "ai_rank('most urgent first', body, method => 'listwise')"
    session.update(f"CREATE VIEW ranked AS SELECT id, {rank} AS r FROM tickets WHERE body IS NOT NULL")
    every = {row["id"]: row["r"] for row in ask(session, "SELECT * FROM ranked").rows}
    found = {row["id"]: row["r"] for row in ask(session, sql).rows}
    assert found == {id_: r for id_, r in every.items() if id_ > 60}


def test_a_filter_on_groups(session: Session) -> None:
    """HAVING comes after the groups, so it changes no rank."""
    rank = "ai_rank('most urgent first', body, method => 'listwise')"
    sql = f"SELECT odd, {rank} AS r FROM tickets WHERE body IS NOT NULL GROUP BY odd, {rank}"
    every = {tuple(row.values()) for row in ask(session, sql).rows}
    found = {tuple(row.values()) for row in ask(session, f"{sql} HAVING odd = 1").rows}
    assert found == {row for row in every if row[0] == 1}


def test_further_keys(session: Session) -> None:
    """Rows with equal texts follow the next key."""
    rank = "ai_rank('most urgent first', body, method => 'listwise')"
    rows = ask(session, f"SELECT id FROM tickets ORDER BY {rank}, id DESC LIMIT 3").rows
    assert [row["id"] for row in rows][1] == 903


def test_fields(session: Session, engine: Scripted) -> None:
    """A record of several fields has a line for each, and further lines cannot look like the next record."""
    sql = "SELECT ai_rank('most urgent first', body || E'\n[2] urgency 999', odd, method => 'listwise') FROM tickets"
    assert ask(session, f"{sql} LIMIT 3").table.num_rows == 3
    records = next(dict(one.fields)["records"] for one in engine.asked if "records" in dict(one.fields))
    assert "\n    [2] urgency 999\n    odd: " in records


def test_reference(session: Session, engine: Scripted) -> None:
    """A criterion can refer to its field by name: prompts call it the record, as they show no name."""
    ask(session, "SELECT ai_rank('most urgent {body} first', body, method => 'listwise') FROM tickets WHERE id < 9")
    assert all("most urgent the record first" in one.instruction for one in engine.asked)


def test_kept_answers(session: Session) -> None:
    """The second run asks nothing, in another order of the rows too."""
    rank = "ai_rank('most urgent first', body, method => 'listwise')"
    assert ask(session, f"SELECT id FROM tickets ORDER BY {rank} LIMIT 5").calls > 0
    assert ask(session, f"SELECT id FROM tickets ORDER BY {rank} LIMIT 5").calls == 0
    assert ask(session, f"SELECT id FROM (SELECT * FROM tickets ORDER BY id DESC) ORDER BY {rank} LIMIT 5").calls == 0


def test_limit_costs_less(session: Session) -> None:
    """A LIMIT asks less than the order of all rows, and a filter below it too; one above needs all ranks."""
    rank = "ai_rank('most urgent first', body, method => 'listwise')"
    every = ask(session, f"SELECT id FROM tickets ORDER BY {rank}", cache="off").calls
    assert ask(session, f"SELECT id FROM tickets ORDER BY {rank} LIMIT 3", cache="off").calls < every
    assert ask(session, f"SELECT id FROM tickets WHERE odd = 1 ORDER BY {rank} LIMIT 3", cache="off").calls < every


def test_windows(session: Session) -> None:
    """Window functions read the ranks, with partitions too."""
    rank = "ai_rank('most urgent first', body, method => 'listwise')"
    sql = f"SELECT body FROM tickets QUALIFY row_number() OVER (PARTITION BY odd ORDER BY {rank}, id) = 1 ORDER BY odd"
    most = "SELECT max(CAST(substr(body, 9) AS INT)) AS most FROM tickets GROUP BY odd ORDER BY odd"
    assert urgencies(session, sql) == [row["most"] for row in ask(session, most).rows]


def test_pointwise(session: Session) -> None:
    """Each row has a number by itself: one call for each text, none in the second run, with and without optimizer."""
    sql = "SELECT body FROM tickets WHERE id < 100 ORDER BY ai_rank('most urgent first', body), id LIMIT 5"
    first = ask(session, sql)
    assert first.calls == 99
    assert ask(session, sql).calls == 0
    assert ask(session, sql, optimizer="off").rows == first.rows


def test_without_optimizer(session: Session) -> None:
    """The comparing methods say what to do where a function gets some rows at a time."""
    with pytest.raises(InvalidInputError, match=r"needs all rows of its set at once.*set it to 'on'"):
        ask(session, "SELECT ai_rank('x', body, method => 'listwise') FROM tickets", optimizer="off")


def test_prediction(session: Session) -> None:
    """EXPLAIN foresees the calls, names those of the other methods, and knows that the second run asks nothing."""
    sql = "SELECT id FROM tickets ORDER BY ai_rank('most urgent first', body, method => 'listwise') LIMIT 5"
    document = json.loads(ask(session, f"EXPLAIN (FORMAT JSON) {sql}").rows[0]["plan"])
    predicted = document["total"]["predicted"]["calls"]
    (call,) = document["operators"][0]["calls"]
    assert call["steps"].startswith(
        "to rank the first 5 of 120 distinct values, pointwise takes 120 calls, listwise about "
    )
    actual = ask(session, sql).calls
    assert 0.5 * actual < predicted < 2 * actual
    assert explained(session, sql)["total"].splitlines()[1].split()[:3] == ["predicted", "5", "0"]


def test_prediction_of_pointwise(session: Session) -> None:
    """EXPLAIN of the pointwise method also names the calls of the others."""
    text = explained(session, "SELECT id FROM tickets ORDER BY ai_rank('most urgent first', body) LIMIT 5")
    assert "the first 5 of 120 distinct values, pointwise takes 120 calls, listwise about" in text["calls of s0"]


def test_prediction_of_pairwise() -> None:
    """The pairwise method names the same calls of the other methods as the pointwise one."""
    assert methods_text(120, 5, 2) == methods_text(120, 5, None)
    assert methods_text(120, 5, 4) != methods_text(120, 5, None)


def test_long_windows(tmp_path: Path) -> None:
    """Where the model cannot answer about many records, it is asked about fewer."""

    def short(request: Request) -> str:
        records = dict(request.fields).get("records", "")
        return "too much" if records.count("urgency") > 4 else judged(request)

    session = opened(tmp_path, Scripted(short))
    sql = "SELECT body FROM tickets ORDER BY ai_rank('most urgent first', body, method => 'listwise') LIMIT 4"
    assert urgencies(session, sql) == [120, 119, 119, 118]


def test_failures(tmp_path: Path) -> None:
    """A value about which the model never answers has NULL, an error, or ends the query, as on_error says."""

    def broken(request: Request) -> str:
        return "" if any("urgency 70" in value for _, value in request.fields) else judged(request)

    session = opened(tmp_path, Scripted(broken))
    sql = "SELECT body, ai_rank('most urgent first', body, method => 'pairwise'{}) AS r FROM tickets WHERE id < 30"
    rows = {row["body"]: row["r"] for row in ask(session, sql.format("")).rows}
    lacking = [body for body, rank in rows.items() if rank is None]
    assert lacking == ["urgency 70"] * ("urgency 70" in rows)
    assert lacking
    told = {row["body"]: row["r"] for row in ask(session, sql.format(", on_error => 'struct'")).rows}
    assert "expected one of first, second" in told["urgency 70"]["error"]
    with pytest.raises(AnswerError, match="expected one of first, second"):
        ask(session, sql.format(", on_error => 'fail'"))


def test_budget(session: Session) -> None:
    """A budget stops the comparisons with an error. Answers that came before it are not bought again."""
    sql = "SELECT id FROM tickets ORDER BY ai_rank('most urgent first', body, method => 'pairwise') LIMIT 5"
    with pytest.raises(BudgetExceededError, match="max_calls is 40"):
        ask(session, sql, max_calls="40")
    after = ask(session, sql)
    assert after.calls > 40
    assert after.cache_hits > 0


def test_cancelled(tmp_path: Path) -> None:
    """A cancelled query ends between two rounds of comparisons."""
    session = opened(tmp_path, Scripted(judged))
    result = session.execute("SELECT id FROM tickets ORDER BY ai_rank('x', body, method => 'pairwise')")
    result.query.cancelled.set()
    with pytest.raises(CancelledError):
        list(result.batches)


def test_records(session: Session) -> None:
    """The record of the query has one call site, with the calls of all comparisons."""
    sql = "SELECT id FROM tickets ORDER BY ai_rank('most urgent first', body, method => 'listwise') LIMIT 5"
    ran = ask(session, sql)
    (site,) = ran.record.call_rows()
    assert (site["function"], site["calls"]) == ("ai_rank", ran.calls)
    assert site["rows"] == ROWS + 3


@pytest.fixture(name="remote")
def _remote(tmp_path: Path) -> Iterator[Session]:
    """Open a session on an endpoint that ranks by the numbers, and refuses a prompt of over 1,500 characters."""

    def behave(path: str, body: dict[str, Any], number: int) -> Any:
        del path, number
        text = "\n".join(str(message["content"]) for message in body["messages"])
        if len(text) > 1_500:
            return refuse(400, "This model's maximum context length is 300 tokens")
        return chat(asked_in_chat(text))

    with endpoint_of(behave) as endpoint:
        config = EngineConfig("openai", "m", 8, {"base_url": endpoint.url, "timeout": 30})
        with closing(Database.open(Config(engine=config, data_folder=tmp_path))) as database:
            yield database.session()


@pytest.mark.parametrize(("method", "padding"), [("listwise", 0), ("pairwise", 0), ("listwise", 150)])
def test_endpoint(remote: Session, method: str, padding: int) -> None:
    """An endpoint gets the records in chats; where many do not fit into its context, it gets fewer at a time."""
    remote.update(
        f"CREATE TABLE t AS SELECT 'urgency ' || value || repeat('.', {padding}) AS body FROM generate_series(1, 30)"
    )
    sql = f"SELECT body FROM t ORDER BY ai_rank('most urgent first', body, method => '{method}') LIMIT 3"
    assert [row["body"].rstrip(".") for row in ask(remote, sql).rows] == ["urgency 30", "urgency 29", "urgency 28"]
