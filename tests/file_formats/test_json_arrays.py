"""One JSON array of objects is a table, as the same objects in lines are."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.catalog import Catalog
from flightllm.config import LimitsConfig
from flightllm.errors import ConfigError, InvalidInputError
from flightllm.file_formats import json_arrays
from flightllm.file_formats.json_arrays import is_json_array, write_lines
from tests.catalogs import read, register_file

ROWS = [{"a": 1, "t": 'x]}",\n{é'}, {"a": 2.5, "n": {"d": [1, 2]}}, {"t": ""}]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Open a catalog without tables."""
    catalog = Catalog(LimitsConfig(), None, tmp_path / "data")
    yield catalog
    catalog.close()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_rows(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None, chunk: int
) -> None:
    """The rows and types are those of lines, however the array is laid out and wherever a chunk of it ends."""
    monkeypatch.setattr(json_arrays, "_CHUNK", chunk)
    (tmp_path / "a.json").write_text(f"\ufeff\n{json.dumps(ROWS, indent=indent, ensure_ascii=False)}\r\n")
    (tmp_path / "b.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    register_file(catalog, "a", tmp_path / "a.json")
    register_file(catalog, "b", tmp_path / "b.jsonl")
    assert read(catalog, "SELECT * FROM a") == read(catalog, "SELECT * FROM b")
    assert [row["t"] for row in read(catalog, "SELECT t FROM a")] == ['x]}",\n{é', None, ""]
    assert catalog.table("a").schema == catalog.table("b").schema


def test_compressed_and_changed(catalog: Catalog, tmp_path: Path) -> None:
    """A compressed array is read, and read anew once it has changed, also into lines or into a text that is no JSON."""
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'[{"a": 1}]'))
    register_file(catalog, "t", path)
    assert read(catalog, "SELECT a FROM t") == [{"a": 1}]
    path.write_bytes(gzip.compress(b'[{"a": 1}, {"a": 2}, {"a": 3}]'))
    assert read(catalog, "SELECT count(*) AS n FROM t") == [{"n": 3}]
    path.write_bytes(gzip.compress(b'{"a": 7}\n'))
    assert read(catalog, "SELECT a FROM t") == [{"a": 7}]
    path.write_bytes(gzip.compress(b"no JSON"))
    with pytest.raises(Exception, match=r"cannot read .* as json"):
        read(catalog, "SELECT a FROM t")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "the objects of its array: it has no columns"),
        ("[{}]", "the objects of its array: it has no columns"),
        ("[1, 2]", "value 1 of its array is not an object: write an array of objects"),
        ('[{"a": 1},]', "value 2 of its array is not an object"),
        ('[{"a": 1}', "after object 1 of its array is nothing"),
        ('[{"a": 1} {"a": 2}]', "after object 1 of its array is '{'"),
        ('[{"a": 1}, {"a":', "object 2 of its array is not JSON"),
        ('[{"a": 1}] 7', "after the ']' of its array is '7'"),
        ('[{"a": 1}, {"a": {"b": 1}}]', "cannot read the objects of its array as json"),
        ('[{"a": ' + "7" * 5_000 + "}]", "object 1 of its array has a number of too many digits"),
        ("[" + '{"a":' * 5_000 + "1" + "}" * 5_000 + "]", "object 1 of its array is nested too deep"),
    ],
    ids=["empty", "nothing", "numbers", "comma", "short", "no comma", "cut", "more", "types", "digits", "deep"],
)
def test_refused(catalog: Catalog, tmp_path: Path, text: str, said: str) -> None:
    """What is no table is told with its place in the array, and without a path of the server's own."""
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        register_file(catalog, "t", path)
    assert said in str(error.value)
    assert "rows.jsonl" not in str(error.value)


def test_large_objects_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One object is in memory at a time, up to a limit that the error names."""
    monkeypatch.setattr(json_arrays, "_CHUNK", 10)
    monkeypatch.setattr(json_arrays, "_MOST", 1_000)
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"a": "x" * 100}] * 100))
    write_lines(path, tmp_path / "lines")
    assert len((tmp_path / "lines").read_text().splitlines()) == 100
    path.write_text(json.dumps([{"a": "x" * 5_000}]))
    with pytest.raises(InvalidInputError, match="object 1 of its array is not JSON, or has more than 1,000 characters"):
        write_lines(path, tmp_path / "lines")


def test_what_is_an_array(tmp_path: Path) -> None:
    """Only a file that is named like JSON and begins with a bracket is taken for an array."""
    for name, content in (("a.json", b" \n["), ("b.json", b"{}"), ("c.txt", b"["), ("d.json.gz", b"[no gzip")):
        (tmp_path / name).write_bytes(content)
    found = [is_json_array(tmp_path / name) for name in ("a.json", "b.json", "c.txt", "d.json.gz", "e.json")]
    assert found == [True, False, False, False, False]
