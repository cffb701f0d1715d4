"""Python's values as parameters."""

import pandas as pd
import pytest

pytest.importorskip("sqlalchemy")
from flightllm.alchemy.values import bound


def test_missing_times_of_pandas() -> None:
    """NaT is NULL, alone, beside times and in lists."""
    assert bound([[pd.NaT]]).to_pylist() == [{"0": None}]
    at = pd.Timestamp("2020-01-01")
    assert bound([[at, [pd.NaT, at]], [pd.NaT, []]]).to_pylist() == [{"0": at, "1": [None, at]}, {"0": None, "1": []}]
