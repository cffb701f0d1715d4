"""The layout of prompts by price."""

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.config import Config, EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.extras import EngineExtras
from flightllm.functions.call import AICall
from flightllm.llm.engine import Engine, Parameters, PrefixCache
from flightllm.llm.prompt_formats import INSTRUCT
from flightllm.operators.layouts import Layout, LayoutChooser
from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.ordering import encode
from flightllm.session.database import Database

NEW = PrefixCache(
    1, None, at_once=False, floor_tokens=1_024, fee_from=1_024, breakpoints=True, read=0.1, write=1.25, seconds=1_800
)
OLD = PrefixCache(128, None, at_once=False, floor_tokens=1_024, read=0.1, lead_characters=4_096)


@dataclass
class Hosted(EngineExtras):
    """A fake engine with the cache of a provider."""

    engine: Engine
    prefix_cache: PrefixCache | None
    exact: bool = False

    @property
    def counts_exactly(self) -> bool:
        """Return whether the counts of tokens stand for a tokenizer's."""
        return self.exact

    def count_tokens(self, text: str) -> int:
        """Count four characters as a token."""
        return len(text) // 4


def call(instruction: str, *fields: str) -> AICall:
    """Return a call that writes a text."""
    return AICall(
        "", "ai_gen", instruction, instruction, fields=fields, required=frozenset({0}), parameters=Parameters(),
        output=pa.string(), parse=str, on_error="fail",
    )  # fmt: skip


def table(*columns: list[str]) -> Encoded:
    """Return the tuples of columns; four characters are a token."""
    given = [pa.chunked_array([pa.array(column, pa.large_string())]) for column in columns]
    return encode(given, ["f"] * len(columns), [1] * len(columns), 4.0)[0]


def chosen(cache: PrefixCache | None, calls: list[AICall], encoded: Encoded, *, orders: bool = True) -> Layout:
    """Return the layout for calls that read all columns."""
    engine: Engine = Hosted(create_engine(EngineConfig("fake", "demo", 1, {})), cache)  # type: ignore[assignment]
    columns = [tuple(range(len(one.fields))) for one in calls]
    return LayoutChooser(engine, calls, INSTRUCT).choose(encoded, columns, orders=orders)


GUIDES = [letter * 8_000 for letter in "abc"]
TEXTS = [f"text {number}" for number in range(12)]


@pytest.mark.parametrize("cache", [NEW, OLD], ids=["marks", "prefixes"])
def test_several_calls(cache: PrefixCache) -> None:
    """Calls over one long field share it where it comes first; one call over distinct fields has nothing to share."""
    calls = [call("Who wrote it?", "guide"), call("Is it fair?", "guide")]
    assert chosen(cache, calls, table(GUIDES)).fields_first
    assert chosen(cache, calls, table(GUIDES)).columns is None
    long = call("Judge it by these rules. " * 400, "guide")
    assert not chosen(cache, [long], table(TEXTS)).fields_first


@pytest.mark.parametrize(("cache", "first"), [(NEW, False), (OLD, True)], ids=["with a fee", "free"])
def test_calls_in_turns(cache: PrefixCache, first: bool) -> None:
    """A later filter reads the field of an earlier one for some rows: that surely pays where storing is free."""
    calls = [call("Who wrote it?", "guide"), call("Is it fair?", "guide")]
    engine: Engine = Hosted(create_engine(EngineConfig("fake", "demo", 1, {})), cache)  # type: ignore[assignment]
    chooser = LayoutChooser(engine, calls, INSTRUCT, turns=[0, 1])
    assert chooser.choose(table(GUIDES), [(0,), (0,)]).fields_first is first


def test_a_tokenizer_needs_no_margin() -> None:
    """A start that passes the floor by few tokens counts where they are counted, and not where they are estimated."""
    fields = [f"{letter * 4_030}" for letter in "abc" for _ in range(4)]
    found = {}
    for exact in (False, True):
        engine = Hosted(create_engine(EngineConfig("fake", "demo", 1, {})), OLD)
        engine.exact = exact
        calls = [call("Name the author.", "a", "b")]
        encoded = table(fields, [f"question {number}" for number in range(12)])
        given: Engine = engine  # type: ignore[assignment]
        found[exact] = LayoutChooser(given, calls, INSTRUCT).choose(encoded, [(0, 1)]).why
    assert found[False] != found[True]


def test_order_of_fields() -> None:
    """A long field that rows share comes first, if the order of the fields can change."""
    encoded = table(TEXTS, [GUIDES[number % 3] for number in range(12)])
    asked = [call("Does it fit?", "text", "guide")]
    assert chosen(NEW, asked, encoded).columns == (1, 0)
    assert chosen(NEW, asked, encoded, orders=False).columns is None
    several = table(*([*TEXTS] for _ in range(5)), [GUIDES[number % 3] for number in range(12)])
    many = [call("Does it fit?", "a", "b", "c", "d", "e", "guide")]
    found = chosen(NEW, many, several).columns
    assert found is not None
    assert found[0] == 5


def test_near_the_floor() -> None:
    """A layout whose shared start could miss the floor, which the other layout passes, is not chosen."""
    rules = call("Judge it by these rules. " * 24, "guide", "text")
    encoded = table([letter * 3_900 for letter in "abc" for _ in range(4)], TEXTS)
    assert not chosen(OLD, [rules], encoded, orders=False).fields_first


@pytest.mark.parametrize("cache", [None, PrefixCache(16, 1_000), replace(NEW, share=0.0, breakpoints=False)], ids=str)
def test_other_caches(cache: PrefixCache | None) -> None:
    """Engines of one's own keep the instruction first; without hits, only the length of the prompts counts."""
    calls = [call("Who wrote it?", "guide"), call("Is it fair?", "guide")]
    found = chosen(cache, calls, table(GUIDES))
    assert found.columns is None
    assert cache is None or not cache.hosted or "chosen by price" in found.why


def test_examples() -> None:
    """Calls with examples that calibrate them keep their layout."""
    calls = [replace(call("Who wrote it?", "guide"), by_rows=True), call("Is it fair?", "guide")]
    found = chosen(NEW, calls, table(GUIDES))
    assert not found.fields_first
    assert "examples" in found.why


def test_rows_that_share_a_request(tmp_path: Path) -> None:
    """The user's number of rows in a request holds: the layout does not end it by putting the fields first."""
    options = {"base_url": "http://127.0.0.1:9", "api_key_env": ""}  # EXPLAIN asks nothing
    engine = EngineConfig("anthropic", "claude-haiku-4-5", options=options)
    with closing(Database.open(Config(engine=engine, data_folder=tmp_path))) as database:
        database.session().update("CREATE TABLE t AS SELECT 'text ' || value AS x FROM generate_series(1, 48)")
        sql, told = "EXPLAIN SELECT ai_classify(x, ['a', 'b', 'c']) AS a FROM t", dict[str, str]()
        for rows in ("off", "8"):
            settings = {"layout": "auto", "rows_per_request": rows}
            told[rows] = str(
                [batch.to_pylist() for batch in database.session().execute(sql, settings=settings).batches]
            )
    assert "each begins with the fields" in told["off"]
    assert "up to 8 rows in a request" in told["8"]
    assert "chosen because several rows share a request" in told["8"]
