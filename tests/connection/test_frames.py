"""Frames of Python's libraries as tables."""

import datetime as dt
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from flightllm.connection.connection import Connection
from flightllm.connection.frames import is_frame, reader_of
from flightllm.errors import InvalidInputError


def test_types_of_pandas(embedded: Connection) -> None:
    """Categories, nullable numbers, time zones and missing values keep their meaning; an index is left out."""
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(["a", "b", None]),
            "count": pd.array([1, None, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "at": pd.to_datetime(["2024-01-02 03:04:05", "", "2024-05-06 00:00:00"]).tz_localize("Europe/Berlin"),
            "text": ["x", None, np.nan],
            "ratio": [0.5, np.nan, 2.0],
        },
        index=pd.Index([7, 8, 9], name="key"),
    )
    table = embedded.register("t", frame).sql("SELECT * FROM t").arrow()
    assert table.column_names == ["kind", "count", "flag", "at", "text", "ratio"]
    assert table["kind"].to_pylist() == ["a", "b", None]
    assert table["count"].to_pylist() == [1, None, 3]
    assert table["flag"].to_pylist() == [True, None, False]
    assert table["text"].to_pylist() == ["x", None, None]
    assert table["ratio"].to_pylist() == [0.5, None, 2.0]
    first = table["at"].to_pylist()[0]
    assert first.astimezone(dt.UTC) == dt.datetime(2024, 1, 2, 2, 4, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pd.DataFrame({"x": [1, "a", [3]]}), "column 'x' .* several types"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns 'a'"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])), "several levels"),
        (pd.DataFrame({"z": [1 + 2j]}), "column 'z'"),
        (pd.DataFrame(), "no columns"),
        (pl.DataFrame(), "no columns"),
        (pa.table({}), "no columns"),
        ({"a": [1], "b": [1, 2]}, "cannot become a table"),
        ([], "type list"),
        ("text", "type str"),
        (pd.DataFrame, "type type"),
    ],
    ids=str,
)
def test_what_is_no_table(embedded: Connection, frame: object, problem: str) -> None:
    """A frame that cannot be a table is an error that names the reason."""
    with pytest.raises(InvalidInputError, match=problem):
        embedded.register("t", frame)


@pytest.mark.parametrize(
    "frame",
    [pd.DataFrame({"a": []}), pl.DataFrame({"a": []}), pa.table({"a": pa.array([], pa.int64())})],
    ids=["pandas", "polars", "arrow"],
)
def test_frames_without_rows(embedded: Connection, frame: object) -> None:
    """A frame without rows is a table without rows."""
    assert embedded.register("t", frame).sql("SELECT count(a) FROM t").fetchall() == [(0,)]


def test_types_of_polars(embedded: Connection) -> None:
    """Categories, lists and structs of polars come back."""
    frame = pl.DataFrame(
        {"kind": pl.Series(["a", "b"], dtype=pl.Categorical), "list": [[1], []], "struct": [{"x": 1}, {"x": 2}]}
    )
    rows = embedded.register("t", frame).sql("SELECT * FROM t").arrow().to_pylist()
    assert rows == [{"kind": "a", "list": [1], "struct": {"x": 1}}, {"kind": "b", "list": [], "struct": {"x": 2}}]


def test_names_that_are_no_texts() -> None:
    """Numbers as names of columns become texts."""
    assert reader_of(pd.DataFrame([[1, 2]]), "t").schema.names == ["0", "1"]


def test_what_variables_can_be() -> None:
    """Only frames are read by their names, not lists and dicts."""
    assert is_frame(pd.DataFrame())
    assert is_frame(pl.LazyFrame())
    assert not any(map(is_frame, ([], {}, "text", pd, pd.DataFrame, None)))


class Thing:
    """A value that no table can have."""


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"id": [1], "odd": pl.Series([Thing()], dtype=pl.Object)}),
        pl.DataFrame({"id": [1], "odd": pl.Series([1], dtype=pl.Int128)}),
    ],
    ids=["objects", "Int128"],
)
def test_columns_of_polars_that_are_no_columns(embedded: Connection, frame: pl.DataFrame) -> None:
    """A column of objects, or of numbers that Arrow lacks, is an error that names the column and its type."""
    with pytest.raises(InvalidInputError, match=r"column 'odd' \((Object|Int128)\)"):
        embedded.register("t", frame)


def test_rows_with_different_columns(embedded: Connection) -> None:
    """A row without a column has NULL there, wherever the column is first seen."""
    rows = embedded.register("t", [{"a": 1}, {"a": 2, "b": 3}, {"c": "x"}]).sql("SELECT * FROM t").fetchall()
    assert rows == [(1, None, None), (2, 3, None), (None, None, "x")]


def test_series_and_results(embedded: Connection) -> None:
    """A series is a table of one column, and an earlier result a table, by variable and by `register`."""
    numbers = pd.Series([1, 2], name="n")
    nameless = pl.Series([3])
    earlier = embedded.sql("SELECT 5 AS five")
    found = embedded.sql("SELECT n, nameless, five FROM numbers, nameless, earlier ORDER BY n").fetchall()
    assert found == [(1, 3, 5), (2, 3, 5)]
    assert len(numbers) == len(nameless) + len(earlier)
    assert embedded.register("t", pd.Series([4])).register("u", earlier).sql("SELECT t, five FROM t, u").fetchall() == [
        (4, 5)
    ]


def test_periods_uuids_and_intervals(embedded: Connection) -> None:
    """Types of pandas that Arrow has as numbers, bytes or structs are texts in SQL and in prompts."""
    frame = pd.DataFrame(
        {"p": pd.period_range("2024-01", periods=2, freq="M"), "i": pd.interval_range(0, 2), "u": [UUID(int=1), None]}
    )
    frame.loc[1, "p"] = pd.NaT
    embedded.register("spans", frame)
    rows = embedded.sql("SELECT p, i, u FROM spans").fetchall()
    assert rows == [("2024-01", "(0, 1]", str(UUID(int=1))), (None, "(1, 2]", None)]
    assert embedded.sql("SELECT p FROM spans WHERE u = ?", [UUID(int=1)]).fetchall() == [("2024-01",)]
    with pytest.raises(InvalidInputError, match="'n' has a whole number of more than 64 bits"):
        embedded.register("big", pd.DataFrame({"n": [2**70, 1]}))


def test_frames_of_rows_to_label(embedded: Connection) -> None:
    """The rows to label can come from a variable, in SQL and in a text with SQL."""
    words = ["win money", "see you"]
    labelled = pd.DataFrame({"t": [f"{words[at % 2]} {at}" for at in range(40)], "label": [True, False] * 20})
    embedded.register("taught", labelled).sql("CREATE TABLE known AS SELECT * FROM taught").fetchall()
    embedded.sql("CREATE FILTER spam AS ai_filter('Spam? {t}', t) FIT ON known WITH (features = 'model')").fetchall()
    unknown = pd.DataFrame({"t": ["win a car", "see me"]})
    for written in ("'SELECT t FROM unknown'", "(SELECT t FROM unknown)", "unknown"):
        found = embedded.sql(f"SELECT t FROM ai_next_labels('spam', {written})").fetchall()
        assert sorted(found) == [(one,) for one in sorted(unknown["t"])]


@pytest.mark.filterwarnings("ignore:the filter answers")  # the model is random
def test_labels(embedded: Connection) -> None:
    """FIT ON and labels => take a frame by the name of its variable, and a missing label is no label."""
    words = ("win money now", "free money", "lunch today", "see you")
    call = "ai_filter('Is {t} spam?', t)"
    lab = pd.DataFrame({"t": [f"{words[at % 4]} {at}" for at in range(80)]})
    lab["label"] = lab.t.str.contains("money").astype(float)
    lab.loc[3, "label"] = None
    with pytest.warns(UserWarning, match="answers Yes to all 41 rows that judge, so it tells nothing apart: precision"):
        embedded.execute(f"CREATE FILTER spam AS {call} FIT ON lab WITH (features = 'model')")
    [(labels, query)] = embedded.sql("SELECT labels, fit_on FROM system.filters").fetchall()
    assert (labels, query) == (79, 'SELECT * FROM pg_temp."lab" AS "lab"')
    with pytest.warns(UserWarning, match="tells nothing apart"):
        embedded.execute("ALTER FILTER spam REFIT")
    found = embedded.sql(f"SELECT count(*) FROM lab WHERE {call[:-1]}, labels => 'lab') IS NOT NULL").fetchall()
    assert found == [(80,)]
