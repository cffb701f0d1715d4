"""A small part of the fuzz run, the same each time."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

from tests.fuzz.run import fuzz

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.slow
def test_malformed_input(tmp_path: Path) -> None:
    """The process that served first serves last, and no answer is a defect's or tells what it must not."""
    seen = fuzz(tmp_path, seed=1, number=1_500)
    assert seen.findings == []
    assert not seen.defects
    assert len(seen.workers) == 1
    assert sum(seen.statuses.values()) >= 1_500
    reached = {status.partition(":")[0] for status in seen.statuses if status.endswith(": OK")}
    assert {"statement", "statement, rows", "command", "upload", "plan", "headers"} <= reached
