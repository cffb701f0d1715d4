"""JSON files become tables whose types come from all rows, with a note about what does not fit."""

import datetime as dt
import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.errors import InvalidInputError
from flightllm.file_formats import json_files
from flightllm.file_formats.json_files import convert_json
from flightllm.file_formats.json_lines import NotPlainError, convert_lines

MANY = 10_000


def converted(folder: Path, text: str, *more: str) -> tuple[pa.Table, list[str]]:
    """Return the table and the notes of files with these texts."""
    paths = [folder / f"{place}.json" for place in range(1 + len(more))]
    for path, content in zip(paths, [text, *more], strict=True):
        path.write_text(content)
    notes = convert_json(paths, folder / "rows.parquet")
    return pq.read_table(folder / "rows.parquet"), notes


def lines(*rows: Any) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize("array", [False, True])
def test_late_fields(tmp_path: Path, array: bool) -> None:
    """A field that only the last row has is a column, also inside objects."""
    rows: list[Any] = [{"id": number, "o": {"x": 1}} for number in range(MANY)]
    rows.append({"id": MANY, "extra": "here", "o": {"y": [2.5]}})
    table, notes = converted(tmp_path, json.dumps(rows) if array else lines(*rows))
    assert table.num_rows == MANY + 1
    assert table.slice(MANY).to_pylist() == [{"id": MANY, "o": {"x": None, "y": [2.5]}, "extra": "here"}]
    assert not notes


def test_late_texts(tmp_path: Path) -> None:
    """Numbers above one text become texts as in the file, and one note names the field and the row."""
    text = lines(*({"v": number} for number in range(MANY))) + '{"v": 1.50}\n{"v": "text"}\n{"v": true}\n{"v": null}\n'
    table, notes = converted(tmp_path, text)
    assert table.column("v").to_pylist()[-5:] == [str(MANY - 1), "1.50", "text", "true", None]
    assert notes == [f"fields with values of several types are texts: v (a number first, a text in row {MANY + 2:,})"]


def test_objects_among_scalars(tmp_path: Path) -> None:
    """Where objects or arrays are among other values, all are JSON texts."""
    table, notes = converted(tmp_path, '{"value": 5}\n{"value": {"day": 1.50}}\n{"value": "é"}\n{"value": null}\n')
    assert table.column("value").to_pylist() == ["5", '{"day":1.5}', '"é"', None]
    assert notes == [
        "fields with values of several types are texts: value (a number first, an object in row 2; as JSON)"
    ]


@pytest.mark.parametrize(
    ("text", "column", "kind", "found"),
    [
        (lines({"a": 1}, {"a": 2.5}), "a", pa.float64(), [1.0, 2.5]),
        (lines({"a": None}, {}), "a", pa.string(), [None, None]),
        (lines({"a": 2**63 - 1}, {"a": -(2**63)}), "a", pa.int64(), [2**63 - 1, -(2**63)]),
        (lines({"a": []}), "a", pa.list_(pa.string()), [[]]),
        (lines({"a": {}}, {"a": {}}), "a", pa.string(), ["{}", "{}"]),
        (lines({"a": [1, None]}, {"a": [2.5]}), "a", pa.list_(pa.float64()), [[1.0, None], [2.5]]),
        (lines({"a": "2024-01-02"}, {"a": None}), "a", pa.date32(), [dt.date(2024, 1, 2), None]),
        (
            lines({"a": ["2024-01-02"]}, {"a": None}),
            "a",
            pa.list_(pa.date32()),
            [[dt.date(2024, 1, 2)], None],
        ),
        (
            lines({"a": {"d": "2024-01-02T03:04:05Z"}}, {"a": None}, {}),
            "a",
            pa.struct([("d", pa.timestamp("us", "UTC"))]),
            [{"d": dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)}, None, None],
        ),
        (lines({"a": "2024-01-02"}, {"a": ""}), "a", pa.string(), ["2024-01-02", ""]),
        (lines({"a": "2024-13-02"}), "a", pa.string(), ["2024-13-02"]),
        (lines({"a": "1"}, {"a": "2"}), "a", pa.string(), ["1", "2"]),
        ("[1, 2]", "json", pa.int64(), [1, 2]),
        ("[1, 2]\n[3]\n", "json", pa.list_(pa.int64()), [[1, 2], [3]]),
        ('["a", null]', "json", pa.string(), ["a", None]),
        (lines({"a": 1}, 5), "json", pa.string(), ['{"a":1}', "5"]),
        (lines({"a": 1}, None), "json", pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
        (lines({}, {}), "json", pa.string(), ["{}", "{}"]),
        ("", "json", pa.string(), []),
        ("[]", "json", pa.string(), []),
        ('{\n "a": {\n  "b": 1\n }\n}\n', "a", pa.struct([("b", pa.int64())]), [{"b": 1}]),
    ],
)
def test_types(tmp_path: Path, text: str, column: str, kind: pa.DataType, found: list[Any]) -> None:
    """Each field has the narrowest type for all of its values."""
    table, _ = converted(tmp_path, text)
    assert table.column_names == [column]
    assert (
        table.schema.field(0).type == pa.list_(kind.value_field.with_name("element"))
        if pa.types.is_list(kind)
        else table.schema.field(0).type == kind
    )
    assert table.column(0).to_pylist() == found


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (lines({"a": 2**70}), "fields with numbers of too many digits are rounded to DOUBLE: a"),
        (lines({"a": 2**53 + 1}, {"a": 1.5}), "fields with numbers of too many digits are rounded to DOUBLE: a"),
        ('{"a": 1}\n{"a": 1, "a": 2}\n', "row 2 has the field a twice: the last value counts, here and in other rows"),
        (lines({"a": 1, "A": 2, "": 3}), "renamed columns: A → A_1, no name → column3"),
        (lines({"a": {"l": [1, "x"]}}), r"fields .* are texts: a\.l\[\] \(a number first, a text in row 1\)"),
        ('{"a": "\u00e9"}', "read as cp1252"),
        ("", "it has no rows, so its only column is an empty json"),
        (lines({"a": {str(n): 1 for n in range(1_001)}}), "have too many names, are JSON texts: a"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", "nested too deep"),
    ],
)
def test_notes(tmp_path: Path, text: str, note: str) -> None:
    """What is guessed or lost is said in one line."""
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("latin-1"))
    (said,) = convert_json([path], tmp_path / "rows.parquet")
    assert re.search(note, said)


def test_several_files(tmp_path: Path) -> None:
    """Types come from the rows of all files, and an error names the file."""
    table, notes = converted(tmp_path, lines({"a": 1}), lines({"a": "x", "b": 2}))
    assert table.to_pylist() == [{"a": "1", "b": None}, {"a": "x", "b": 2}]
    assert notes == ["fields with values of several types are texts: a (a number first, a text in row 2)"]
    with pytest.raises(InvalidInputError, match=r"1\.json: line 1, column 2"):
        converted(tmp_path, "{}", "{")


def test_half_of_a_pair(tmp_path: Path) -> None:
    """A text that no encoding can hold is refused with its row."""
    with pytest.raises(InvalidInputError, match=r"half of a surrogate pair: .*ud800"):
        converted(tmp_path, '{"a": "\\ud800"}\n')


def test_too_many_names(tmp_path: Path) -> None:
    """Rows with ever new names do not become as many columns."""
    with pytest.raises(InvalidInputError, match="more than 32,768 different names"):
        converted(tmp_path, lines(*({str(number): 1} for number in range(33_000))))


def made(random: random.Random, depth: int = 0) -> Any:
    """Return a value of any kind."""
    kinds = [None, 1, 2.5, True, "text", "2024-01-02", "2024-01-02T03:04:05Z", 2**60]
    kind = random.choice([*kinds, dict, list, list] if depth < 2 else kinds)
    if kind is dict:
        return {name: made(random, depth + 1) for name in random.sample("abc", random.randint(0, 3))}
    return [made(random, 2)] * random.randint(0, 2) if kind is list else kind


@pytest.mark.parametrize("seed", range(150))
def test_the_quick_reader_agrees(tmp_path: Path, seed: int) -> None:
    """The quick reader gives the same table as the other one, or says that it cannot read the file."""
    source = random.Random(seed)  # noqa: S311 - rows of a test
    rows = [{name: made(source) for name in "xyz"[: source.randint(1, 3)]}] * 3
    rows += [{**rows[0], source.choice("xyzw"): made(source)} for _ in range(source.randint(0, 2))]
    table, notes = converted(tmp_path, lines(*rows))
    try:
        convert_lines([tmp_path / "0.json"], tmp_path / "quick.parquet")
    except NotPlainError:
        return
    assert not notes
    assert pq.read_table(tmp_path / "quick.parquet").equals(table)


def test_the_quick_reader_reads_plain_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines whose rows agree take the quick way, and others the exact way, with the same result as a small file."""
    monkeypatch.setattr(json_files, "QUICK", 0)
    monkeypatch.setattr("flightllm.file_formats.json_lines._BLOCK", 100)
    rows: list[Any] = [{"i": n, "t": f"{n} x", "d": "2024-01-02", "o": {"x": [n]}, "f": n} for n in range(100)]
    rows += [{"f": 2.5, "late": "é", "t": None}]
    (tmp_path / "0.json").write_text(lines(*rows))
    convert_lines([tmp_path / "0.json"], tmp_path / "quick.parquet")
    quick = pq.read_table(tmp_path / "quick.parquet")
    assert quick.column_names == ["i", "t", "d", "o", "f", "late"]
    assert quick.schema.types[2:] == [pa.date32(), quick.schema.types[3], pa.float64(), pa.string()]
    assert converted(tmp_path, lines(*rows))[0].equals(quick)
    monkeypatch.setattr(json_files, "QUICK", 1 << 20)
    assert converted(tmp_path, lines(*rows))[0].equals(quick)
    for odd in ("null", '"x"', '{"i": "text"}', '{"i": 1, "i": 2}', '{"d": "2024-01-02 x"}', '{"i": 1e300}'):
        (tmp_path / "0.json").write_text(lines(*rows) + odd)
        if odd == '{"d": "2024-01-02 x"}':  # a text among dates is a text, for both readers
            continue
        with pytest.raises(NotPlainError):
            convert_lines([tmp_path / "0.json"], tmp_path / "quick.parquet")


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    """NaN among objects of a mixed field becomes null, so that each text is JSON."""
    (tmp_path / "t.json").write_text('{"v": {"a": NaN}}\n{"v": 1.10}\n')
    convert_json([tmp_path / "t.json"], tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet")["v"].to_pylist() == ['{"a":null}', "1.10"]
