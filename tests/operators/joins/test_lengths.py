"""EXPLAIN prices each strategy in tokens and money too: a question about a pair is longer than one about a value."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.databases import Ran, ask, open_database
from tests.operators.joins.test_ways import COUNT, answers, fill, opposite
from tests.simulated import Model, simulated

LONG = " and it goes on for a while" * 20


def costs(text: str, what: str) -> dict[str, float]:
    """Return the figures of each strategy in what EXPLAIN says."""
    found = re.search(rf"{what}(?: of each strategy, about)?: ((?:\w+ [\d.,e+-]+(?:, |$|;|\n))+)", text)
    assert found is not None, text
    parts = re.findall(r"(\w+) ([\d.,e+-]*\d)", found[1])
    return {way: float(number.replace(",", "")) for way, number in parts}


def explained(ran: Ran) -> str:
    """Return the lines of EXPLAIN."""
    return "\n".join(line["plan"] for line in ran.rows)


@pytest.mark.parametrize("price", [None, 10.0])
def test_tokens_and_money(tmp_path: Path, price: float | None) -> None:
    """The tokens are about those of the questions, and the price is that of these tokens."""
    models: dict[str, Model] = {"demo": answers({})}
    with simulated(models), closing(open_database(tmp_path, price=price)) as database:
        session = database.session()
        fill(session)
        text = explained(ask(session, "EXPLAIN " + opposite("strategy => 'map'")))
        questions, tokens = costs(text, "questions"), costs(text, "tokens")
        assert questions.keys() == tokens.keys() >= {"pairs", "map", "pivot", "embedding"}
        ran = ask(session, opposite("strategy => 'pairs'"))
        (site,) = ran.record.call_rows()
        assert tokens["pairs"] == pytest.approx(site["prompt_tokens"] + site["completion_tokens"], rel=0.05)
        assert questions["pairs"] == COUNT * COUNT == site["calls"]
        if price is None:
            assert "price: pairs" not in text
        else:
            money = costs(text, "price")
            assert money["pairs"] == pytest.approx(site["prompt_tokens"] * price / 1e6, rel=0.05)
            assert money["map"] < money["pairs"] / 5


def test_long_values(tmp_path: Path) -> None:
    """With long values, a question about a value has about half the tokens of one about a pair."""
    with simulated({"demo": answers({})}), closing(open_database(tmp_path)) as database:
        session = database.session()
        fill(session)
        long = opposite("strategy => 'map'").replace("texts a", "longs a").replace("texts b", "longs b")
        session.update(f"CREATE TABLE longs AS SELECT id, t || '{LONG}' AS t FROM texts")
        text = explained(ask(session, f"EXPLAIN {long}"))
        questions, tokens = costs(text, "questions"), costs(text, "tokens")
        assert questions["map"] == questions["pivot"] + 1
        assert tokens["map"] < 0.85 * tokens["pivot"]
