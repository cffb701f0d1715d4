"""`frame.ai` of pandas and polars."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pandas as pd
import polars as pl
import pytest

import flightllm.connection.connect
from flightllm.connection import accessor
from flightllm.connection.accessor import FrameAI, register_accessors
from flightllm.connection.connection import Connection
from flightllm.errors import InvalidInputError, UnsupportedError

ROWS = {"id": [7, 8, 9], "body": ["it's late", "{odd}", None]}


def test_pandas(embedded: Connection) -> None:
    """Rows keep their index and their order; the answers are those of SQL."""
    register_accessors()
    frame = pd.DataFrame(ROWS, index=["x", "y", "y"])
    ai = frame.ai
    assert isinstance(ai, FrameAI)
    named = ai.gen("Name {body} of {id}", connection=embedded)
    assert named.index.tolist() == ["x", "y", "y"]
    embedded.register("rows", frame)
    expected = embedded.sql("SELECT ai_gen('Name {body} of {id}', body, id) FROM rows ORDER BY id").fetchall()
    assert named.astype(object).where(named.notna(), None).tolist() == [one for (one,) in expected]
    kept = ai.filter("Is {body} late?", connection=embedded)
    chosen = embedded.sql("SELECT id FROM rows WHERE ai_filter('Is {body} late?', body) ORDER BY id").fetchall()
    assert kept["id"].tolist() == [one for (one,) in chosen]
    assert set(ai.classify("body", ["it's", "b"], connection=embedded).dropna()) <= {"it's", "b"}
    assert len(ai.score("How late is {body}?", connection=embedded)) == 3


def test_polars(embedded: Connection) -> None:
    """Frames of polars give frames and series of polars."""
    register_accessors()
    ai = FrameAI(pl.DataFrame(ROWS))
    assert isinstance(ai.filter("Is {body} late?", connection=embedded), pl.DataFrame)
    labels = ai.classify("body", {"a": "early", "b": "late"}, connection=embedded)
    assert isinstance(labels, pl.Series)
    assert len(labels) == 3
    assert hasattr(pl.DataFrame(ROWS), "ai")


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(ROWS, index=["x", "y", "y"]), pl.DataFrame(ROWS)], ids=["pandas", "polars"]
)
def test_all_rows_together(embedded: Connection, frame: Any) -> None:
    """Calls over all rows give what SQL gives; rows without a rank come last."""
    ai = FrameAI(frame)
    embedded.register("rows", pd.DataFrame(ROWS))
    told = ai.agg("body", "What do they say?", connection=embedded)
    assert [(told,)] == embedded.sql("SELECT ai_agg(body, 'What do they say?') FROM rows").fetchall()
    for name in ("topic", "dedup"):
        found = getattr(ai, name)("body", connection=embedded)
        expected = embedded.sql(f"SELECT ai_{name}(body) FROM rows ORDER BY id").fetchall()
        assert [None if pd.isna(one) else one for one in found] == [one for (one,) in expected]
    ranked = ai.rank("most urgent first: {body}", connection=embedded)
    ordered = "SELECT id FROM rows ORDER BY ai_rank('most urgent first: {body}', body), id"
    assert ranked["id"].to_list() == [one for (one,) in embedded.sql(ordered).fetchall()]
    assert len(ai.rank("most urgent first: {body}", 1, connection=embedded)) == 1
    assert FrameAI(frame[:0]).agg("body", "What do they say?", connection=embedded) is None


def test_mistakes(embedded: Connection) -> None:
    """A prompt without a column, and an unknown column, are errors that say what to write."""
    ai = FrameAI(pd.DataFrame(ROWS))
    with pytest.raises(InvalidInputError, match=r"write \{column\}"):
        ai.gen("Name it", connection=embedded)
    with pytest.raises(InvalidInputError, match="no column 'text'; its columns are id, body"):
        ai.gen("Name {text}", connection=embedded)
    with pytest.raises(InvalidInputError, match=r"the labels are one text: write a list"):
        ai.classify("body", "refund", connection=embedded)
    wrong: Any = "tickets.csv"
    with pytest.raises(InvalidInputError, match="give one of flightllm"):
        ai.gen("Name {body}", connection=wrong)


def test_other_columns_do_not_matter(embedded: Connection) -> None:
    """A column that the prompt does not name is not sent, so its values can be of any kind."""
    ai = FrameAI(pd.DataFrame({"body": ["a", "b"], "mixed": [1, "x"]}))
    assert len(ai.gen("Name {body}", connection=embedded)) == 2
    with pytest.raises(InvalidInputError, match="'mixed'"):
        ai.gen("Name {mixed}", connection=embedded)


def test_no_import_of_libraries() -> None:
    """`import flightllm` loads no library, and gives `ai` to those that are there."""
    text = "import sys, flightllm; assert not {'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=100)


@pytest.mark.parametrize(
    ("prompt", "fields"),
    [
        ('Return {"a": 1} for {body}', "body"),
        ("Keep {{x}} of {body}", "body"),
        ("Name {BODY} and { id }", "body, id"),
        ("Name {body} and {Body}", "body"),
        ("Name {1}", '"1"'),
    ],
)
def test_prompts_as_in_sql(embedded: Connection, prompt: str, fields: str) -> None:
    """JSON and doubled braces name no column, and a name matches without regard to case, as in SQL."""
    frame = pd.DataFrame(ROWS)
    if "{1}" in prompt:
        frame = frame.rename(columns={"body": 1})
    embedded.register("rows", frame)
    expected = embedded.sql(f"SELECT ai_gen($1, {fields}) FROM rows ORDER BY id", [prompt]).fetchall()
    answers = FrameAI(frame).gen(prompt, connection=embedded)
    assert answers.astype(object).where(answers.notna(), None).tolist() == [one for (one,) in expected]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Connection]]:
    """Let calls that name no connection open the fake engine, and return the connections that they open."""
    made: list[Connection] = []
    connect = flightllm.connection.connect.connect

    def noted() -> Connection:
        made.append(connect(engine="fake"))
        return made[-1]

    monkeypatch.setattr(flightllm.connection.connect, "connect", noted)
    monkeypatch.setattr(accessor, "_own", accessor._OwnConnection())
    yield made
    for connection in made:
        connection.close()


def test_one_connection_for_all_threads(opened: list[Connection]) -> None:
    """Threads that begin together share one connection, and a closed connection is replaced."""
    together = Barrier(4)

    def ask(_: int) -> int:
        together.wait(60)
        return len(FrameAI(pd.DataFrame(ROWS)).gen("Name {body}"))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [3] * 4
    assert len(opened) == 1
    opened[0].close()
    FrameAI(pd.DataFrame(ROWS)).gen("Name {body}")
    assert len(opened) == 2


def test_no_connection_of_another_process(opened: list[Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was forked does not take the connection of its parent."""
    ask = FrameAI(pd.DataFrame(ROWS)).gen
    ask("Name {body}")
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(UnsupportedError, match=f"was forked from process {process}"):
        ask("Name {body}")
    assert len(opened) == 1
