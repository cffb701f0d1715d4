"""The bill of queries at endpoints that charge for their caches by OpenAI's published rules."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flightllm.session.session import Session
from tests.billing_endpoint import Running
from tests.databases import ask
from tests.execution.test_prices_of_providers import PROVIDERS, QUERIES, price, running

pytest.importorskip("genai_prices", reason="the extra 'openai' is not installed")

NEW, OLD = "openai 5.6", "openai"
SMALL = {
    "short": "SELECT ai_gen('Say it briefly.', review) FROM t LIMIT 8",
    "long rules": QUERIES["gen, long rules, limit"].replace("LIMIT 30", "LIMIT 8"),
    "long field": f"{QUERIES['join, long field']} AND id <= 12",
    "different long fields": "SELECT ai_gen('Does the guide tell it?', guide) FROM g",
}


@contextmanager
def opened(name: str, folder: Path, **changed: Any) -> Iterator[tuple[Session, Running]]:
    """Open a session with tables, whose model is at an endpoint that bills as the provider does."""
    provider, model, billing = PROVIDERS[name]
    with running(provider, model, replace(billing, **changed), folder) as found:
        yield found


def bill_of(session: Session, endpoint: Running, sql: str, name: str = NEW) -> tuple[float, dict[str, int]]:
    """Run a query; return its bill as a part of the bill without any cache, and its tokens."""
    billing, before = PROVIDERS[name][2], endpoint.bill()
    ask(session, sql, cache="off")
    after = endpoint.bill()
    tokens = [new - old for new, old in zip(after["tokens"], before["tokens"], strict=True)]
    none = (tokens[0] * billing.input + tokens[3] * billing.output) / 1e6
    counted = dict(zip(("prompts", "found", "stored", "answers"), tokens, strict=True))
    return (after["dollars"] - before["dollars"]) / none, counted


def test_new_rules(tmp_path: Path) -> None:
    """Short prompts and lone fields are never stored; a shared instruction or field is stored once, and then read."""
    with opened(NEW, tmp_path) as (session, endpoint):
        for label in ("short", "different long fields"):
            part, tokens = bill_of(session, endpoint, SMALL[label])
            assert part == pytest.approx(1.0)
            assert tokens["stored"] == 0
        for label, limit in (("long rules", 0.35), ("long field", 0.5)):
            predicted, before = price(session, SMALL[label]), endpoint.dollars
            part, tokens = bill_of(session, endpoint, SMALL[label])
            assert part < limit
            assert predicted == pytest.approx(endpoint.dollars - before, rel=0.1)
            starts = 3 if label == "long field" else 1
            assert tokens["stored"] < starts * 1.1 * tokens["prompts"] / (12 if starts == 3 else 8)
            warm, again = bill_of(session, endpoint, SMALL[label])
            assert (warm < part, again["stored"]) == (True, 0)


def test_calls_with_different_schemas(tmp_path: Path) -> None:
    """Calls over one long field store nothing where the schemas before the field tell their prompts apart."""
    calls = "ai_gen('Does it fit?', guide) AS a, ai_classify(guide, ['new', 'old']) AS b, ai_score('Good?', guide) AS c"
    with opened(NEW, tmp_path) as (session, endpoint):
        session.update("SET flightllm.layout = 'fields'")
        sql = f"SELECT {calls} FROM g"
        predicted, before = price(session, sql), endpoint.dollars
        part, tokens = bill_of(session, endpoint, sql)
        assert part == pytest.approx(1.0)
        assert tokens["stored"] == 0
        assert predicted == pytest.approx(endpoint.dollars - before, rel=0.1)


@pytest.mark.parametrize(
    ("changed", "most"),
    [
        ({"refuses": "prompt_cache_options"}, 1.25),
        pytest.param({"refuses": "prompt_cache_key"}, 0.35, marks=pytest.mark.slow),
        pytest.param({"texts_only": True}, 1.0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_an_endpoint_that_refuses_a_key(changed: dict[str, Any], most: float, tmp_path: Path) -> None:
    """A key that the endpoint does not know costs no row; without the choice of marks, the endpoint stores all."""
    with opened(NEW, tmp_path, **changed) as (session, endpoint):
        part, tokens = bill_of(session, endpoint, SMALL["long rules"])
        assert tokens["answers"] > 0
        assert part <= most + 1e-9
        sql = SMALL["long rules"].replace("Thank", "Greet")
        predicted, before = price(session, sql), endpoint.dollars
        bill_of(session, endpoint, sql)
        assert predicted == pytest.approx(endpoint.dollars - before, rel=0.05)


@pytest.mark.slow
def test_answers_are_known(tmp_path: Path) -> None:
    """One new row beside known ones stores nothing for nobody."""
    with opened(NEW, tmp_path) as (session, endpoint):
        sql = "SELECT ai_gen('Does the text fit the guide?', guide, review) FROM t JOIN g ON t.kind = g.kind WHERE id "
        ask(session, f"{sql} IN (3, 6)")
        stored = endpoint.bill()["tokens"][2]
        ask(session, f"{sql} IN (3, 6, 4)")  # another guide, for one row alone
        assert endpoint.bill()["tokens"][2] == stored


@pytest.mark.slow
def test_old_rules(tmp_path: Path) -> None:
    """Before GPT-5.6, storing is free: the bill is below that without a cache where a start is long enough."""
    with opened(OLD, tmp_path) as (session, endpoint):
        assert bill_of(session, endpoint, SMALL["short"], OLD)[0] == pytest.approx(1.0)
        assert bill_of(session, endpoint, SMALL["long field"], OLD)[0] < 0.5


def test_explain(tmp_path: Path) -> None:
    """EXPLAIN has the tokens that are stored for a fee, the bill without a cache, and the rules."""
    with opened(NEW, tmp_path) as (session, _):
        [row] = ask(session, f"EXPLAIN (FORMAT json) {SMALL['long field']}").rows
        document = json.loads(row["plan"])
        total = document["total"]["predicted"]
        assert total["written_tokens"] > 3_000
        assert total["cached_tokens"] > 2 * total["written_tokens"]
        assert total["price"] < 0.5 * total["price_without_cache"]
        [rules] = document["caches"].values()
        assert rules.startswith("prompts from 1,024 tokens, read 0.1 x, write 1.25 x, kept 30 min")
        lines = {row["plan_type"]: row["plan"] for row in ask(session, f"EXPLAIN {SMALL['long field']}").rows}
        assert rules in lines["cache"]
        assert "without a cache it is" in lines["cache"]


@pytest.mark.slow
def test_layout_by_price(tmp_path: Path) -> None:
    """With `auto`, the fields come first where several calls read one long field; otherwise the instruction does."""
    calls = "SELECT ai_gen('Does it fit?', guide) AS a, ai_gen('Who wrote the guide?', guide) AS b FROM g"
    with opened(NEW, tmp_path) as (session, endpoint):
        assert bill_of(session, endpoint, calls)[0] == pytest.approx(1.0)
        session.update("SET flightllm.layout = 'auto'")
        behind = SMALL["long field"].replace("guide, review", "review, guide")
        assert "guide, review" in SMALL["long field"]
        for sql, layout in ((calls, "fields first"), (SMALL["long rules"], "instruction first"), (behind, None)):
            [row] = ask(session, f"EXPLAIN (FORMAT json) {sql}").rows
            document = json.loads(row["plan"])
            found = [call for one in document["operators"] for call in one["calls"]]
            assert layout is None or {call["layout"] for call in found} == {layout}
            [saved] = [one["saved"] for one in document["savings"] if one["name"] == "layout"]
            assert (saved["price"] > 0) is (sql != SMALL["long rules"])
            assert all("chosen by price" in call["layout_reason"] for call in found)
            assert layout is not None or found[0]["field_orders"][0]["fields"] == ["guide", "review"]
            before = endpoint.dollars
            part, _ = bill_of(session, endpoint, sql)
            assert part < 0.75
            assert document["total"]["predicted"]["price"] == pytest.approx(endpoint.dollars - before, rel=0.1)
