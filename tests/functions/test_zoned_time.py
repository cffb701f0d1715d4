"""Times on the clocks of a zone are instants, also where clocks change."""

from datetime import datetime

import pyarrow as pa

from flightllm.functions.zoned_time import ZONED_TIME_OUTPUT, zoned_time


def test_changes_of_clocks() -> None:
    """A missing time has the offset before the change; of two equal times, the second one counts."""
    texts = ["2024-03-31 02:30", "2024-10-27 02:30", "2024-07-01 00:00", None]
    times = pa.array([text and datetime.fromisoformat(text) for text in texts], pa.timestamp("ns"))
    found = zoned_time(times, pa.array(["Europe/Berlin"] * 4))
    assert found.type == ZONED_TIME_OUTPUT
    assert [moment and f"{moment:%Y-%m-%d %H:%M}" for moment in found.to_pylist()] == [
        "2024-03-31 01:30",
        "2024-10-27 01:30",
        "2024-06-30 22:00",
        None,
    ]


def test_no_rows() -> None:
    """No rows give no rows."""
    assert len(zoned_time(pa.array([], pa.timestamp("ns")), pa.array([], pa.string()))) == 0
