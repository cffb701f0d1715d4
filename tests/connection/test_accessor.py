"""`frame.ai` of pandas and polars."""

import subprocess
import sys

import pandas as pd
import polars as pl
import pytest

from flightllm.connection.accessor import FrameAI, register_accessors
from flightllm.connection.connection import Connection
from flightllm.errors import InvalidInputError

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


def test_mistakes(embedded: Connection) -> None:
    """A prompt without a column, and an unknown column, are errors that say what to write."""
    ai = FrameAI(pd.DataFrame(ROWS))
    with pytest.raises(InvalidInputError, match=r"write \{column\}"):
        ai.gen("Name it", connection=embedded)
    with pytest.raises(InvalidInputError, match="no column 'text'; its columns are id, body"):
        ai.gen("Name {text}", connection=embedded)


def test_no_import_of_libraries() -> None:
    """`import flightllm` loads no library, and gives `ai` to those that are there."""
    text = "import sys, flightllm; assert not {'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=100)
