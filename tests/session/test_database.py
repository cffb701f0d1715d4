"""Opening a database."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.databases import open_database


@pytest.mark.parametrize(("mode", "warned"), [(0o700, False), (0o755, True), (None, False)])
def test_a_data_folder_that_others_may_read(tmp_path: Path, mode: int | None, warned: bool) -> None:
    """It is used as it is, with a warning; a new one is for its owner alone."""
    folder = tmp_path / "data"
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)
    with capture_logs() as events:
        open_database(folder).close()
    assert any("can read the data folder" in event["event"] for event in events) == warned
    assert folder.stat().st_mode & 0o777 == (mode or 0o700)
