"""The prompts and answers behind a row of the page: which are told, and to whom."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flightllm.datafusion.run import Batches
from flightllm.execution.staged_query import StagedQuery
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.call_context import ModelBinding
from flightllm.session.database import Database
from tests.web.support import Visitor

ASKED = "SELECT a, ai_classify(b, ['x', 'y'], confidence => true) AS c, ai_gen('Of {a}?', a) AS g FROM open_t"
SQL = f"{ASKED} WHERE ai_filter('Is {{a}} {{b}}?', a, b) AND a <= 12"


def why(visitor: Visitor, sql: str, row: list[str | None]) -> tuple[int, dict[str, Any]]:
    """Ask for the prompts behind a row."""
    return visitor.post("/api/why", {"sql": sql, "row": row})


def test_prompts_of_a_row(visit: Callable[[str], Visitor], database: Database) -> None:
    """Each call of the row has its prompt, kept answer and probabilities, and no model is asked for them."""
    ann = visit("ann")
    events = ann.run(SQL)
    assert events[0]["answers"] == [1, 2]
    row = events[1]["rows"][0]
    calls_before = database.queries.totals().sums["calls"]
    status, told = why(ann, SQL, row)
    assert (status, told["rows"], told["several"]) == (200, 1, False)
    calls = {call["function"]: call for call in told["calls"]}
    assert {name: call["columns"] for name, call in calls.items()} == {
        "ai_classify": [1],
        "ai_gen": [2],
        "ai_filter": [],
    }
    assert [name for name, call in calls.items() if call["filters"]] == ["ai_filter"]
    assert all(call["kept"] for call in calls.values())
    assert calls["ai_gen"]["prompt"] == f"Of `a`?\n\na: {row[0]}\nAnswer:"
    assert calls["ai_gen"]["answer"] == row[2]
    assert calls["ai_filter"]["answer"] == "Yes"
    assert calls["ai_filter"]["fields"] == [["a", row[0]], ["b", "text"]]
    assert sum(calls["ai_classify"]["probabilities"]) == pytest.approx(1)
    assert calls["ai_classify"]["parameters"]["options"] == ["x", "y"]
    assert database.queries.totals().sums["calls"] == calls_before


def test_values_that_are_not_shown(visit: Callable[[str], Visitor]) -> None:
    """The fields need not be columns of the result, also below a subquery; a NULL has no prompt."""
    ann = visit("ann")
    sql = "SELECT upper(g) AS u FROM (SELECT a, ai_gen('Of {a}?', a) AS g FROM open_t WHERE a <= 2) q ORDER BY a"
    for number, row in enumerate(ann.rows(sql), start=1):
        (call,) = why(ann, sql, row)[1]["calls"]
        assert (call["fields"], call["columns"]) == ([["a", str(number)]], [0])
        assert call["answer"].upper() == row[0]
    sql = (
        "SELECT ai_gen('Of {n}?', n) AS g FROM (SELECT CASE WHEN a = 1 THEN NULL ELSE a END AS n FROM open_t) q LIMIT 1"
    )
    (call,) = why(ann, sql, [None])[1]["calls"]
    assert (call["prompt"], call["kept"]) == (None, False)


def test_a_learned_filter(visit: Callable[[str], Visitor], database: Database) -> None:
    """The answer of a learned filter has the filter's name, however its call is written."""
    teacher = database.session()
    teacher.update("CREATE TABLE digits AS SELECT CAST(value AS VARCHAR) AS t, value % 2 = 0 AS label FROM range(60)")
    teacher.update("CREATE FILTER is_even AS ai_filter('Is {t} even?', t) FIT ON digits WITH (features = 'model')")
    teacher.update("GRANT EXECUTE ON FILTER is_even TO ann")
    ann = visit("ann")
    sql = "SELECT a, is_even (CAST(a AS VARCHAR)) AS e FROM open_t WHERE a <= 2"
    (call,) = why(ann, sql, ann.rows(sql)[0])[1]["calls"]
    assert call["filter"] == {"name": "is_even", "parameters": ["t"]}
    teacher.update("DROP FILTER is_even")
    teacher.update("DROP TABLE digits")


def test_rows_that_look_alike(visit: Callable[[str], Visitor]) -> None:
    """Rows with the same values can have had other prompts; that is said."""
    ann = visit("ann")
    sql = "SELECT ai_classify(a, ['x', 'y']) AS c FROM open_t WHERE a <= 9"
    row = max(rows := ann.rows(sql), key=rows.count)
    told = why(ann, sql, row)[1]
    assert told["rows"] == rows.count(row) > 1
    assert told["several"]


def test_an_answer_that_is_not_kept(visit: Callable[[str], Visitor]) -> None:
    """Without a kept answer, the prompt stands alone where the row can still be told."""
    ann = visit("ann")
    sql = "SELECT a FROM open_t WHERE a = 77 AND ai_filter('Is {a} kept?', a) IN (true, false)"
    (call,) = why(ann, sql, ["77"])[1]["calls"]
    assert (call["kept"], call["answer"]) == (False, None)
    assert "a: 77" in call["prompt"]


REFUSED = {
    "aggregate": ("SELECT max(ai_gen('Of {a}?', a)) FROM open_t WHERE a < 3", ["x"], 400, "an aggregate"),
    "no calls": ("SELECT a FROM open_t", ["1"], 400, "it has no AI calls"),
    "a change": ("DELETE FROM shut_t WHERE a < 0", [], 400, "only a query"),
    "EXPLAIN": ("EXPLAIN SELECT ai_gen('x', a) FROM open_t", ["x"], 400, "only a query"),
    "other row": ("SELECT a, ai_gen('Of {a}?', a) FROM open_t WHERE a < 3", ["-1", "x"], 404, "not in the result"),
    "other columns": ("SELECT ai_gen('Of {a}?', a) FROM open_t", ["1", "2"], 400, "2 values, but the query has 1"),
    "other table": ("SELECT ai_gen('Of {a}?', a) FROM shut_t", ["x"], 404, "shut_t"),
    "a view with calls": ("SELECT * FROM asking_v", ["x"], 400, "in a view"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(visit: Callable[[str], Visitor], database: Database, what: str) -> None:
    """Where one row has no prompts of its own, or the user cannot read what they are about, an error says so."""
    admin = database.session()
    admin.update("CREATE OR REPLACE VIEW asking_v AS SELECT ai_gen('Of {a}?', a) AS g FROM shut_t WHERE a < 3")
    admin.update("GRANT SELECT ON asking_v TO ann")
    sql, row, status, message = REFUSED[what]
    found, answer = why(visit("ann"), sql, list(row))
    assert (found, message in answer["error"]["message"]) == (status, True), answer


def test_rows_of_others(visit: Callable[[str], Visitor], database: Database) -> None:
    """A policy can hide rows by an AI call of its own, so its user gets no prompts; others get theirs."""
    admin = database.session()
    admin.update("CREATE OR REPLACE TABLE part_t AS SELECT a, b FROM open_t WHERE a <= 4")
    for name in ("ann", "rob"):
        admin.update(f"GRANT SELECT ON part_t TO {name}")
    admin.update("CREATE ROW FILTER ON part_t TO rob AS a < 3")
    sql = "SELECT a, ai_gen('Of {a}?', a) FROM part_t"
    ann, rob = visit("ann"), visit("rob")
    row = next(row for row in ann.rows(sql) if row[0] == "4")
    assert why(ann, sql, row)[0] == 200
    status, answer = why(rob, sql, row)
    assert (status, "row policies" in answer["error"]["message"]) == (400, True)
    admin.update("DROP ROW FILTER ON part_t FROM rob")


def test_batch_functions(visit: Callable[[str], Visitor]) -> None:
    """Without operators, nothing tells which prompt a row had."""
    ann = visit("ann")
    ann.run("SET flightllm.optimizer = 'off'")
    assert ann.run(ASKED + " WHERE a < 2")[0]["answers"] is None
    status, answer = why(ann, ASKED, ["1", "x", "y"])
    assert (status, "batch functions" in answer["error"]["message"]) == (400, True)


@pytest.mark.parametrize("row", [None, "x", [1], ["\ud800"]])
def test_rows_of_other_forms(visit: Callable[[str], Visitor], row: object) -> None:
    """A row is a list of texts and nulls."""
    assert visit("ann").post("/api/why", {"sql": ASKED, "row": row})[0] == 400


def test_the_query_runs_once(visit: Callable[[str], Visitor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A click runs the query once, also where answers decide which rows are asked."""
    ran, run_on = list[object](), StagedQuery.run_on

    def counted(query: StagedQuery, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        ran.append(query)
        return run_on(query, bindings, record)

    monkeypatch.setattr(StagedQuery, "run_on", counted)
    ann = visit("ann")
    row = ann.rows(SQL)[0]
    ran.clear()
    assert why(ann, SQL, row)[0] == 200
    assert len(ran) == 1


def test_many_prompts_without_answers(visit: Callable[[str], Visitor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A row among the prompts that can be passed is explained; for others the error tells what to do."""
    ann = visit("ann")
    sql = "SELECT a, ai_gen('Many {a}?', a) AS g FROM open_t"
    row = ann.run(sql, rows=1)[1]["rows"][0]
    told = why(ann, sql, row)[1]
    assert (told["whole"], told["by"], told["calls"][0]["answer"]) == (True, "values", row[1])
    monkeypatch.setattr("flightllm.execution.why._MOST_PROMPTS", 100)
    status, answer = why(ann, sql, ["1999", "x"])
    assert (status, "a condition that only a few rows fulfil" in answer["error"]["message"]) == (404, True)
    assert "changed" not in answer["error"]["message"]


def test_a_found_row_ends_the_search(visit: Callable[[str], Visitor], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large result not all rows are compared once the row is found, and that is said."""
    monkeypatch.setattr("flightllm.execution.why._ENOUGH_ROWS", 1)
    ann = visit("ann")
    sql = "SELECT a, ai_gen('Long {a}?', a) AS g FROM open_t"
    told = why(ann, sql, ann.run(sql, rows=1)[1]["rows"][0])[1]
    assert (told["whole"], told["rows"]) == (False, 1)


def test_an_answer_that_is_lost(visit: Callable[[str], Visitor]) -> None:
    """A row whose answer is not kept, or is NULL, is found by its other columns, and that is said."""
    ann = visit("ann")
    sql = "SELECT a, ai_gen('Lost {a}?', a) AS g FROM open_t WHERE a <= 3"
    for value in ("an old answer", None):
        told = why(ann, sql, ["2", value])[1]
        assert (told["by"], told["rows"], told["several"]) == ("others", 1, False)
        assert (told["calls"][0]["fields"], told["calls"][0]["kept"]) == ([["a", "2"]], False)
    assert why(ann, "SELECT ai_gen('Lost {a}?', a) AS g FROM open_t WHERE a <= 3", ["old"])[0] == 404


FORMS: dict[str, tuple[str, list[list[str | None]] | None, list[int]]] = {
    "equal values share a prompt": (
        "SELECT a, ai_gen('Of {b}?', b) AS g FROM open_t WHERE a <= 4",
        [["b", "text"]],
        [1],
    ),
    "a column twice": (
        "SELECT a, g, g AS h FROM (SELECT a, ai_gen('Of {a}!', a) AS g FROM open_t WHERE a <= 2) q",
        None,
        [1, 2],
    ),
    "parts of an object": (
        """SELECT a, ai_extract(a, '{"type": "object", "properties": {"k": {"type": "string"}}}')['k'] AS k
        FROM open_t WHERE a <= 2""",
        None,
        [1],
    ),
    "a whole object": (
        """SELECT a, ai_extract(a, '{"type": "object", "properties": {"k": {"type": "string"}}}') AS k
        FROM open_t WHERE a <= 2""",
        None,
        [1],
    ),
}


@pytest.mark.parametrize("what", FORMS)
def test_forms_of_cells(visit: Callable[[str], Visitor], what: str) -> None:
    """Each form of cell has its prompt and kept answer."""
    sql, fields, columns = FORMS[what]
    ann = visit("ann")
    row = ann.rows(sql)[0]
    told = why(ann, sql, row)[1]
    (call,) = told["calls"]
    assert (told["by"], told["rows"], call["kept"], call["columns"]) == ("values", 1, True, columns)
    assert call["fields"] == (fields or [[call["fields"][0][0], row[0]]])


def test_an_answer_in_a_prompt(visit: Callable[[str], Visitor]) -> None:
    """Of a call over another call's answer, both prompts are told, and the second has the first answer as its field."""
    ann = visit("ann")
    sql = (
        "SELECT a, ai_gen('Shorten {g}', g) AS s FROM (SELECT a, ai_gen('Tell {a}', a) AS g FROM open_t WHERE a <= 2) q"
    )
    told = why(ann, sql, ann.rows(sql)[0])[1]
    first, second = told["calls"]
    assert (first["columns"], second["columns"], told["by"]) == ([1], [1], "values")
    assert second["fields"] == [["g", first["answer"]]]


def test_a_layout_by_price(visit: Callable[[str], Visitor]) -> None:
    """With `layout = 'auto'`, the prompt is that of the layout whose answer is kept."""
    ann = visit("ann")
    sql = "SELECT a, ai_gen('Is {a} laid out?', a) AS g FROM open_t WHERE a = 5"
    ann.run("SET flightllm.layout = 'fields'")
    row = ann.rows(sql)[0]
    ann.run("SET flightllm.layout = 'auto'")
    (call,) = why(ann, sql, row)[1]["calls"]
    ann.run("RESET flightllm.layout")
    assert (call["layout"], call["kept"]) == ("fields first", True)
