"""An index from its rows to what is found in it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from flightllm.config import EmbeddingConfig
from flightllm.engines.embed import create_embedder
from flightllm.errors import InvalidInputError
from flightllm.vector.build import IndexedRows, build
from flightllm.vector.folder import IndexFolder
from flightllm.vector.index import VectorIndex, fuse
from flightllm.vector.manifest import IndexManifest
from flightllm.vector.options import IndexOptions
from tests.packages import needs

pytestmark = needs("faiss", "tantivy", extra="vector")

EMBEDDER = create_embedder(EmbeddingConfig("fake"))
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
TEXTS = [f"{kind} number {i} from {town}" for i in range(40) for kind in ("apple", "pear") for town in ("Rome", "Oslo")]


def manifest(options: IndexOptions) -> IndexManifest:
    """Return what is known of an index before it is built."""
    return IndexManifest("fruit", ("public", "t"), "text", options, "fake", "1", 0, 0, 0, 0, "", "", "")


def parts(texts: list[str], *, worded: bool = True) -> Iterator[IndexedRows]:
    """Yield the texts in several parts."""
    for start in range(0, len(texts), 50):
        some = texts[start : start + 50]
        rows = pa.RecordBatch.from_arrays([pa.array(range(start, start + len(some))), pa.array(some)], schema=SCHEMA)
        yield IndexedRows(rows, EMBEDDER.embed(some), pa.array(some) if worded else None)


def opened(path: Path, options: IndexOptions, texts: list[str], *, worded: bool = True) -> VectorIndex:
    """Build an index, check its files and open it."""
    folder = IndexFolder(path)
    built = build(folder, manifest(options), SCHEMA, parts(texts, worded=worded))
    folder.check(built)
    assert folder.manifest() == built
    return VectorIndex.open(folder, built)


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_finds_rows(tmp_path: Path, kind: str) -> None:
    """In each mode the row that says it is the first; its values come from the index."""
    index = opened(tmp_path, IndexOptions(type=kind), TEXTS)
    query = ["number 7 pear Oslo"]
    for mode in ("vector", "text", "hybrid"):
        found = index.search(3, mode, query, EMBEDDER.embed(query))
        assert index.rows.take(found.ids)["text"][0].as_py() == "pear number 7 from Oslo", mode
        assert len(found.ids) == 3
        assert (np.diff(found.scores) <= 0).all()
    assert index.manifest.rows == len(TEXTS)


def test_take(tmp_path: Path) -> None:
    """Rows come by their numbers, in the order asked for, again and again, and whatever batch they are in."""
    index = opened(tmp_path, IndexOptions(), TEXTS)
    ids = np.array([159, 0, 49, 50, 51, 0, 120])
    assert index.take(ids, ["id"]).column("id").to_pylist() == ids.tolist()
    assert index.take(ids, ["text", "id"]).schema.names == ["text", "id"]
    assert index.take(ids[:0], ["id"]).num_rows == 0


def test_files_stay_as_checked(tmp_path: Path) -> None:
    """Opening and searching an index changes none of its files."""
    index = opened(tmp_path, IndexOptions(), TEXTS)
    index.search(3, "hybrid", ["pear"], EMBEDDER.embed(["pear"]))
    IndexFolder(tmp_path).check(index.manifest)


def test_within(tmp_path: Path) -> None:
    """Only flagged rows are found, in any mode."""
    index = opened(tmp_path, IndexOptions(), TEXTS)
    within = np.array([text.endswith("Rome") for text in TEXTS])
    for mode in ("vector", "text", "hybrid"):
        found = index.search(60, mode, ["pear Oslo"], EMBEDDER.embed(["pear Oslo"]), within)
        assert len(found.ids) >= 40
        assert within[found.ids].all()


def test_nothing_in_it(tmp_path: Path) -> None:
    """An index of no rows finds none."""
    index = opened(tmp_path, IndexOptions(type="ivf"), [])
    for mode in ("vector", "text", "hybrid"):
        assert index.search(3, mode, ["a", "b"], EMBEDDER.embed(["a", "b"])).offsets.tolist() == [0, 0, 0]


def test_vectors_only(tmp_path: Path) -> None:
    """An index of vectors has no words; vectors of another length say both lengths."""
    index = opened(tmp_path, IndexOptions(), TEXTS, worded=False)
    with pytest.raises(InvalidInputError, match="no text to search"):
        index.search(3, "text", ["pear"], None)
    with pytest.raises(InvalidInputError, match="64 numbers, but the query vector has 3"):
        index.search(3, "vector", None, np.ones((1, 3), np.float32))


def test_vectors_that_do_not_fit(tmp_path: Path) -> None:
    """Different lengths or no numbers end the build, and leave nothing."""
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array(["x"])], schema=SCHEMA)
    good = IndexedRows(rows, np.ones((1, 4), np.float32), None)
    for bad in (np.ones((1, 5), np.float32), np.full((1, 4), np.nan, np.float32)):
        with pytest.raises(InvalidInputError, match=r"numbers|NaN"):
            build(
                IndexFolder(tmp_path), manifest(IndexOptions(metric="ip")), SCHEMA, [good, IndexedRows(rows, bad, None)]
            )
        assert not list(tmp_path.iterdir())


def test_fuse() -> None:
    """What is high in both lists comes first."""
    lists = [np.array([1, 2, 3]), np.array([3, 4, 1])]
    scores, ids = fuse(lists, 3)
    assert ids.tolist() == [1, 3, 2]
    assert scores.tolist() == pytest.approx([1 / 61 + 1 / 63, 1 / 63 + 1 / 61, 1 / 62])
