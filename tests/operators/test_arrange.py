"""Rows are cut into batches, lists into columns of their elements, and prompts begin as the settings say."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.datafusion.run import Batches
from flightllm.engines.extras import EngineExtras
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.shares import Shares
from flightllm.functions.call import ELEMENT_END
from flightllm.llm.engine import Engine, PrefixCache
from flightllm.operators.arrange import (
    ArgumentColumns,
    How,
    arrange,
    elements,
    fair,
    growing_sizes,
    places,
    prompt_batches,
)
from flightllm.operators.encoded_rows import EncodedRows
from flightllm.operators.layouts import Layout
from flightllm.operators.runtime import SpooledArguments
from flightllm.prompt_order.base import Encoded
from tests.databases import ask, open_database

Row = tuple[str | None, str | None]
ROWS = st.lists(st.tuples(st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, "x", "y"])), max_size=120)
CACHE = PrefixCache(16, 10_000)


def lists(*rows: list[str] | None) -> pa.Array:
    """Return lists as they are passed."""
    return pa.array([None if row is None else ELEMENT_END.join(row) for row in rows], pa.string())


def test_elements() -> None:
    """Each place has a column; a list that ends before has NULL there, an empty one an empty text in the first."""
    given = lists(["a", "b", "c"], None, ["d"], [], ["e", "", "f"])
    assert places(given) == 3
    assert [column.to_pylist() for column in elements(given, 3)] == [
        ["a", None, "d", "", "e"],
        ["b", None, None, None, ""],
        ["c", None, None, None, "f"],
    ]


@pytest.mark.parametrize("rows", [(), (None,), ([],), (["a"], None)])
def test_one_place_at_least(rows: tuple[list[str] | None, ...]) -> None:
    """No list is longer than one element."""
    assert places(lists(*rows)) == 1
    assert [len(column) for column in elements(lists(*rows), 1)] == [len(rows)]


def test_a_slice_has_its_own_rows() -> None:
    """Offsets of a slice do not begin at zero."""
    given = lists(["a", "b"], ["c"], ["d", "e"])[1:]
    assert [column.to_pylist() for column in elements(given, 2)] == [["c", "d"], [None, "e"]]


def test_long_lists_keep_their_rest_together() -> None:
    """The last place takes what is left, as a list."""
    given = lists([str(number) for number in range(100)])
    assert places(given) == 64
    columns = [column.to_pylist()[0] for column in elements(given, 64)]
    assert columns[:3] == ["0", "1", "2"]
    assert columns[-1].split(ELEMENT_END) == [str(number) for number in range(63, 100)]


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Make a batch of two text columns and the row's number."""
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(range(len(rows)), pa.int64())], names=["a", "b", "n"])


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Sort rows, NULL first."""
    return sorted(rows, key=lambda row: [(value is not None, value or "") for value in row])


@given(ROWS, st.integers(1, 40), st.integers(0, 5))
def test_units(rows: list[Row], size: int, skipped: int) -> None:
    """Each row is in one batch, its tuple has its own values, and neighbouring tuples differ."""
    rows = ordered(rows)
    whole = batch([("z", "z")] * skipped + rows).slice(skipped)
    parts: Iterator[pa.RecordBatch] = (whole.slice(start, size) for start in range(0, len(rows), size))
    made = list(prompt_batches(parts, [0, 1], growing_sizes()))
    assert [n - skipped for u in made for n in u.rows.column(2).to_pylist()] == list(range(len(rows)))
    assert [u.tuples[index] for u in made for index in u.tuple_of_row] == rows
    assert all(a != b for u in made for a, b in zip(u.tuples, u.tuples[1:], strict=False))


def test_growing() -> None:
    """Batches begin small and double up to a limit, so that first rows come soon."""
    made = list(prompt_batches(iter([batch([(str(n), None) for n in range(3000)])]), [0], growing_sizes()))
    assert [len(u.tuples) for u in made][:7] == [16, 32, 64, 128, 256, 512, 512]


def nothing(sql: str) -> Batches:
    """Refuse to run SQL."""
    yield from ()
    pytest.fail(f"rows in memory need no SQL, but this ran: {sql}")


@pytest.mark.parametrize("dedup", [True, False])
def test_repeated_texts_are_cut(dedup: bool) -> None:
    """Rows of few texts have batches of a part of the room: they say where rows of one text go on, and lack no row."""
    schema = pa.schema([("a", pa.string()), ("n", pa.int64())])
    rows = EncodedRows(schema, (0,), room=1 << 20)
    texts = ["long " * 200, "short", None, "other " * 200]
    given = [texts[0 if n % 4 == 1 else n % 8 // 2] for n in range(8_000)]
    for start in range(0, len(given), 100):
        part = [pa.array(given[start : start + 100], pa.string()), pa.array(range(start, start + 100), pa.int64())]
        rows.add(pa.RecordBatch.from_arrays(part, schema=schema))
        assert rows.nbytes < 1 << 20
    rows.seal()
    assert rows.row_bytes()[:8].tolist() == [8 + len(text or "") for text in given[:8]]
    how = How("auto", dedup, FakeEngine("fake", 8, FakeOptions()), 8, 0.0, growing_sizes())
    columns = ArgumentColumns((0,), ("a",), (1,))
    made = list(arrange(SpooledArguments(rows.rows, rows), "t", schema, columns, how, nothing).batches())
    assert max(one.rows.nbytes for one in made) < 2 * rows.most_taken
    found = [pair for one in made for pair in zip(one.rows["a"].to_pylist(), one.rows["n"].to_pylist(), strict=True)]
    assert sorted(found, key=lambda pair: int(pair[1])) == list(zip(given, range(8_000), strict=True))
    for one, after in pairwise(made):
        assert [one.tuples[index] for index in one.tuple_of_row] == [(text,) for text in one.rows["a"].to_pylist()]
        assert one.goes_on == (dedup and one.tuples[-1] == after.tuples[0])
        assert len(one.tuples) == 1 or not one.goes_on
    assert any(one.goes_on for one in made) == dedup
    assert not made[-1].goes_on


def test_no_arguments() -> None:
    """Without argument columns all rows of a batch have one tuple."""
    (prompt_batch,) = prompt_batches(iter([batch([("a", None), ("b", None)])]), [], growing_sizes())
    assert prompt_batch.tuples in ([()], [])
    assert prompt_batch.tuple_of_row.tolist() == [0, 0]


@pytest.mark.parametrize(("layout", "first"), [("auto", "Sum up"), ("instruction", "Sum up"), ("fields", "a: ")])
def test_prompts(tmp_path: Path, layout: str, first: str) -> None:
    """Calls of the same long fields begin with the instruction, or with the fields if the session says so."""
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


class _Shared(EngineExtras):
    """The part of an engine that counts its callers."""

    def __init__(self) -> None:
        self.shares = Shares(8)

    @property
    def callers(self) -> int:
        """Return how many callers have a share."""
        return self.shares.callers


def test_each_running_call_takes_an_equal_part() -> None:
    """Beside one call and then two, a new one has a half and a third; at their end it has the whole."""
    shared = _Shared()
    engine = cast("Engine", shared)
    assert fair(900, engine) == 900
    open_shares = []
    for callers in (1, 2):
        open_shares.append(shared.shares.open(lambda: None))
        assert fair(900, engine) == 900 // (callers + 1)
    for share in open_shares:
        share.close()
    assert fair(900, engine) == 900


def test_there_is_always_a_part() -> None:
    """A part is never nothing, and an unknown size stays unknown."""
    shared = _Shared()
    shared.shares.open(lambda: None)
    assert fair(1, cast("Engine", shared)) == 1
    assert fair(None, cast("Engine", shared)) is None


def test_an_engine_without_a_count_is_ours() -> None:
    """An engine that does not count its callers counts as free."""
    assert fair(5, cast("Engine", object())) == 5


@pytest.mark.parametrize(("length", "exact"), [(40, True), (20_000, False)])
def test_a_choice_by_price_counts_each_value(length: int, exact: bool) -> None:
    """Few values have their own tokens where a layout is chosen by its price; many have the mean tokens of a text."""

    class Words(FakeEngine):
        def count_tokens(self, text: str) -> int:
            return len(text.split())

    schema = pa.schema([("a", pa.string())])
    rows = EncodedRows(schema, (0,), room=1 << 22)
    texts = [("ab " * (8 * length))[:-1], ("abcde " * (4 * length))[:-1]]
    rows.add(pa.RecordBatch.from_arrays([pa.array(texts)], schema=schema))
    rows.seal()
    seen: list[Encoded] = []

    def choose(encoded: Encoded, columns: Sequence[tuple[int, ...]], *, orders: bool) -> Layout:
        del columns, orders
        seen.append(encoded)
        return Layout()

    how = How(
        "auto", dedup=True, engine=Words("w", 8, FakeOptions()), window=8, shared_tokens=0.0, size=growing_sizes()
    )
    columns = ArgumentColumns((0,), ("a",), (1,))
    arrange(SpooledArguments(rows.rows, rows), "t", schema, columns, replace(how, choose=choose), nothing)
    weights = seen[0].weights[0].tolist()
    counted = [8 * length + 1, 4 * length + 1]
    assert (sorted(weights) == sorted(counted)) is exact
    assert sum(weights) == pytest.approx(sum(counted), rel=0.1)
