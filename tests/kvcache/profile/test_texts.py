"""Texts to learn a profile from."""

from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.errors import ConfigError
from flightllm.kvcache.profile.texts import contexts, read_texts, sample_texts


def test_files(tmp_path: Path) -> None:
    """A Parquet file gives a text for each row, as prompts have it; another file is one text."""
    pq.write_table(pa.table({"title": ["one", "two"], "year": [1999, None]}), tmp_path / "films.parquet")
    (tmp_path / "manual.txt").write_text("Press the button.")
    found = list(read_texts([tmp_path / "films.parquet", tmp_path / "manual.txt"]))
    assert found == ["title: one\nyear: 1999", "title: two", "Press the button."]


@pytest.mark.parametrize("name", ["missing.parquet", "missing.txt", "broken.parquet", "binary.txt"])
def test_unreadable(tmp_path: Path, name: str) -> None:
    """A file that cannot be read is named."""
    (tmp_path / "broken.parquet").write_bytes(b"no parquet")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        list(read_texts([tmp_path / name]))


def test_sample_tables_take_turns() -> None:
    """The sample tables' rows come mixed, so that a few contexts have some of each."""
    first = list(islice(sample_texts(), 10))
    assert len({text.partition(":")[0] for text in first}) > 2


def test_contexts() -> None:
    """Texts put one after the other are cut into contexts of the same length, so many at most."""
    assert list(contexts([[1, 2, 3], [4], [5, 6, 7, 8]], 3, 9)) == [[1, 2, 3], [4, 5, 6]]
    assert list(contexts([[1, 2, 3], [4], [5, 6, 7, 8]], 3, 1)) == [[1, 2, 3]]
    assert list(contexts([], 3, 1)) == []
