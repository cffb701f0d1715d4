"""Ways that ask few questions find the pairs of the pair prompts, or are rejected by their proof."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flightllm.errors import AICallError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.simulated import Label, Model, simulated

COUNT = 60
COLORS = ("red", "green", "blue")
GOOD = {f"text {i}": i % 3 != 1 for i in range(COUNT)}
COLOR = {f"{side} {i}": COLORS[i % 3] for side in ("left", "right") for i in range(COUNT)}
PROPOSED: Mapping[str, Any] = {
    "possible": True,
    "left_question": "Is the mood good?",
    "right_question": "Is the mood good?",
    "labels": ["good", "bad"],
    "relation": "different",
    "unmatched": [],
}
OPPOSITE = "ai_filter('Do {x} and {y} have opposite moods?', x => a.t, y => b.t, %s)"


class Of(dict[str, Label]):
    """Labels that a function gives."""

    def __init__(self, label: Any) -> None:
        """`label` gets the values of the fields."""
        super().__init__()
        self._label = label

    def __contains__(self, key: object) -> bool:
        """Return True: all values have a label."""
        return True

    def __getitem__(self, key: str) -> Label:
        """Return the label of a value."""
        found: Label = self._label(*key.split(" | "))
        return found


def answers(proposed: Mapping[str, Any], **questions: Any) -> Model:
    """Return a model that knows the moods and the colors, and proposes a property."""
    known = {
        "opposite moods": Of(lambda a, b: GOOD[a] != GOOD[b]),
        "same color": Of(lambda a, b: COLOR[a] == COLOR[b]),
        "near": Of(lambda a, b: abs(int(a.split()[1]) - int(b.split()[1])) < 4),
        "before": Of(lambda a, b: int(a.split()[1]) < int(b.split()[1])),
        "all pairs": Of(lambda *_: json.dumps({**PROPOSED, **proposed})),
        "cheerful": Of(lambda text: GOOD[text]),
        "mood good": Of(lambda text: "good" if GOOD[text] else "bad"),
        "Which color": Of(lambda text: COLOR[text]),
    }
    return Model({**questions, **known})


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of texts with a mood, each twice, and of two tables of texts with colors."""
    with simulated({"demo": answers({})}):
        database = open_database(tmp_path_factory.mktemp("ways"))
        fill(database.session())
        yield database
        database.close()


def fill(session: Session) -> None:
    """Create the tables."""
    session.update(
        f"CREATE TABLE texts AS SELECT value AS id, 'text ' || (value % {COUNT}) AS t"
        f" FROM generate_series(0, {2 * COUNT - 1})"
    )
    for side in ("left", "right"):
        session.update(
            f"CREATE TABLE {side}s AS SELECT value AS id, '{side} ' || value AS t FROM generate_series(0, {COUNT - 1})"
        )


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session without kept answers."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    return session


def opposite(options: str, beside: str = "a.id <> b.id") -> str:
    """Return a self-join of the texts by their moods."""
    return f"SELECT a.id AS i, b.id AS j FROM texts a JOIN texts b ON {beside} AND {OPPOSITE % options}"


MOODS = {
    (i, j)
    for i in range(2 * COUNT)
    for j in range(2 * COUNT)
    if i != j and GOOD[f"text {i % COUNT}"] != GOOD[f"text {j % COUNT}"]
}


def pairs(ran: Ran) -> set[tuple[int, int]]:
    """Return the pairs of a result, which must have each pair once."""
    found = [(row["i"], row["j"]) for row in ran.rows]
    assert len(found) == len(set(found))
    return set(found)


def promise(ran: Ran) -> dict[str, Any]:
    """Return the figures of the promise of a join's call."""
    found: dict[str, Any] = ran.record.call_rows()[0]["promise"]
    return found


@pytest.mark.parametrize("strategy", ["map", "pivot", "auto"])
@pytest.mark.parametrize("more", ["", ", symmetric => true", ", recall => 0.95, precision => 0.9, confidence => 0.9"])
def test_right_verdicts(session: Session, strategy: str, more: str) -> None:
    """The result has the pairs of the pair prompts, by about two questions for each value and the proof."""
    ran = ask(session, opposite(f"strategy => '{strategy}'{more}"))
    assert pairs(ran) == MOODS
    assert ran.calls <= COUNT + 1 + 190
    figures = promise(ran)
    assert figures["held"]
    assert figures["rows"] == 2 * COUNT * (2 * COUNT - 1)
    assert figures["accepted"] == len(MOODS)
    assert figures["recall"] >= 0.9


def test_a_recall_alone_asks_about_each_accepted_pair(session: Session) -> None:
    """Without a precision no pair is returned unasked."""
    ran = ask(session, opposite("strategy => 'map', recall => 0.9"))
    assert pairs(ran) == MOODS
    distinct = {(i % COUNT, j % COUNT) for i, j in MOODS}
    assert len(distinct) <= ran.calls <= len(distinct) + COUNT + 100


@pytest.mark.parametrize("tail", ["ORDER BY i, j LIMIT 3", "ORDER BY j DESC, i LIMIT 2 OFFSET 1"])
def test_the_first_rows(session: Session, tail: str) -> None:
    """A LIMIT after ORDER BY leaves the join a join, and returns the first of its rows."""
    sql = opposite("strategy => 'map'")
    found = [(row["i"], row["j"]) for row in ask(session, f"{sql} {tail}").rows]
    assert found == (sorted(MOODS)[:3] if "OFFSET" not in tail else sorted(MOODS, key=lambda p: (-p[1], p[0]))[1:3])


def test_two_tables(session: Session) -> None:
    """Sides without a common value have two pivots; three colors are no two classes, so the pivot is rejected."""
    call = "ai_filter('Do {x} and {y} have the same color?', x => a.t, y => b.t, strategy => 'pivot')"
    ran = ask(session, f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON {call}")
    assert pairs(ran) == {(i, j) for i in range(COUNT) for j in range(COUNT) if i % 3 == j % 3}
    assert "not proved" in promise(ran)["reason"]
    assert ran.calls <= COUNT * COUNT


def test_a_property_of_two_tables(tmp_path: Path) -> None:
    """Each side has its own question, and three labels match where they are the same; outer joins work too."""
    two = {
        "left_question": "Which color has the left one?",
        "right_question": "Which color has the right one?",
        "labels": list(COLORS),
        "relation": "same",
    }
    call = "ai_filter('Do {x} and {y} have the same color?', x => a.t, y => b.t, strategy => 'map')"
    with simulated({"demo": answers(two)}):
        database = open_database(tmp_path)
        session = database.session()
        fill(session)
        sql = "SELECT a.id AS i, b.id AS j FROM lefts a {} JOIN rights b ON {}"
        ran = ask(session, sql.format("", call))
        wanted = {(i, j) for i in range(COUNT) for j in range(COUNT) if i % 3 == j % 3}
        assert pairs(ran) == wanted
        assert ran.calls <= 2 * COUNT + 1 + 180
        left = ask(session, sql.format("LEFT", call) + " WHERE a.id < 5")
        assert pairs(left) == {(i, j) for i, j in wanted if i < 5}
        assert "system" not in promise(ran)["proxy"]
        database.close()


@pytest.mark.parametrize(
    "proposed",
    [
        {"possible": False},
        {"labels": ["good"]},
        {"relation": "alike"},
        {"left_question": " "},
        {"relation": "same"},
    ],
    ids=str,
)
def test_wrong_rewrites_fall_back(tmp_path: Path, proposed: Mapping[str, Any]) -> None:
    """A property that is no property, or a wrong one, changes no row: the next way finds the pairs."""
    with simulated({"demo": answers(proposed)}):
        database = open_database(tmp_path)
        session = database.session()
        fill(session)
        ran = ask(session, opposite("strategy => 'auto'"))
        assert pairs(ran) == MOODS
        assert ran.record.call_rows()[0]["promise"]["proxy"] == "strategy 'pivot'"
        session.update("TRUNCATE system.cache")
        ran = ask(session, opposite("strategy => 'map'"))
        assert pairs(ran) == MOODS
        assert COUNT * COUNT <= ran.calls <= COUNT * COUNT + COUNT + 1
        database.close()


def test_no_class_decides(session: Session) -> None:
    """An order of values is no property: the proof fails, and all pairs are asked, none of them twice."""
    call = "ai_filter('Is {x} before {y}?', x => a.t, y => b.t, strategy => 'pivot')"
    ran = ask(session, f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON {call}")
    assert pairs(ran) == {(i, j) for i in range(COUNT) for j in range(COUNT) if i < j}
    assert ran.calls == COUNT * COUNT
    assert promise(ran)["proxy"] == "none"


def test_few_pairs_are_all_asked(session: Session) -> None:
    """Where all pairs cost less than the way and its proof, they are asked."""
    ran = ask(session, opposite("strategy => 'auto'", "a.id <> b.id AND a.id < 5 AND b.id < 5"))
    assert pairs(ran) == {(i, j) for i, j in MOODS if i < 5 and j < 5}
    assert ran.calls == 20


def test_limits(session: Session) -> None:
    """Under a LIMIT few pairs are asked, each by its own prompt."""
    ran = ask(session, f"{opposite(chr(39).join(('strategy => ', 'map', '')))} LIMIT 10")
    assert len(pairs(ran)) == 10
    assert pairs(ran) <= MOODS
    assert ran.calls <= 30


@pytest.mark.parametrize("calls", [400, 600])
def test_a_spent_budget_leaves_out_what_is_unknown(session: Session, calls: int) -> None:
    """No pair is returned that no answer supports, and the promise is not held."""
    call = "ai_filter('Is {x} before {y}?', x => a.t, y => b.t, strategy => 'pivot')"
    sql = f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON {call}"
    session.update("SET flightllm.on_budget = 'null'")
    ran = ask(session, sql, max_calls=str(calls))
    assert pairs(ran) <= {(i, j) for i in range(COUNT) for j in range(COUNT) if i < j}
    assert ran.calls <= calls
    assert not promise(ran)["held"]
    assert str(calls) in promise(ran)["reason"]


def test_the_prediction_counts_each_way(tmp_path: Path) -> None:
    """EXPLAIN prices all ways, and predicts the questions of the way that is taken."""
    with simulated({"demo": answers({})}), closing(open_database(tmp_path)) as database:
        session = database.session()  # answers that other tests have taught would move the prediction
        fill(session)
        for strategy, extra in (("map", 1), ("pivot", 0)):
            sql = opposite(f"strategy => {strategy!r}")
            (row,) = ask(session, f"EXPLAIN (FORMAT JSON) {sql}").rows
            predicted = json.loads(row["plan"])["total"]["predicted"]["calls"]
            assert COUNT + extra + 60 <= predicted <= COUNT + extra + 100
            text = "\n".join(line["plan"] for line in ask(session, f"EXPLAIN {sql}").rows)
            assert f"strategy {strategy}" in text
            assert f"pairs {COUNT * COUNT:,}, map" in text


def test_a_rerun_asks_nothing(session: Session) -> None:
    """The same query samples the same pairs, so that the answer cache has all answers."""
    sql = opposite("strategy => 'map'")
    assert ask(session, sql).calls > 0
    assert ask(session, sql).calls == 0


@pytest.mark.slow
def test_500_by_500(tmp_path: Path) -> None:
    """A categorical join of 500 by 500 values takes at most 1,500 calls."""
    kinds = [f"kind {i}" for i in range(10)]
    proposed = {"labels": kinds, "relation": "same", "left_question": "Which color?", "right_question": "Which colour?"}
    rng = np.random.default_rng(5)
    color = {f"{side} {i}": kinds[int(rng.integers(10))] for side in ("left", "right") for i in range(500)}
    known = {
        "Which colour": Of(lambda text: color[text]),
        "Which color": Of(lambda text: color[text]),
        "the same kind": Of(lambda a, b: color[a] == color[b]),
    }
    call = "ai_filter('Are {x} and {y} of the same kind?', x => a.t, y => b.t, strategy => 'map')"
    with simulated({"demo": Model({"all pairs": Of(lambda *_: json.dumps({**PROPOSED, **proposed})), **known})}):
        database = open_database(tmp_path)
        session = database.session()
        for side in ("left", "right"):
            session.update(
                f"CREATE TABLE {side}s AS SELECT value AS id, '{side} ' || value AS t FROM generate_series(0, 499)"
            )
        ran = ask(session, f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON {call}")
        wanted = {(i, j) for i in range(500) for j in range(500) if color[f"left {i}"] == color[f"right {j}"]}
        assert pairs(ran) == wanted
        assert ran.calls <= 1_500
        database.close()


@pytest.mark.parametrize(
    "options", ["strategy => 'map'", "strategy => 'pivot', symmetric => true", "symmetric => true"]
)
def test_the_order_of_rows_decides_nothing(session: Session, options: str) -> None:
    """The same values in another order get the same questions, so nothing is asked again."""
    sql = opposite(options)
    assert ask(session, sql).calls > 0
    for order in ("DESC", "% 7, id", "% 11 DESC, id DESC"):
        session.update(f"CREATE OR REPLACE TABLE moved AS SELECT * FROM texts ORDER BY id {order}")
        ran = ask(session, sql.replace("texts", "moved"))
        assert pairs(ran) == MOODS
        assert ran.calls == 0
    session.update("DROP TABLE moved")


@pytest.mark.parametrize("beside", ["a.id < b.id", "a.id > b.id", "a.id <> b.id"])
def test_a_symmetric_pair_is_asked_once(session: Session, beside: str) -> None:
    """Also where only one of its orders is a candidate, and a proof fails before all pairs are asked."""
    call = "ai_filter('Is {x} near {y}?', x => a.t, y => b.t, symmetric => true, strategy => 'pivot')"
    ran = ask(session, f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN lefts b ON {beside} AND {call}")
    near = {(i, j) for i in range(COUNT) for j in range(COUNT) if abs(i - j) < 4}
    sign = beside.split()[1]
    assert pairs(ran) == {(i, j) for i, j in near if (i < j and "<" in sign) or (i > j and ">" in sign)}
    assert "not proved" in promise(ran)["reason"]
    assert ran.calls <= COUNT * (COUNT - 1) // 2 + 1


def test_a_symmetric_call_without_rules(session: Session) -> None:
    """A call whose answers do depend on the order of a pair asks about the same order with and without rules."""
    call = "ai_filter('Is {x} before {y}?', x => a.t, y => b.t, symmetric => true)"
    sql = f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON a.id % 9 = b.id % 7 AND {call}"
    found = pairs(ask(session, sql))
    for settings in ({"optimizer": "off"}, {"rules": "off"}):
        session.update("TRUNCATE system.cache")
        assert pairs(ask(session, sql, **settings)) == found


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT i, count(*) AS n FROM ({}) GROUP BY i HAVING i < 3 ORDER BY i", [(0, 40), (1, 80), (2, 40)]),
        ("SELECT DISTINCT ON (i) i, j FROM ({}) WHERE i < 3 ORDER BY i, j", [(0, 1), (1, 0), (2, 1)]),
        ("SELECT id AS i, 0 AS j FROM texts WHERE id < 2 AND id IN (SELECT j FROM ({})) ORDER BY id", [(0, 0), (1, 0)]),
        (
            "SELECT p.i, l.id AS j FROM ({}) p JOIN lefts l ON l.id = p.j WHERE p.i < 1 ORDER BY j LIMIT 2",
            [(0, 1), (0, 4)],
        ),
        ("SELECT i, max(j) AS j FROM ({}) WHERE i < 2 GROUP BY i ORDER BY i", [(0, 118), (1, 119)]),
        (
            """SELECT i, j FROM ({}) WHERE i IN (SELECT id FROM texts WHERE ai_filter('Is {{t}} cheerful?', t => t)
            ORDER BY id LIMIT 2) ORDER BY i, j LIMIT 2""",
            [(0, 1), (0, 4)],
        ),
    ],
)
def test_other_rules_leave_the_join_whole(session: Session, sql: str, rows: list[tuple[int, int]]) -> None:
    """Groups, sorts, limits and further joins around a join by a strategy return the right rows."""
    found = ask(session, sql.format(opposite("strategy => 'map'"))).rows
    assert [tuple(row.values()) for row in found] == rows


def test_a_rerun_is_foreseen_as_free(session: Session) -> None:
    """EXPLAIN takes the proposal from the answer cache, so a budget of one call lets a rerun pass."""
    sql = opposite("strategy => 'map'")
    assert ask(session, sql).calls > COUNT
    (row,) = ask(session, f"EXPLAIN (FORMAT JSON) {sql}").rows
    assert json.loads(row["plan"])["total"]["predicted"]["calls"] == 0
    ran = ask(session, sql, max_calls="1")
    assert (ran.calls, pairs(ran)) == (0, MOODS)


def test_a_volatile_condition(session: Session) -> None:
    """A condition that changes with each evaluation cannot choose the pairs and their rows twice."""
    with pytest.raises(AICallError, match="volatile"):
        ask(session, opposite("strategy => 'map'", "random() < 0.5"))


STRATEGIES = ("auto", "map", "pivot", "classify", "block", "pairs")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("options", ["", ", symmetric => true"])
def test_no_candidates(session: Session, strategy: str, options: str) -> None:
    """A join whose other conditions let no pair through has no rows, asks nothing, and can be explained."""
    sql = opposite(f"strategy => '{strategy}'{options}", "a.id = b.id + 1000")
    ran = ask(session, sql)
    assert (ran.rows, ran.calls) == ([], 0)
    left = sql.replace("texts a JOIN", "texts a LEFT JOIN")
    assert {(row["i"], row["j"]) for row in ask(session, left).rows} == {(i, None) for i in range(2 * COUNT)}
    assert ask(session, f"EXPLAIN {sql}").rows


@pytest.mark.parametrize("beside", ["a.id > b.id", "a.id % 3 < b.id % 4", "a.id <> b.id"])
def test_symmetric_pairs_of_repeated_values(session: Session, beside: str) -> None:
    """Samples draw pairs of rows, so a pair of values comes several times: each is asked once, in one order."""
    session.update(
        "CREATE OR REPLACE TABLE often AS SELECT value AS id, 'left ' || (value % 20) AS t FROM generate_series(0, 119)"
    )
    call = "ai_filter('Is {x} near {y}?', x => a.t, y => b.t, symmetric => true, strategy => 'pivot')"
    ran = ask(session, f"SELECT a.id AS i, b.id AS j FROM often a JOIN often b ON {beside} AND {call}")
    every = [(i, j) for i in range(120) for j in range(120)]
    kept = {
        "a.id > b.id": [(i, j) for i, j in every if i > j],
        "a.id % 3 < b.id % 4": [(i, j) for i, j in every if i % 3 < j % 4],
        "a.id <> b.id": [(i, j) for i, j in every if i != j],
    }[beside]
    assert pairs(ran) == {(i, j) for i, j in kept if abs(i % 20 - j % 20) < 4}
    assert ran.calls <= 20 * 21 // 2
    session.update("DROP TABLE often")


def test_a_spent_budget_with_other_conditions(session: Session) -> None:
    """No pair is returned that the other conditions exclude, also where one answer is about both orders."""
    call = "ai_filter('Is {x} near {y}?', x => a.t, y => b.t, symmetric => true, strategy => 'pivot')"
    session.update("SET flightllm.on_budget = 'null'")
    ran = ask(
        session, f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN lefts b ON a.id < b.id AND {call}", max_calls="200"
    )
    assert pairs(ran) <= {(i, j) for i in range(COUNT) for j in range(COUNT) if i < j < i + 4}
    assert not promise(ran)["held"]
