"""Whether prompts begin with the instruction or with the fields."""

import json
from pathlib import Path

import numpy as np
import pytest

from flightllm.llm.engine import PrefixCache
from flightllm.operators.layout import fields_first, reach
from flightllm.prompt_order.base import Ordering
from tests.databases import ask, open_database

CACHE = PrefixCache(16, 10_000)


def ordering(tuples: int, tokens: float, hits: float, calls: int) -> Ordering:
    """Return an ordering of tuples of so many tokens each, some of them hits."""
    return Ordering(
        np.arange(tuples), ((0,),), np.zeros(tuples, np.int32), "fixed", hits * tuples * calls, tokens * tuples * calls
    )


@pytest.mark.parametrize(
    ("tokens", "hits", "instructions", "expected"),
    [
        (300, 0, [20, 20], True),
        (300, 290, [20, 20], False),
        (300, 0, [20], False),
        (30, 0, [200, 200], False),
    ],
)
def test_choice(tokens: int, hits: int, instructions: list[float], expected: bool) -> None:
    """The fields come first where several calls would compute them anew, and the instructions are short."""
    given = ordering(1000, tokens, hits, len(instructions))
    assert fields_first(given, instructions, [1.0] * len(instructions), CACHE, 128) == expected


def test_small_cache() -> None:
    """A cache that forgets the fields before the next call reads them is no reason."""
    given = ordering(1000, 300, 0, 2)
    assert not fields_first(given, [20, 20], [1, 1], PrefixCache(16, 100), 128)
    assert not fields_first(given, [20, 20], [1, 1], None, 128)
    assert fields_first(given, [20, 20], [1, 1], PrefixCache(16, None), 128)


def test_reach() -> None:
    """Each filter before a call is taken to keep half of the rows."""
    assert reach([0, 1, 2]) == [1.0, 0.5, 0.25]


@pytest.mark.parametrize(("layout", "first"), [("auto", "a: "), ("instruction", "Sum up"), ("fields", "a: ")])
def test_prompts(tmp_path: Path, layout: str, first: str) -> None:
    """Calls of the same long fields are asked one after the other with the fields first, or as the session has it."""
    log = tmp_path / "log"
    database = open_database(tmp_path / "data", {"log_path": str(log), "cache_blocks": 100_000})
    session = database.session()
    session.update("CREATE TABLE t AS SELECT repeat(md5(value::text), 40) AS a FROM generate_series(1, 40)")
    sql = "SELECT ai_gen('Sum up', a), ai_score('How good?', a) FROM t"
    ran = ask(session, sql, layout=layout, cache="off")
    prompts = [json.loads(line)["prompt"] for line in log.read_text().splitlines()]
    assert any(prompt.startswith(first) for prompt in prompts)
    row = ran.record.row()
    shared = row["cached_tokens"] / row["prompt_tokens"]
    assert shared > 0.45 if first == "a: " else shared < 0.1
    database.close()
