"""JSON values are read one by one, and an error names its line and column."""

import gzip
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flightllm.errors import InvalidInputError
from flightllm.file_formats import json_values
from flightllm.file_formats.json_values import JsonValues

ROWS = [{"a": 1, "t": 'x]}",\n{é'}, {"a": 2.5, "n": {"d": [1, 2]}}, {"t": ""}, {}]


def values(path: Path) -> list[Any]:
    """Return the values of a file."""
    with closing(JsonValues(path)) as found:
        return list(found)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "written",
    [
        lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows),
        lambda rows: "\n\n".join(json.dumps(row, indent=2) for row in rows),
        lambda rows: "".join(map(json.dumps, rows)),
        lambda rows: f"\n{json.dumps(rows)}\r\n",
        lambda rows: json.dumps(rows, indent=4, ensure_ascii=False),
    ],
    ids=["lines", "over lines", "without blanks", "array", "array over lines"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_layouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, written: Callable[[Any], str], encoding: str
) -> None:
    """The values are the same in each layout and encoding, wherever a chunk of the file ends."""
    monkeypatch.setattr(json_values, "_CHUNK", chunk)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(written(ROWS).encode(encoding)))
    assert values(path) == ROWS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[12, 345]", [12, 345]),
        ("12 345\n6", [12, 345, 6]),
        ("[1, 2]\n[3, 4]\n", [[1, 2], [3, 4]]),
        ("[1, 2]\n", [1, 2]),
        ("[[1, 2]]\n", [[1, 2]]),
        ("[]", []),
        ("", []),
        (" \n", []),
        ('{"a": 1, "a": 2}', [{"a": 2}]),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: list[Any], chunk: int) -> None:
    """The elements of one array are values; arrays in lines are values themselves."""
    if text.startswith("[1, 2]\n["):
        chunk = max(chunk, 10)  # the start of the second line must be in the first chunk
    monkeypatch.setattr(json_values, "_CHUNK", chunk)
    (tmp_path / "t.json").write_text(text)
    assert values(tmp_path / "t.json") == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[{"a": 1},]',
            "line 1, column 11: a comma is before ']': leave the comma out",
        ),
        ('{"a": 1}\n{"a": 2,}\n', "line 2, column 9: a comma is before '}': leave the comma out"),
        ('{"a": 1},\n{"a": 2}\n', "line 1, column 9: expected the next value, found ','"),
        ('{"a": 1}\n{"a": \n{"a": 3}\n', r"line 4, column 1: .* \(the value begins in line 2\)"),
        ('{"a": 1}\n{"a" 2}\n', "line 2, column 6: it is not JSON: expecting ':' delimiter, found '2'"),
        ('{"a": 1}\n{"a": "x\n{"a": 3}\n', "line 2, column 9: a text has a line break or a control character"),
        ('[{"a": 1}', "line 1, column 10: expected ',' or ']' after a value, found the end of the file"),
        ('[{"a": 1} {"a": 2}]', "line 1, column 11: expected ',' or ']' after a value, found '{'"),
        ('[{"a": 1}]\n 7', "line 2, column 2: expected nothing after the end of the array, found '7'"),
        ('{"a": "x', "line 1, column 7: a text has no end"),
        ("no JSON", "line 1, column 1: it is not JSON: expecting value, found 'n'"),
        ('{"a": ' + "7" * 5_000 + "}", "line 1, column 1: a number has too many digits"),
        ('{"a":' * 100_000, "line 1, column 1: a value is nested too deep"),
    ],
)
@pytest.mark.parametrize("chunk", [1 << 6, 1 << 20])
def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str, chunk: int) -> None:
    """What is no JSON is told with its line and column, wherever a chunk of the file ends."""
    monkeypatch.setattr(json_values, "_CHUNK", chunk)
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        values(tmp_path / "t.json")


def test_the_line_of_an_error_far_down(tmp_path: Path) -> None:
    """Lines are counted over all chunks."""
    (tmp_path / "t.jsonl").write_text('{"a": "some text"}\n' * 200_000 + '{"a" }\n')
    with pytest.raises(InvalidInputError, match="line 200,001, column 6:"):
        values(tmp_path / "t.jsonl")


def test_large_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One value is in memory at a time, up to a limit that the error names."""
    monkeypatch.setattr(json_values, "_CHUNK", 10)
    monkeypatch.setattr(json_values, "_MOST", 1_000)
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"a": "x" * 100}] * 100))
    assert len(values(path)) == 100
    path.write_text(json.dumps([{"a": "x" * 5_000}]))
    with pytest.raises(InvalidInputError, match="line 1, column 2: a value has more than 1,000 characters"):
        values(path)


def test_damaged(tmp_path: Path) -> None:
    """A damaged compressed file is refused."""
    (tmp_path / "t.json.gz").write_bytes(b"[no gzip")
    with pytest.raises(InvalidInputError, match="damaged"):
        values(tmp_path / "t.json.gz")
