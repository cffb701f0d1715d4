"""Ages count years, months and days as DuckDB does; the tests have its values from DuckDB 2.0."""

from datetime import datetime

import pyarrow as pa
import pytest

from flightllm.functions.ages import AGE_ARGUMENTS, ages


@pytest.mark.parametrize(
    ("until", "since", "age"),
    [
        ("2024-01-01", "2023-01-01", (12, 0, 0)),
        ("2024-03-01", "2024-01-31", (1, 1, 0)),
        ("2001-04-10", "1957-06-13", (525, 27, 0)),
        ("2023-01-01", "2024-03-15", (-14, -14, 0)),
        ("2024-01-31T05:00:00", "2023-05-30T17:00:00", (8, 0, 43_200_000_000_000)),
        ("2000-02-29", "1999-12-31", (1, 29, 0)),
    ],
)
def test_ages(until: str, since: str, age: tuple[int, int, int]) -> None:
    """Days count in the month of the earlier time, and an earlier first time gives a negative age."""
    times = (pa.array([datetime.fromisoformat(one), None], AGE_ARGUMENTS[0]) for one in (until, since))
    first, missing = ages(*times).to_pylist()
    assert (tuple(first), missing) == (age, None)
