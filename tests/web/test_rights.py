"""What each role sees on the page, and what it may do there."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.session.database import Database
from tests.servers import await_true
from tests.web.support import Visitor

_SLOW = "SELECT ai_gen('Of {a}?', a) FROM open_t WHERE a <= 400"
STATEMENTS = {
    "granted table": ("SELECT count(*) FROM open_t", "root ann rob"),
    "other table": ("SELECT count(*) FROM shut_t", "root"),
    "plan of another table": ("EXPLAIN SELECT * FROM shut_t", "root"),
    "other model": ("SELECT ai_gen('Say', model => shut_m)", "root"),
    "a grant": ("GRANT SELECT ON open_t TO rob", "root"),
    "delete": ("DELETE FROM shut_t WHERE a < 0", "root"),
    "read a file": ("SELECT * FROM '/etc/passwd'", ""),
}


@pytest.mark.parametrize("what", STATEMENTS)
@pytest.mark.parametrize("who", ["root", "ann", "rob"])
def test_statements(visit: Callable[[str], Visitor], who: str, what: str) -> None:
    """A statement may do on the page what it may over Flight."""
    sql, allowed = STATEMENTS[what]
    failed = visit(who).run(sql)[-1]["event"] == "error"
    assert failed == (who not in allowed.split())


@pytest.mark.parametrize("who", ["root", "ann", "rob"])
def test_objects(visit: Callable[[str], Visitor], who: str) -> None:
    """Tables, models and prompts are listed to whom they are granted, with columns and types."""
    _, found = visit(who).get("/api/objects")
    tables = {table["name"]: table for table in found["tables"] if table["schema"] == "public"}
    names = {name for name in tables if name.endswith("_t")}
    assert names == ({"open_t", "shut_t"} if who == "root" else {"open_t"})
    assert [(c["name"], c["type"]) for c in tables["open_t"]["columns"]] == [("a", "int64"), ("b", "string")]
    assert {"ai_gen", "ai_filter"} <= set(found["functions"])
    made = [row["name"] for kind in ("models", "prompts") for row in found[kind] if row["name"].startswith("shut")]
    assert made == (["shut_m", "shut_p"] if who == "root" else [])


@pytest.mark.parametrize(("who", "status"), [("root", 200), ("ann", 403), ("rob", 403)])
def test_load(visit: Callable[[str], Visitor], who: str, status: int) -> None:
    """The engine's load and all sessions are for admins."""
    found, answer = visit(who).get("/api/load")
    assert (found, "engine" in answer) == (status, status == 200)


def _started(visitor: Visitor, database: Database, who: str) -> tuple[str, list[dict[str, Any]], threading.Thread]:
    """Begin a slow query, and return its id once calls were answered."""
    events: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: events.extend(visitor.run(_SLOW)))
    thread.start()

    def answered() -> bool:
        return any(r.user == who and r.row()["answered"] for r in database.queries.running())

    await_true(answered)
    (record,) = [record for record in database.queries.running() if record.user == who]
    return record.query_id, events, thread


def test_queries(visit: Callable[[str], Visitor], database: Database) -> None:
    """A user sees and cancels its own queries, an admin everybody's; progress is told while they run."""
    ann, rob, root = visit("ann"), visit("rob"), visit("root")
    query_id, events, thread = _started(ann, database, "ann")
    assert query_id not in [query["query_id"] for query in rob.get("/api/queries")[1]["running"]]
    assert rob.get(f"/api/queries/{query_id}")[0] == 404
    assert rob.post(f"/api/queries/{query_id}/cancel")[0] == 404
    for one in (ann, root):
        (query,) = [query for query in one.get("/api/queries")[1]["running"] if query["query_id"] == query_id]
        assert (query["user"], query["calls_expected"]) == ("ann", 400)
        assert 0 < query["calls_done"] < 400
        (call,) = one.get(f"/api/queries/{query_id}")[1]["ai_calls"]
        assert (call["function"], call["input_rows"]) == ("ai_gen", 400)
        assert one.get(f"/api/queries/{query_id}")[1]["parts"]["below s0"] == 400
    assert root.post(f"/api/queries/{query_id}/cancel")[0] == 200
    thread.join(30)
    assert (events[-1]["event"], events[-1]["sqlstate"]) == ("error", "57014")
    ended = {query["query_id"]: query["status"] for query in ann.get("/api/queries")[1]["ended"]}
    assert ended[query_id] == "cancelled"
    assert query_id not in [query["query_id"] for query in rob.get("/api/queries")[1]["ended"]]


def test_looking_is_no_statement(visit: Callable[[str], Visitor], database: Database) -> None:
    """The lists, which are asked for every second, push nothing out of `system.queries`."""
    root = visit("root")
    before = database.queries.snapshot("queries").num_rows
    for path in ("/api/queries", "/api/objects", "/api/load", "/api/me"):
        assert root.get(path)[0] == 200
    assert database.queries.snapshot("queries").num_rows == before


def test_a_role_that_changed(visit: Callable[[str], Visitor], database: Database) -> None:
    """What an admin takes away is gone with the next request; a user who is dropped is signed out."""
    store = database.access.store
    store.add_user(User("max", "admin"))
    visitor = visit("max")
    assert visitor.get("/api/load")[0] == 200
    store.change_user(replace(store.user("max"), role="readonly"))
    assert visitor.get("/api/load")[0] == 403
    assert visitor.run("SELECT * FROM shut_t")[-1]["event"] == "error"
    store.drop_user("max")
    assert visitor.get("/api/me")[0] == 401
