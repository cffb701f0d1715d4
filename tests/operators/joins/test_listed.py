"""Prompts with lists of values find the pairs of the pair prompts, or are rejected by their proof."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.llm.engine import Request
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.endpoints import Body, Reply, chat, endpoint_of
from tests.operators.joins.test_ways import Of, pairs, promise
from tests.simulated import Model, SimulatedEngine, Simulation, simulated

COUNT, MANY, RUNS = 60, 120, 100
CALL = "ai_filter('Do {x} and {y} go together?', x => a.t, y => b.t, strategy => '%s'%s)"
SQL = "SELECT a.id AS i, b.id AS j FROM lefts a %s JOIN rights b ON %s %s"
Together = Callable[[str, str], bool]
Wrong = Callable[[str, str], bool]


def number(text: str) -> int:
    """Return the number in a text such as `left 12`."""
    return int(text.split()[1])


def same(one: str, other: str) -> bool:
    """Return whether values have the same one of 12 things."""
    return number(one) * 7 % 12 == number(other) * 5 % 12


def few(one: str, other: str) -> bool:
    """Return whether a value has one to three matches."""
    return (number(one) - number(other)) % 40 in {0, 1, 3}


def never(*_: str) -> bool:
    """Return False: no verdict is wrong."""
    return False


def reads(text: str, names: Sequence[str]) -> list[str]:
    """Return the text of each numbered record; the numbers must follow one another."""
    lines = [line.split(". ", 1) for line in text.split("\n")]
    assert [int(at) for at, _ in lines] == list(range(1, len(lines) + 1))
    return [next(str(record[name]) for name in names if name in record) for record in (json.loads(r) for _, r in lines)]


def listing(together: Together, wrong: Wrong = never) -> Of:
    """Return the answers about a list and one record; where `wrong`, the verdict is the opposite."""

    def label(record: str, records: str) -> str:
        one = json.loads(record)
        (name, value), found = next(iter(one.items())), []
        for at, other in enumerate(reads(records, "xy"), 1):
            pair = (value, other) if name == "x" else (other, value)
            if together(*pair) != wrong(*pair):
                found.append(at)
        return json.dumps(found)

    return Of(label)


def blocks(together: Together, wrong: Wrong = never) -> Of:
    """Return the answers about blocks, in the order (list, other list)."""

    def label(first: str, second: str) -> str:
        turned = '{"y"' in first
        found = []
        for i, one in enumerate(reads(first, "xy"), 1):
            for j, other in enumerate(reads(second, "xy"), 1):
                pair = (other, one) if turned else (one, other)
                if together(*pair) != wrong(*pair):
                    found.append([i, j])
        return json.dumps(found)

    return Of(label)


def answers(together: Together, wrong: Wrong = never, more: Mapping[str, Of] | None = None) -> Model:
    """Return a model that knows which values go together, and can be wrong about lists."""
    # the questions about lists and properties quote the condition, so they come first
    lists = {"two lists": blocks(together, wrong), "with the other record": listing(together, wrong)}
    proposed = {"whether one property": Of(lambda *_: json.dumps({"possible": False}))}
    return Model({**lists, **(more or {}), **proposed, "go together": Of(together)})


class Opened:
    """A session on simulated models."""

    def __init__(self, session: Session, simulation: Simulation) -> None:
        self.session = session
        self._simulation = simulation

    def join(self, strategy: str, options: str = "", *, beside: str = "", kind: str = "", **settings: str) -> Ran:
        """Run a join of the two tables."""
        return ask(self.session, SQL % (kind, beside, CALL % (strategy, options)), **settings)

    @property
    def requests(self) -> list[Request]:
        """Return all requests so far."""
        return self._simulation.engines["demo"].asked

    def shown(self) -> list[tuple[str, str]]:
        """Return the two texts of each list prompt, in the order in which they were asked."""
        return [
            (dict(r.fields)[name], dict(r.fields)[other])
            for r in self.requests
            for name, other in (("records", "record"), ("first_records", "second_records"))
            if name in dict(r.fields)
        ]


@contextmanager
def opened(folder: Path, model: Model, left: int = COUNT, right: int = COUNT, **more: Any) -> Iterator[Opened]:
    """Open a session with two tables of texts."""
    with simulated({"demo": model}) as simulation, closing(open_database(folder, **more)) as database:
        session = database.session()
        fill(session, left, right)
        yield Opened(session, simulation)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Return two tables whose values have none, one or several matches."""
    with opened(tmp_path_factory.mktemp("listed"), answers(same), MANY) as found:
        yield found


@pytest.fixture
def both(place: Opened) -> Opened:
    """Return the tables without kept answers."""
    place.session.update("TRUNCATE system.cache")
    return place


def fill(session: Session, left: int, right: int) -> None:
    """Create the tables."""
    for side, count in (("left", left), ("right", right)):
        session.update(
            f"CREATE TABLE {side}s AS SELECT value AS id, '{side} ' || value AS t, value % 3 AS k"
            f" FROM generate_series(0, {count - 1})"
        )


def wanted(together: Together, left: int = COUNT, right: int = COUNT) -> set[tuple[int, int]]:
    """Return the pairs of a double loop."""
    return {(i, j) for i in range(left) for j in range(right) if together(f"left {i}", f"right {j}")}


def listed_calls(ran: Ran) -> int:
    """Return how many prompts had lists."""
    return next(int(row["calls"]) for row in ran.record.call_rows() if row["notes"].get("role") == "proxy")


@pytest.mark.parametrize(("strategy", "prompts"), [("classify", 2 * MANY), ("block", 6 * 12)])
@pytest.mark.parametrize("more", ["", ", recall => 0.8, precision => 0.8, confidence => 0.9"])
def test_right_verdicts(both: Opened, strategy: str, prompts: int, more: str) -> None:
    """Each value of the larger side is asked once for each list of 50 values; blocks have 10 by 10 values."""
    ran = both.join(strategy, more)
    assert pairs(ran) == wanted(same, MANY)
    assert listed_calls(ran) == prompts
    figures = promise(ran)
    assert figures["held"]
    assert figures["rows"] == MANY * COUNT
    assert figures["accepted"] == len(wanted(same, MANY))
    assert figures["proxy"] == f"strategy '{strategy}'"
    assert both.join(strategy, more).calls == 0


def test_a_recall_alone_asks_about_each_accepted_pair(both: Opened) -> None:
    """Without a precision no pair is returned unasked."""
    ran = both.join("classify", ", recall => 0.8")
    assert pairs(ran) == wanted(same, MANY)
    assert promise(ran)["asked_prompts"] >= len(wanted(same, MANY))


def test_the_list_comes_first(both: Opened) -> None:
    """Prompts with one list follow one another, so that they share it as a prefix."""
    start = len(both.shown())
    both.join("classify")
    lists = [records for records, _ in both.shown()[start:]]
    assert len(set(lists)) == 2
    assert lists == sorted(lists, key=lists.index)


@pytest.mark.parametrize(("kind", "strategy"), [("LEFT", "classify"), ("RIGHT", "block"), ("FULL", "classify")])
def test_kinds(tmp_path: Path, kind: str, strategy: str) -> None:
    """Outer joins have the rows without a match too, and the optimizer changes nothing."""
    with opened(tmp_path, answers(few)) as place:
        place.session.update("INSERT INTO lefts VALUES (900, NULL, 0)")
        place.session.update("INSERT INTO rights VALUES (901, NULL, 1), (59, 'right 59', 2)")
        inside = sorted([*wanted(few), *((i, 59) for i, j in wanted(few) if j == 59)])
        left = {*range(COUNT), 900} - {i for i, _ in inside}
        right = {*range(COUNT), 901} - {j for _, j in inside}
        rows: list[tuple[int | None, int | None]] = [*inside]
        rows += [(i, None) for i in left] if kind in {"LEFT", "FULL"} else []
        rows += [(None, j) for j in right] if kind in {"RIGHT", "FULL"} else []
        for settings in ({}, {"optimizer": "off"}, {"rules": "off"}):
            ran = place.join(strategy, kind=kind, **settings)
            assert sorted(((row["i"], row["j"]) for row in ran.rows), key=str) == sorted(rows, key=str)


@pytest.mark.parametrize(("kind", "keeps"), [("LEFT SEMI", True), ("LEFT ANTI", False)])
def test_semi_and_anti(both: Opened, kind: str, keeps: bool) -> None:
    """Semi and anti joins keep rows by their matches."""
    call = CALL % ("classify", "")
    ran = ask(both.session, f"SELECT a.id AS i FROM lefts a {kind} JOIN rights b ON {call} AND b.k = 0")
    matched = {i for i, j in wanted(same, MANY) if j % 3 == 0}
    assert {row["i"] for row in ran.rows} == (matched if keeps else set(range(MANY)) - matched)


@pytest.mark.parametrize("beside", ["a.k = b.k AND", "a.k < b.k AND"])
@pytest.mark.parametrize("strategy", ["classify", "block"])
def test_beside_a_condition(both: Opened, strategy: str, beside: str) -> None:
    """A list has candidates of its values only, and values with the same candidates share it."""
    start = len(both.shown())
    ran = both.join(strategy, beside=beside)
    equal = "=" in beside
    assert pairs(ran) == {(i, j) for i, j in wanted(same, MANY) if (i % 3 == j % 3 if equal else i % 3 < j % 3)}
    shown = both.shown()[start:]
    for records, record in shown:
        listed = {number(one) % 3 for one in reads(records, "xy")}
        others = {number(o) % 3 for o in reads(record if strategy == "block" else f"1. {record}", "xy")}
        assert all(i == j if equal else i < j for i in others for j in listed)
    if strategy == "classify":
        assert len(shown) == MANY if equal else len(shown) == MANY // 3 * 2
        assert len({records for records, _ in shown}) == (3 if equal else 2)


@pytest.mark.parametrize("strategy", ["classify", "block"])
@pytest.mark.parametrize("beside", ["", "a.k <= b.k AND"])
def test_symmetric(tmp_path: Path, strategy: str, beside: str) -> None:
    """In a self-join, most prompts ask about a pair in one order only; rows have both orders."""
    sql = f"SELECT a.id AS i, b.id AS j FROM lefts a JOIN lefts b ON {beside} {CALL % (strategy, ', symmetric => %s')}"

    def alike(one: str, other: str) -> bool:
        return (number(one) - number(other)) % 12 == 0

    with opened(tmp_path, answers(alike), MANY) as place:
        ran = ask(place.session, sql % "true")
        place.session.update("TRUNCATE system.cache")
        usual = ask(place.session, sql % "false")
    found = {(i, j) for i in range(MANY) for j in range(MANY) if (i - j) % 12 == 0}
    found = {(i, j) for i, j in found if not beside or i % 3 <= j % 3}
    assert pairs(ran) == pairs(usual) == found
    if not beside:
        assert listed_calls(ran) <= 0.75 * (3 * MANY if strategy == "classify" else 144)


def test_the_order_of_rows_decides_no_prompt(both: Opened) -> None:
    """The same values in another order of rows have the same prompts."""
    start = len(both.shown())
    both.join("classify")
    middle = len(both.shown())
    both.session.update("TRUNCATE system.cache")
    turned = "(SELECT * FROM %s ORDER BY id DESC)"
    ask(both.session, (SQL % ("", "", CALL % ("classify", ""))).replace("lefts", turned % "lefts"))
    assert sorted(both.shown()[start:middle]) == sorted(both.shown()[middle:])


def uniform(text: str) -> float:
    """Return a number from 0 to 1 that a text decides."""
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) / 2**56


def wrong_recall(seed: int) -> Wrong:
    """Return verdicts that miss 70 % of the matches."""
    return lambda one, other: few(one, other) and uniform(f"{seed} {one} {other}") < 0.7


def wrong_precision(seed: int) -> Wrong:
    """Return verdicts that name as many wrong pairs as there are right ones."""
    return lambda one, other: not few(one, other) and uniform(f"{seed} {one} {other}") < 0.08


@pytest.mark.parametrize("strategy", ["classify", "block"])
@pytest.mark.parametrize("wrong", [wrong_recall, wrong_precision])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 30))])
def test_wrong_verdicts_fall_back(tmp_path: Path, strategy: str, wrong: Callable[[int], Wrong], seed: int) -> None:
    """Verdicts that miss matches, or name pairs that do not match, are rejected: all pairs are asked, none twice."""
    with opened(tmp_path, answers(few, wrong(seed))) as place:
        ran = place.join(strategy)
        assert pairs(ran) == wanted(few)
        assert promise(ran)["proxy"] == "none"
        assert "not proved" in promise(ran)["reason"]
        assert ran.calls - listed_calls(ran) == COUNT * COUNT


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["classify", "block"])
def test_the_promise_holds(tmp_path: Path, strategy: str) -> None:
    """Verdicts about as good as the promise are taken sometimes, and at most a share delta of runs misses a target."""
    missed = taken = 0
    for seed in range(RUNS):

        def wrong(one: str, other: str, seed: int = seed) -> bool:
            return uniform(f"{seed} {one} {other}") < (0.06 if same(one, other) else 0.005)

        with opened(tmp_path / str(seed), answers(same, wrong)) as place:
            ran = place.join(strategy, ", recall => 0.9, precision => 0.9, confidence => 0.9")
        found, truth = pairs(ran), wanted(same)
        missed += min(len(found & truth) / len(truth), len(found & truth) / len(found)) < 0.9
        taken += promise(ran)["proxy"] != "none"
    assert taken > 0
    assert missed <= 0.1 * RUNS


def test_unusable_answers_are_asked_in_pairs(tmp_path: Path) -> None:
    """A number out of range, a text, an object or another element decides no pair."""
    usual = listing(same)

    def label(record: str, records: str) -> str:
        bad = {0: "[1, 51]", 1: "None of them.", 2: '{"found": []}', 3: "[0]", 4: "[1.5]", 5: '["1"]'}
        at = number(json.loads(record)["x"])
        return bad[at] if at in bad else str(usual[f"{record} | {records}"])

    with opened(tmp_path, answers(same, more={"with the other record": Of(label)}), MANY) as place:
        ran = place.join("classify")
        assert pairs(ran) == wanted(same, MANY)
        assert promise(ran)["proxy"] == "strategy 'classify'"
        asked = {dict(r.fields)["x"] for r in place.requests if "y" in dict(r.fields)}
        assert {f"left {n}" for n in range(6)} <= asked
        assert promise(ran)["asked_prompts"] >= 6 * COUNT


def test_no_usable_answer(tmp_path: Path) -> None:
    """Where nearly all answers are unusable, the way is left early."""
    with opened(
        tmp_path, answers(same, more={"with the other record": Of(lambda *_: "Both match.")}), 260, 12
    ) as place:
        ran = place.join("classify")
        assert pairs(ran) == wanted(same, 260, 12)
        assert "64 of 64 answers name no records" in promise(ran)["reason"]


def test_in_auto(tmp_path: Path) -> None:
    """`auto` takes lists where no property is found and two classes do not explain the answers."""
    with opened(tmp_path, answers(same), MANY) as place:
        ran = place.join("auto")
        assert pairs(ran) == wanted(same, MANY)
        assert promise(ran)["proxy"] == "strategy 'classify'"


def test_one_value(tmp_path: Path) -> None:
    """One value of a side is the one label; as pairs cost the same, the pairs are asked."""
    with opened(tmp_path, answers(same), 1, 300) as place:
        assert pairs(place.join("classify")) == wanted(same, 1, 300)
        ran = place.join("block")
        assert pairs(ran) == wanted(same, 1, 300)


def test_a_small_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists fit the context, and values that are longer than it are asked in pairs, or not at all."""
    monkeypatch.setattr(SimulatedEngine, "context_tokens", 600)
    with opened(tmp_path, answers(same), MANY) as place:
        long = "'right ' || (value + 60) || repeat(' long', 500)"
        place.session.update(f"INSERT INTO rights SELECT 900 + value, {long}, 0 FROM generate_series(0, 2) AS s(value)")
        ran = place.join("classify")
        assert pairs(ran) == {(i, n if n < COUNT else n + 840) for i, n in wanted(same, MANY, 63)}
        lists = {records for records, _ in place.shown()}
        assert len(lists) > 2
        assert not any("long" in records for records in lists)
        assert max(len(reads(records, "xy")) for records in lists) > 4
        prompts = [r for r in place.requests if "records" in dict(r.fields)]
        assert all(len(r.prompt) / 4 + r.parameters.max_tokens <= 600 for r in prompts)


def test_no_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no list fits, all pairs are asked."""
    monkeypatch.setattr(SimulatedEngine, "context_tokens", 150)
    with opened(tmp_path, answers(same)) as place:
        ran = place.join("classify")
        assert pairs(ran) == wanted(same)
        assert ran.calls == COUNT * COUNT


def test_lists_and_several_fields(tmp_path: Path) -> None:
    """A list is an array of a record, and a side can have several fields, also NULL ones."""
    call = "ai_filter('Do {x} in {z} and {y} go together?', x => a.l, z => a.k, y => b.t, strategy => 'classify')"

    def label(record: str, records: str) -> str:
        found = []
        for at, line in enumerate(records.split("\n"), 1):
            one, other = json.loads(record), json.loads(line.split(". ", 1)[1])
            left, right = (one, other) if "x" in one else (other, one)
            assert left["x"] == sorted(left["x"])
            if (int(left["x"][0]) + int(left["z"]) - number(right["y"])) % 12 == 0:
                found.append(at)
        return json.dumps(found)

    def pair(*values: str) -> bool:
        elements = [int(v) for v in values if v.isdigit()]
        right = next(number(v) for v in values if not v.isdigit())
        return (min(elements[:-1]) + elements[-1] - right) % 12 == 0

    model = Model({"with the other record": Of(label), "go together": Of(pair)})
    with opened(tmp_path, model, 1) as place:
        place.session.update(
            "CREATE TABLE lists AS SELECT value AS id, [CAST(200 + value AS TEXT), CAST(300 + value AS TEXT)] AS l,"
            " CAST(value % 5 AS TEXT) AS k FROM generate_series(0, 79)"
        )
        ran = ask(place.session, f"SELECT a.id AS i, b.id AS j FROM lists a JOIN rights b ON {call}")
        assert pairs(ran) == {(i, j) for i in range(80) for j in range(COUNT) if (200 + i + i % 5 - j) % 12 == 0}
        assert promise(ran)["proxy"] == "strategy 'classify'"


@pytest.mark.parametrize("calls", [370, 600])
def test_a_spent_budget_promises_nothing(both: Opened, calls: int) -> None:
    """Only pairs with an answer of their own come back."""
    both.session.update("SET flightllm.on_budget = 'null'")
    try:
        ran = both.join("classify", max_calls=str(calls))
    finally:
        both.session.update("RESET flightllm.on_budget")
    assert pairs(ran) <= wanted(same, MANY)
    assert ran.calls <= calls
    assert not promise(ran)["held"]


@pytest.mark.parametrize(("strategy", "prompts"), [("classify", 40), ("block", 16)])
def test_the_prediction(tmp_path: Path, strategy: str, prompts: int) -> None:
    """EXPLAIN counts the prompts with lists; after the query it expects all answers from the cache."""
    with opened(tmp_path, answers(same), 40, 40) as place:
        sql = SQL % ("", "", CALL % (strategy, ""))
        (row,) = ask(place.session, f"EXPLAIN (FORMAT JSON) {sql}").rows
        assert prompts + 60 <= json.loads(row["plan"])["total"]["predicted"]["calls"] <= prompts + 160
        text = "\n".join(line["plan"] for line in ask(place.session, f"EXPLAIN {sql}").rows)
        assert f"strategy {strategy} with lists" in text
        assert "classify 140, block 116" in text
        place.join(strategy)
        (row,) = ask(place.session, f"EXPLAIN (FORMAT JSON) {sql}").rows
        assert json.loads(row["plan"])["total"]["predicted"]["calls"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["classify", "block"])
def test_500_by_500(tmp_path: Path, strategy: str) -> None:
    """A categorical join of 500 by 500 values takes ten lists of labels for each value."""

    def kind(one: str, other: str) -> bool:
        return number(one) * 7 % 10 == number(other) * 3 % 10

    with opened(tmp_path, answers(kind), 500, 500) as place:
        ran = place.join(strategy)
        assert pairs(ran) == wanted(kind, 500, 500)
        assert listed_calls(ran) == (5_000 if strategy == "classify" else 2_500)
        assert ran.calls <= listed_calls(ran) + 500


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "provider", "prompts"), [("classify", "vllm", 20), ("block", "openai", 4)])
def test_through_an_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, provider: str, prompts: int
) -> None:
    """An OpenAI-compatible endpoint gets the list first, a schema for the numbers, and the pairs of the proof."""
    monkeypatch.setenv("LISTED_KEY", "not-needed")
    schemas = []

    def behave(path: str, body: Body, number_of: int) -> Reply:
        del path, number_of
        said = body["messages"][-1]["content"]
        records = [json.loads(found) for found in re.findall(r"\{\"[xy]\": \"[^\"]*\"\}", said)]
        if not records:
            one, other = (re.search(rf"{name}: (.* \d+)", said) for name in "xy")
            assert one is not None
            assert other is not None
            return chat("Yes" if same(one[1], other[1]) else "No")
        schema = body["response_format"]["json_schema"]["schema"]
        schemas.append(schema)
        names = next(iter(records[0])), next(iter(records[-1]))
        first, second = ([record[name] for record in records if name in record] for name in names)
        turned = "x" in records[-1]
        named = [
            [i, j] if strategy == "block" else i
            for i, one in enumerate(first, 1)
            for j, two in enumerate(second, 1)
            if same(*((two, one) if turned else (one, two)))
        ]
        return chat(json.dumps({next(iter(schema["properties"])): named} if schema["type"] == "object" else named))

    with endpoint_of(behave) as endpoint:
        options = {"base_url": endpoint.url, "provider": provider, "api_key": "env:LISTED_KEY"}
        config = Config(engine=EngineConfig("openai", "m", 8, options), data_folder=tmp_path)
        with closing(Database.open(config)) as database:
            session = database.session()
            fill(session, 20, 20)
            ran = ask(session, SQL % ("", "", CALL % (strategy, ", recall => 0.8")))
            assert pairs(ran) <= wanted(same, 20, 20)
            assert len(pairs(ran)) >= 0.8 * len(wanted(same, 20, 20))
            assert promise(ran)["proxy"] == f"strategy '{strategy}'"
    assert len(schemas) >= prompts
    assert {schema["type"] for schema in schemas} == {"object" if provider == "openai" else "array"}
