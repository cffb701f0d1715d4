"""SQL with a model behind a decision endpoint: rows, requests, prices, EXPLAIN and errors."""

from collections.abc import Iterator

import pytest

import flightllm
from flightllm.errors import AICallError
from tests.decision_endpoint import Rules, billed, decision_endpoint
from tests.endpoints import Endpoint

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
ROWS = "(VALUES (1, 'a red rose 7'), (2, 'a blue sky 3'), (3, 'a green leaf 9'), (4, NULL)) v(id, t)"
CALLS = (
    "ai_filter('Is it red', t, model => 'd') f, ai_classify(t, ['red', 'green', 'blue'], model => 'd') c, "
    "ai_score('how good', t, low => 1, high => 9, expected => false, model => 'd') s"
)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Return a decision endpoint that declines questions about bark."""
    with decision_endpoint(Rules(refuses="bark")) as found:
        yield found


@pytest.fixture
def con(endpoint: Endpoint) -> Iterator[flightllm.Connection]:
    """Return a connection with the endpoint's model as `d`, and the fake engine as its own model."""
    options = f"base_url '{endpoint.url}', api 'decisions', price_input 1, price_output 1000"
    with flightllm.connect(engine="fake") as made:
        made.execute(f"CREATE MODEL d OPTIONS (engine 'openai', model 'gpt-6-luna', {options})")
        yield made


def test_rows_in_one_request_each(con: flightllm.Connection, endpoint: Endpoint) -> None:
    """Three calls over a row are one request; the bill is that of its input, and EXPLAIN knows it beforehand."""
    query = f"SELECT id, {CALLS} FROM {ROWS} ORDER BY id"
    foreseen = con.execute(f"EXPLAIN {query}").fetchall()
    assert not endpoint.bodies
    total = next(plan for kind, plan in foreseen if kind == "total")
    rows = con.execute(query).fetchall()
    assert rows == [(1, True, "red", 7.0), (2, False, "blue", 3.0), (3, False, "green", 9.0), (4, None, None, None)]
    assert [len(body["questions"]) for body in endpoint.bodies] == [3, 3, 3]
    bill = sum(map(billed, endpoint.bodies))
    [(cost, tokens, written)] = con.execute(
        "SELECT cost, prompt_tokens, completion_tokens FROM system.queries WHERE calls > 0"
    ).fetchall()
    assert (tokens, written, round(cost * 1e6)) == (bill, 0, bill)
    calls, foretold = (int(total.split("\n")[1].split()[place]) for place in (2, 3))
    assert calls == 9
    assert foretold == pytest.approx(bill, rel=0.3)  # the tokenizer of the stand-in is unknown


def test_a_refusal_is_that_of_its_call(con: flightllm.Connection) -> None:
    """A declined question is an error of its own row and call; the other calls of the row have answers."""
    query = (
        f"SELECT ai_filter('Does it bark', t, model => 'd', on_error => 'struct') b, {CALLS} FROM {ROWS} WHERE id = 1"
    )
    [(declined, *others)] = con.execute(query).fetchall()
    assert declined["value"] is None
    assert "refused" in declined["error"]
    assert others == [True, "red", 7.0]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ("ai_gen('Say', t, model => 'd')", "writes no text"),
        ("ai_extract(t, ['name'], model => 'd')", "writes no text"),
        ("ai_classify(t, ['a', 'b'], multi => true, model => 'd')", "writes no text"),
        ("ai_score('how', t, low => 0, high => 1000, model => 'd')", "writes no text"),
        (f"ai_classify(t, {[f'l{n}' for n in range(256)]}, model => 'd')", "at most 255 options"),
    ],
)
def test_calls_without_a_decision(con: flightllm.Connection, endpoint: Endpoint, call: str, word: str) -> None:
    """A call whose answer is no decision is an error before anything is sent, in EXPLAIN too."""
    for query in (f"SELECT {call} FROM {ROWS}", f"EXPLAIN SELECT {call} FROM {ROWS}"):
        with pytest.raises(AICallError, match=word) as error:
            con.execute(query).fetchall()
        assert "model => 'NAME'" in str(error.value)
    assert not endpoint.bodies
