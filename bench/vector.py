"""Compare searches in a vector index by SQL with bare faiss on the same arrays, in one run.

    python -m bench.vector [--vectors 1000000] [--queries 1000] [--types flat,ivf,hnsw,ivfpq] [--quick] [--json]

The vectors have 384 numbers and form clusters. One SQL query searches for a whole table of vectors. Bare faiss has the
settings that the index chose, trains on as many vectors, and searches for the same batch. Seconds are medians after one
run to warm up; a ratio is SQL / faiss. Building compares CREATE VECTOR INDEX, which reads the table and writes the
index, with training, adding and writing in faiss. Recall is the share of the true neighbors among the results. Memory
is the growth of a process with faiss loaded when it opens the index and searches in it.
"""

import argparse
import json
import resource
import tempfile
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.common import machine, median_seconds, timed
from bench.setting import announce, open_database
from flightllm.config import EngineConfig
from flightllm.session.database import Database
from flightllm.vector.kinds.ivf import TRAINED_PER_LIST
from flightllm.vector.store import VectorIndexes

Vectors = NDArray[np.float32]
SIZE: Final = 384
_CLUSTERS: Final = 2_000
_SPREAD: Final = 0.9
"""The length of the noise around a cluster's center. The center has the length one."""
_NEIGHBORS: Final = 10
_WRITTEN: Final = 50_000


def clustered(count: int, seed: int) -> Vectors:
    """Return vectors of length one in clusters of very different sizes. The centers are the same for every seed."""
    random = np.random.default_rng(seed)
    centers = _unit(np.random.default_rng(0).standard_normal((_CLUSTERS, SIZE), np.float32))
    weights = 1 / np.arange(1, _CLUSTERS + 1) ** 0.5
    chosen = random.choice(_CLUSTERS, count, p=weights / weights.sum())
    found = np.empty((count, SIZE), np.float32)
    for start in range(0, count, _WRITTEN):
        own = centers[chosen[start : start + _WRITTEN]]
        found[start : start + _WRITTEN] = _unit(own + _SPREAD * _unit(random.standard_normal(own.shape, np.float32)))
    return found


def write(vectors: Vectors, path: Path, column: str) -> None:
    """Write a Parquet file with the number and the vector of each row."""
    schema = pa.schema([("id", pa.int64()), (column, pa.list_(pa.float32()))])
    with pq.ParquetWriter(path, schema, compression="none") as file:
        for start in range(0, len(vectors), _WRITTEN):
            part = vectors[start : start + _WRITTEN]
            lists = pa.ListArray.from_arrays(np.arange(len(part) + 1, dtype=np.int32) * SIZE, pa.array(part.ravel()))
            file.write_table(pa.table([pa.array(np.arange(start, start + len(part))), lists], schema=schema))


def bare(kind: str, vectors: Vectors, ours: Any) -> Any:
    """Return faiss's own index, built with the parameters of our index."""
    count, size = vectors.shape
    centers = faiss.IndexFlatIP(size)
    match kind:
        case "flat":
            index = faiss.IndexFlatIP(size)
        case "ivf":
            index = faiss.IndexIVFFlat(centers, size, ours.index.nlist, faiss.METRIC_INNER_PRODUCT)
        case "hnsw":
            index = faiss.IndexHNSWFlat(size, ours.options.neighbors, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = ours.options.build_depth
        case _:
            codes = ours.index.pq.M
            inner = faiss.IndexIVFPQ(centers, size, ours.index.nlist, codes, 8, faiss.METRIC_INNER_PRODUCT)
            index = faiss.IndexRefineFlat(inner)
            index.k_factor = 10
    if kind not in {"flat", "hnsw"}:
        (index if kind == "ivf" else inner).cp.max_points_per_centroid = TRAINED_PER_LIST
    index.train(vectors)
    for start in range(0, count, _WRITTEN):
        index.add(vectors[start : start + _WRITTEN])
    if kind == "hnsw":
        index.hnsw.efSearch = max(ours.depth, 2 * _NEIGHBORS)  # our index keeps at least as many candidates
    elif kind != "flat":
        (index if kind == "ivf" else inner).nprobe = ours.depth
    return index


def measure(
    kind: str, database: Database, given: argparse.Namespace, vectors: Vectors, queries: Vectors
) -> dict[str, Any]:
    """Build and search one kind of index, ours and faiss's in turn; return seconds, ratios and recall."""
    session = database.session()
    create = f"CREATE OR REPLACE VECTOR INDEX i ON vectors(v) OPTIONS (type '{kind}', metric 'ip', columns 'id')"
    build = timed(lambda: session.update(create))
    sql = f"SELECT vector_search('i', q, top_k => {_NEIGHBORS}, returning => 'id') AS near FROM queries"

    def ask() -> list[list[int]]:
        result = session.execute(sql)
        return [row for batch in result.batches for row in batch.column(0).to_pylist()]

    near = ask()
    seconds = median_seconds(ask, given.repeats)
    folder = database.config.data_folder / "vectors"
    with get_context("spawn").Pool(1) as process:
        memory = process.apply(memory_of_search, (folder, queries))
    ours: Any = VectorIndexes(folder).open("i").neighbors
    built: list[Any] = []
    with tempfile.NamedTemporaryFile(dir=given.folder) as file:

        def build_bare() -> None:
            built.append(bare(kind, vectors, ours))
            faiss.write_index(built[0], file.name)

        bare_build = timed(build_bare)
    bare_seconds = median_seconds(lambda: built[0].search(queries, _NEIGHBORS), given.repeats)
    found = {"ours": near, "faiss": built[0].search(queries, _NEIGHBORS)[1].tolist()}
    _, true = faiss.knn(queries, vectors, _NEIGHBORS, metric=faiss.METRIC_INNER_PRODUCT)
    return {
        "build_seconds": round(build, 2),
        "faiss_build_seconds": round(bare_build, 2),
        "build_ratio": round(build / bare_build, 3),
        "seconds": round(seconds, 3),
        "faiss_seconds": round(bare_seconds, 3),
        "ratio": round(seconds / bare_seconds, 3),
        "queries_per_second": round(len(queries) / seconds),
        "depth": ours.depth,
        **{f"{name}_recall": round(recall(rows, true), 4) for name, rows in found.items()},
        "memory_gib": round(memory / 2**30, 2),
    }


def memory_of_search(folder: Path, queries: Vectors) -> int:
    """Open the index and search in it; return the bytes that this adds to the process."""
    before = _resident()
    index = VectorIndexes(folder).open("i")
    index.search(_NEIGHBORS, "vector", None, queries)
    return _resident() - before


def _resident() -> int:
    """Return the resident bytes of this process without pages of files."""
    _, resident, of_files, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - of_files) * resource.getpagesize()


def recall(found: Sequence[Sequence[int]], true: NDArray[np.int64]) -> float:
    """Return the share of the true neighbors that were found."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, true, strict=True)]))


def _unit(vectors: Vectors) -> Vectors:
    found: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Compare searches by SQL with bare faiss.")
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--types", default="flat,ivf,hnsw,ivfpq")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder of the table and the indexes (default: a temporary folder)")
    parser.add_argument("--quick", action="store_true", help="20,000 vectors, flat and ivf")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    if given.quick:
        given.vectors, given.queries, given.types = 20_000, 100, "flat,ivf"
    announce("vector", arguments)
    vectors, queries = clustered(given.vectors, 1), clustered(given.queries, 2)
    found = {}
    with tempfile.TemporaryDirectory(prefix="flightllm-bench-", dir=given.folder) as folder:
        files = {name: Path(folder) / f"{name}.parquet" for name in ("vectors", "queries")}
        write(vectors, files["vectors"], "v")
        write(queries, files["queries"], "q")
        with open_database(EngineConfig("fake"), files) as database:
            for kind in given.types.split(","):
                found[kind] = measure(kind, database, given, vectors, queries)
                print(f"{kind}: {json.dumps(found[kind])}", flush=True)
    if given.json:
        names = ("quick", "vectors", "queries", "repeats")
        print(
            json.dumps(
                {"bench": "vector", **{n: getattr(given, n) for n in names}, "types": found, "machine": machine()}
            )
        )


if __name__ == "__main__":
    main()
