"""Files that are taken out of a zip file."""

import zipfile
from pathlib import Path

import pytest

from flightllm.errors import LimitExceededError
from flightllm.file_formats.zip_files import taken_out


def test_the_bytes_are_counted(tmp_path: Path) -> None:
    """A file within the bound is copied; a longer one is refused with the limit, and no folder stays."""
    path, place = tmp_path / "one.zip", tmp_path / "unpacked"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("deep/rows.csv", "1\n" * 500)
    with taken_out(path, "deep/rows.csv", place, 1_000) as copy:
        assert (copy.name, copy.stat().st_size) == ("rows.csv", 1_000)
    assert not place.exists()
    said = r"deep/rows.csv has more bytes; \[limits\] upload_bytes = 999 is the most"
    with pytest.raises(LimitExceededError, match=said), taken_out(path, "deep/rows.csv", place, 999):
        pass
    assert not place.exists()
