"""Times of the day: parameters, frames and files compare with columns of the type TIME."""

import datetime as dt
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flightllm
from flightllm.connection.connection import Connection
from tests.connection.conftest import fake

AT = dt.time(10, 30)
KINDS = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]


def test_parameters(both: Connection) -> None:
    """A time of each unit is compared, listed and stored, as the type TIME is."""
    both.sql("CREATE OR REPLACE TABLE trains (at TIME)")
    for value in (AT, *(pa.scalar(AT, kind) for kind in KINDS)):
        assert both.sql("INSERT INTO trains VALUES (?)", [value]).affected == 1
        one = [value.as_py()] if isinstance(value, pa.Scalar) else [value]
        listed = pa.scalar(one, pa.list_(value.type if isinstance(value, pa.Scalar) else pa.time64("us")))
        text = "at = ?, at IN (?, ?), at BETWEEN ? AND ?, at = any(?), greatest(at, ?) = at"
        values = [value, value, value, value, value, listed, value]
        assert both.sql(f"SELECT {text} FROM trains", values).fetchall() == [(True,) * 5]
        assert both.sql("DELETE FROM trains WHERE at = ?", [value]).affected == 1


def test_frames(both: Connection) -> None:
    """A frame's times of each unit join with the type TIME."""
    both.sql("CREATE OR REPLACE TABLE trains AS SELECT TIME '10:30' AS at")
    columns = {f"c{number}": pa.array([AT], kind) for number, kind in enumerate(KINDS)}
    both.register("frame", pa.table(columns | {"l": pa.array([[AT]], pa.list_(pa.time64("us")))}))
    both.register("other", pd.DataFrame({"at": [AT]}))
    for name in columns:
        assert both.sql(f"SELECT at FROM trains JOIN frame ON at = {name}").fetchall() == [(AT,)]
    assert both.sql("SELECT at FROM trains JOIN frame ON at = any(l) JOIN other USING (at)").fetchall() == [(AT,)]


def test_files(tmp_path: Path) -> None:
    """Times of CSV and Parquet files join with the type TIME, and with each other."""
    (tmp_path / "early.csv").write_text("at\n10:30:00\n11:00:00\n")
    pq.write_table(pa.table({"at": pa.array([AT], pa.time64("us"))}), tmp_path / "late.parquet")
    files = [tmp_path / "early.csv", tmp_path / "late.parquet"]
    with pytest.warns(UserWarning, match="times of day"):
        connection = flightllm.connect(files, config=fake(tmp_path / "home"))
    with connection:
        text = "SELECT at FROM early JOIN late USING (at) WHERE at = TIME '10:30'"
        assert connection.sql(text).fetchall() == [(AT,)]
