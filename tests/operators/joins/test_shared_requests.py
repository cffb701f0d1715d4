"""Options about shared requests, and the order of lists, in a join by a yes/no call."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.errors import AICallError
from flightllm.session.session import Session
from tests.databases import Ran, ask, open_database
from tests.operators.joins.test_listed import answers, opened

COUNT = 30
SQL = (
    "SELECT a.id AS i, b.id AS j FROM lefts a JOIN rights b ON ai_filter('Do {x} and {y} match?', x => a.t, y => b.t%s)"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session on the fake engine, whose answers in a shared request are those of single requests."""
    with closing(open_database(tmp_path_factory.mktemp("shared"))) as database:
        session = database.session()
        for side in ("left", "right"):
            session.update(
                f"CREATE TABLE {side}s AS SELECT value AS id, '{side[0]} ' || value AS t"
                f" FROM generate_series(1, {COUNT})"
            )
        yield session


def fresh(session: Session, options: str, **settings: str) -> Ran:
    """Run the join without kept answers."""
    session.update("TRUNCATE system.cache")
    return ask(session, SQL % options, **settings)


def found(ran: Ran) -> list[tuple[int, int]]:
    """Return the pairs of a result."""
    return sorted((row["i"], row["j"]) for row in ran.rows)


@pytest.mark.parametrize("options", ["", ", strategy => 'pairs'", ", symmetric => true"])
def test_pairs_share_requests(session: Session, options: str) -> None:
    """Where all pairs are asked, several pairs can share a request, by the call or by the session."""
    usual = fresh(session, options)
    assert usual.calls == COUNT * COUNT
    for ran in (fresh(session, f"{options}, rows_per_request => 10"), fresh(session, options, rows_per_request="10")):
        assert found(ran) == found(usual)
        assert ran.calls == COUNT * COUNT / 10
    assert fresh(session, f"{options}, rows_per_request => 1", rows_per_request="10").calls == COUNT * COUNT


@pytest.mark.parametrize("strategy", ["map", "pivot", "classify", "block", "auto"])
def test_a_proof_asks_about_single_pairs(session: Session, strategy: str) -> None:
    """A setting of the session changes no prompt of a proof, so that no pair is asked in two ways."""
    usual = fresh(session, f", strategy => '{strategy}'")
    ran = fresh(session, f", strategy => '{strategy}'", rows_per_request="10", questions_per_request="5")
    assert found(ran) == found(usual)
    assert ran.calls == usual.calls
    assert fresh(session, f", strategy => '{strategy}', rows_per_request => 1").calls == usual.calls


@pytest.mark.parametrize("strategy", ["map", "pivot", "classify", "block", "embedding", "auto"])
def test_a_proof_shares_no_request(session: Session, strategy: str) -> None:
    """The option on a call with a promise is an error that says what to write."""
    with pytest.raises(AICallError, match=r"rows_per_request => 10 does not go with strategy =>.*strategy => 'block'"):
        ask(session, SQL % f", strategy => '{strategy}', rows_per_request => 10")


@pytest.mark.parametrize("options", [", strategy => 'pairs'", ", symmetric => true", ", strategy => 'map'"])
def test_a_join_asks_one_question(session: Session, options: str) -> None:
    """Several questions about one pair make no sense."""
    with pytest.raises(
        AICallError, match=r"questions_per_request => 3 does not go with .*one question about each pair"
    ):
        ask(session, SQL % f"{options}, questions_per_request => 3")
    assert fresh(session, f"{options}, questions_per_request => 1").calls > 0


@pytest.mark.parametrize("strategy", ["pairs", "classify", "block"])
@pytest.mark.parametrize("ordered", [False, True])
def test_the_order_of_lists(tmp_path: Path, strategy: str, ordered: bool) -> None:
    """With `ordered` the elements of a list keep their order in each prompt; without, their order decides nothing."""
    call = "ai_filter('Do {x} and {y} go together?', x => a.l, y => b.t, strategy => '%s'%s)"
    with opened(tmp_path, answers(lambda *_: True), 1, 40) as place:
        place.session.update(
            "CREATE TABLE lists AS SELECT value AS id, ['z', CAST(value % 40 AS TEXT), 'b'] AS l"
            " FROM generate_series(0, 39) UNION ALL"
            " SELECT 40 + value, ['b', 'z', CAST(value % 40 AS TEXT)] FROM generate_series(0, 39)"
        )
        more = ", ordered => true" if ordered else ""
        ask(place.session, f"SELECT a.id, b.id FROM lists a JOIN rights b ON {call % (strategy, more)}")
        values = {one for request in place.requests for one in _lists(dict(request.fields), request.fields)}
        wanted = {("z", str(n), "b") for n in range(40)} | {("b", "z", str(n)) for n in range(40)}
        assert values == (wanted if ordered else {tuple(sorted(one)) for one in wanted})


def _lists(fields: dict[str, str], given: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, ...]]:
    """Yield the lists in a prompt about a pair, or about lists of values."""
    if "y" in fields:
        parts = [text for name, text in given if name == "x"]
        yield tuple(parts[0].split("\n") if len(parts) == 1 else parts)
        return
    for text in fields.values():
        for line in text.split("\n"):
            record = json.loads(line.split(". ", 1)[-1])
            if "x" in record:
                yield tuple(record["x"].split("\n") if isinstance(record["x"], str) else record["x"])
