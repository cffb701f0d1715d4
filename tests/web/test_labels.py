"""Labels that users of the page give to answers."""

from collections.abc import Callable
from typing import Any

import pytest

from flightllm.session.database import Database
from tests.web.support import Visitor

SQL = "SELECT a, ai_filter('Is {a} {b}?', a, b) AS f, ai_score('How {b}?', b) AS s FROM open_t WHERE a <= 3"


@pytest.fixture(autouse=True)
def _empty(database: Database) -> None:
    database.session().update("DELETE FROM system.labels")


def calls_of(visitor: Visitor, sql: str = SQL, at: int = 0) -> dict[str, Any]:
    """Return the calls of a row by function."""
    told = visitor.post("/api/why", {"sql": sql, "row": visitor.rows(sql)[at]})[1]
    return {call["function"]: call for call in told["calls"]}


def given(call: dict[str, Any], **values: object) -> dict[str, object]:
    """Return what the page sends for a call."""
    return {**call["subject"], "answer": call["answer"], "options": call["parameters"]["options"] or [], **values}


def test_label_and_undo(visit: Callable[[str], Visitor]) -> None:
    """A label is told with the next look at the row; a relabel returns what it replaces; a removal leaves nothing."""
    ann = visit("ann")
    call = calls_of(ann)["ai_filter"]
    assert call["labels"] == []
    assert call["subject"]["fields"] == {"a": call["fields"][0][1], "b": "text"}
    status, first = ann.post("/api/label", given(call, verdict="right", model="m"))
    assert (status, first["previous"], first["label"]["label"]) == (200, None, call["answer"])
    wrong = "No" if call["answer"] == "Yes" else "Yes"
    second = ann.post("/api/label", given(call, verdict="wrong", label=wrong, comment="see there"))[1]
    assert second["previous"]["verdict"] == "right"
    (seen,) = calls_of(ann)["ai_filter"]["labels"]
    assert (seen["verdict"], seen["label"], seen["comment"], seen["own"]) == ("wrong", wrong, "see there", True)
    assert calls_of(ann, at=1)["ai_filter"]["labels"] == []
    assert ann.rows("SELECT verdict, label FROM system.labels") == [["wrong", wrong]]
    assert ann.post("/api/label/remove", {"label_id": seen["label_id"]})[0] == 200
    assert ann.post("/api/label/remove", {"label_id": seen["label_id"]})[0] == 404
    assert calls_of(ann)["ai_filter"]["labels"] == []


def test_names_of_functions(visit: Callable[[str], Visitor]) -> None:
    """A label under another spelling of the function is that of its own name: it replaces, and is removed, as such."""
    ann = visit("ann")
    subject = {"function": "AI_Score", "task": "t", "fields": {}}
    first = ann.post("/api/label", {**subject, "label": "3"})[1]
    second = ann.post("/api/label", {**subject, "label": "4"})[1]
    assert (first["previous"], second["previous"]["label"]) == (None, "3")
    assert second["label"]["label_id"] == first["label"]["label_id"]
    assert ann.post("/api/label/remove", {"label_id": second["label"]["label_id"]})[0] == 200


def test_two_people(visit: Callable[[str], Visitor]) -> None:
    """Both labels stay; an admin sees both, and a user the own one alone."""
    ann, root = visit("ann"), visit("root")
    call = calls_of(ann)["ai_score"]
    for who, label in ((ann, "3"), (root, "4.5")):
        assert who.post("/api/label", given(call, label=label))[0] == 200
    assert [(one["user"], one["own"]) for one in calls_of(root)["ai_score"]["labels"]] == [
        ("ann", False),
        ("root", True),
    ]
    assert [one["user"] for one in calls_of(ann)["ai_score"]["labels"]] == ["ann"]


def test_other_models_and_examples(visit: Callable[[str], Visitor]) -> None:
    """A label holds for the same question to another model, in another layout, and with examples."""
    ann = visit("ann")
    visit("root").run("GRANT USAGE ON MODEL shut_m TO ann")
    asked = "SELECT a, ai_classify(a, ['x', 'y']{}) AS c FROM open_t WHERE a = 5"
    call = calls_of(ann, asked.format(""))["ai_classify"]
    assert ann.post("/api/label", given(call, verdict="right"))[0] == 200
    for more in (", model => shut_m", ", examples => [['7', 'x']]", ", temperature => 0.5", ", confidence => true"):
        same = calls_of(ann, asked.format(more))["ai_classify"]
        assert [one["verdict"] for one in same["labels"]] == ["right"], more
    for other in (", instructions => 'Be kind'",):
        assert calls_of(ann, asked.format(other))["ai_classify"]["labels"] == []
    visit("root").run("REVOKE USAGE ON MODEL shut_m FROM ann")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"verdict": "wrong", "label": "11"}, "choose one of 0, 1"),
        ({"verdict": "wrong", "label": "much"}, "choose one of 0, 1"),
        ({"label": 3}, "'label' must be a text"),
        ({"fields": "x", "label": "3"}, "'fields' must be an object"),
        ({"fields": {"a": {"b": "c"}}, "label": "3"}, "JSON object"),
        ({"options": "x"}, "'options' must be a list"),
        ({"task": ""}, "needs a task"),
        ({}, "needs a verdict"),
    ],
)
def test_refused(visit: Callable[[str], Visitor], values: dict[str, object], message: str) -> None:
    """A label that does not fit the call is refused with a reason."""
    ann = visit("ann")
    subject = {"function": "ai_score", "task": "How?", "fields": {"b": "x"}, "options": [str(n) for n in range(11)]}
    status, answer = ann.post("/api/label", {**subject, **values})
    assert (status, message in answer["error"]["message"]) == (400, True), answer


def test_rights(visit: Callable[[str], Visitor], page: str) -> None:
    """A readonly user, another site's page and a visitor without a login add no label; nobody removes another's."""
    ann, rob = visit("ann"), visit("rob")
    subject = {"function": "ai_gen", "task": "t", "fields": {}, "label": "x"}
    assert rob.post("/api/label", subject)[0] == 403
    assert Visitor(page).post("/api/label", subject)[0] == 401
    assert ann.post("/api/label", subject, origin="http://elsewhere")[0] == 403
    assert (
        "requires the role user or admin"
        in rob.post("/api/why", {"sql": SQL, "row": rob.rows(SQL)[0]})[1]["unlabelled"]
    )
    assert ann.post("/api/why", {"sql": SQL, "row": ann.rows(SQL)[0]})[1]["unlabelled"] is None
    label = ann.post("/api/label", subject)[1]["label"]
    assert rob.post("/api/label/remove", {"label_id": label["label_id"]})[0] == 403
    assert visit("root").post("/api/label/remove", {"label_id": label["label_id"]})[0] == 200


def test_records(visit: Callable[[str], Visitor]) -> None:
    """A label is a statement of its user in the list of queries, without the label's texts."""
    ann = visit("ann")
    assert ann.post("/api/label", {"function": "ai_gen", "task": "secret", "fields": {}, "label": "x"})[0] == 200
    newest = next(one for one in ann.get("/api/queries")[1]["ended"] if "system.labels" in one["sql"])
    assert (newest["kind"], newest["status"], "secret" in newest["sql"]) == ("insert", "done", False)
