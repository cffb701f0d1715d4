"""CSV files of every kind: right rows, or an error that names the line."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flightllm.errors import InvalidInputError
from flightllm.file_formats.csv_files import convert_csv
from flightllm.file_formats.dialects import SAMPLE
from flightllm.file_formats.options import CsvOptions


def converted(path: Path, content: str | bytes, encoding: str = "utf-8", **options: str) -> tuple[pa.Table, list[str]]:
    """Write a file, and return what it is converted to, with the notes."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    target = path.parent / "rows.parquet"
    notes = convert_csv([path], CsvOptions.of(options), target)
    return pq.read_table(target), notes


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('a,b\r\n1,"x\r\ny"\r\n', [{"a": 1, "b": "x\r\ny"}]),
        ('a;b\n1;"say ""hi"", ok"\n', [{"a": 1, "b": 'say "hi", ok'}]),
        ("a\tb\n1\tx,y\n", [{"a": 1, "b": "x,y"}]),
        ("a|b\n1|x\n", [{"a": 1, "b": "x"}]),
        ("a,b\r1,2\r3,4", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ("a,b\n1,'x,y'\n", [{"a": 1, "b": "x,y"}]),
        ('a,b\n1,"x\\"y,z"\n', [{"a": 1, "b": 'x"y,z'}]),
        ('a,b\n1,5" pipe\n', [{"a": 1, "b": '5" pipe'}]),
        ("a;b;\n1;2;\n", [{"a": 1, "b": 2}]),
        ("a;b\n1;2;\n", [{"a": 1, "b": 2}]),
        ("a;b;\n1;2\n", [{"a": 1, "b": 2}]),
        ("a;b;\n1;2;\n3;4\n", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ("a,b\n1,2\n\n  \n3,4\n", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        ("a,b\n1,NULL\nNA,\n", [{"a": 1, "b": "NULL"}, {"a": None, "b": None}]),
        ("a,b\nx\x0by\u2028z\x85,1\n", [{"a": "x\x0by\u2028z\x85", "b": 1}]),
        ("name\nx\n\ny\n", [{"name": "x"}, {"name": None}, {"name": "y"}]),
        ("name", []),
        ("\n  \n\na,b\n1,2\n", [{"a": 1, "b": 2}]),
        ("\r\n\r\nname\r\nx\r\n", [{"name": "x"}]),
        ("a;b\n", []),
        ("1,x\n2,y\n", [{"column1": 1, "column2": "x"}, {"column1": 2, "column2": "y"}]),
        ("a,A,,a_1\n1,2,3,4\n", [{"a": 1, "A_2": 2, "column3": 3, "a_1": 4}]),
        ("First Name;Größe\nx;5\n", [{"First Name": "x", "Größe": 5}]),
    ],
)
def test_dialects(tmp_path: Path, content: str, rows: list[dict[str, Any]]) -> None:
    """Delimiters, quotes, line ends, headers and NULLs are found out from the file."""
    assert converted(tmp_path / "t.csv", content)[0].to_pylist() == rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_an_empty_last_column(tmp_path: Path, delimiter: str) -> None:
    """A column whose cells are all empty is one, so that the others stay apart."""
    content = "id,name,comment\n" + "".join(f"{number},x,\n" for number in range(30))
    table, _ = converted(tmp_path / "t.csv", content.replace(",", delimiter))
    assert table.to_pydict() == {"id": [*range(30)], "name": ["x"] * 30, "comment": [None] * 30}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    """Umlauts are right in each usual encoding, the mark at a file's start is no part of a name."""
    table, _ = converted(tmp_path / "t.csv", "größe;ort\n5;Köln\n6;São João\n", encoding)
    assert table.to_pydict() == {"größe": [5, 6], "ort": ["Köln", "São João"]}


@pytest.mark.parametrize(
    ("text", "encoding"), [("Привет, как дела? Хорошо", "cp1251"), ("これは日本語のテキストです", "cp932")]
)
def test_other_alphabets(tmp_path: Path, text: str, encoding: str) -> None:
    """A text in another alphabet is guessed, and the guess is noted."""
    table, notes = converted(tmp_path / "t.csv", f"id;text\n1;{text}\n2;{text}\n", encoding)
    assert table["text"].to_pylist() == [text, text]
    assert f"read as {encoding}" in notes[0]


@pytest.mark.parametrize(
    ("end", "byte"), [(b"9,\xff\n1,x\n", "0xff"), pytest.param(b"9,M\xc3", "0xc3", marks=pytest.mark.slow)]
)
def test_a_wrong_byte(tmp_path: Path, end: bytes, byte: str) -> None:
    """UTF-8 with one wrong byte is refused with the line, and read in the encoding that an option names."""
    content = b"id,name\n" + "1,Müller Łódź\n".encode() * 200_000 + end
    with pytest.raises(InvalidInputError, match=f"line 200002 has the byte {byte}.* by the option encoding"):
        converted(tmp_path / "t.csv", content)
    convert_csv([tmp_path / "t.csv"], CsvOptions.of({"encoding": "latin-1"}), tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet")["name"][0].as_py().startswith("MÃ¼ller")


def test_a_wrong_byte_far_behind(tmp_path: Path) -> None:
    """Umlauts of UTF-8 count wherever a chunk of the file ends, also where one is cut there."""
    content = b"t\n" + b"x" * ((1 << 20) - 3) + "ü\n".encode() + b"x\n" * 10 + b"\xff\n"
    with pytest.raises(InvalidInputError, match="line 13 has the byte 0xff"):
        converted(tmp_path / "t.csv", content)


def test_types(tmp_path: Path) -> None:
    """A column has the narrowest type of all values; codes, telephone numbers and long numbers stay texts."""
    header = "zip,day,at,fine,zone,long,real,ok,phone,mixed\n"
    table, _ = converted(
        tmp_path / "t.csv",
        header
        + "00123,2024-01-02,2024-01-02 10:00,2024-01-02T10:00:00.123456789,2024-01-02T10:00:00Z,"
        + "12345678901234567890,1.5,true,+4912,1\n"
        + "1,2024-02-03,2024-01-02,2024-01-02,2024-01-02 12:00+02:00,1,nan,FALSE,1,\n",
    )
    us, ns, utc = pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")
    text = pa.string()
    assert table.schema.types == [text, pa.date32(), us, ns, utc, text, pa.float64(), pa.bool_(), text, pa.int64()]
    assert table["zip"].to_pylist() == ["00123", "1"]
    assert table["day"].to_pylist() == [date(2024, 1, 2), date(2024, 2, 3)]
    assert table["zone"].to_pylist() == [datetime(2024, 1, 2, 10, tzinfo=UTC)] * 2
    assert table["long"].to_pylist() == ["12345678901234567890", "1"]
    assert table["mixed"].to_pylist() == [1, None]


@pytest.mark.parametrize(
    ("cells", "noted"),
    [
        (["12,50", "-0,5", "3"], "replace(\"value\", ',', '.')::double"),
        (["1.234,56", "12,5"], "replace(replace(\"value\", '.', ''), ',', '.')::double"),
        (["1"] * 5_000 + ["12,5"], "replace(\"value\", ',', '.')::double"),
        (["1,234", "5,678"], None),
        (["12,50", "1,2,3"], None),
        (["12,50", "1.5"], None),
        (["12,50", "x"], None),
        (["12,50", "00,5"], None),
        (["1.5", "2"], None),
    ],
)
def test_decimal_commas_are_noted(tmp_path: Path, cells: list[str], noted: str | None) -> None:
    """A column that looks like numbers with decimal commas stays text, with one note that says what to write."""
    table, notes = converted(tmp_path / "t.csv", "key;value\n" + "".join(f"k;{cell}\n" for cell in cells))
    assert [str(value) for value in table["value"].to_pylist()] == (cells if noted else [*map(plain, cells)])
    assert len(notes) == (noted is not None)
    if noted:
        assert table["value"].type == pa.string()
        assert noted in notes[0]
        assert "the column value stays text" in notes[0]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["12,50", "-0,05", "3", ""], [12.5, -0.05, 3.0, None]),
        (["1.299,00", "39,90"], [1299.0, 39.9]),
        (["1"] * 5_000 + ["12,50"], [1.0] * 5_000 + [12.5]),
        (["12,50", "1,3"], None),
        (["12,50", "1.5"], None),
        (["1,234", "5,678"], None),
    ],
)
def test_prices_between_semicolons(tmp_path: Path, cells: list[str], values: list[float | None] | None) -> None:
    """Prices with decimal commas are numbers, with a note, where semicolons separate the columns; nowhere else."""
    content = "key;price\n" + "".join(f"k;{cell}\n" for cell in cells)
    table, notes = converted(tmp_path / "t.csv", content)
    assert (table["price"].type == pa.float64()) == (values is not None)
    if values is not None:
        assert (table["price"].to_pylist(), notes) == (values, ["commas are decimal in: price"])
    if cells == ["1,234", "5,678"]:  # thousands, between commas
        return
    quoted = "key,price\n" + "".join(f'k,"{cell}"\n' for cell in cells)
    assert converted(tmp_path / "u.csv", quoted)[0]["price"].type == pa.string()


def test_dots_beside_decimal_commas(tmp_path: Path) -> None:
    """In a file whose prices have decimal commas, dots before three digits separate thousands; others are decimal."""
    content = "amount;price;share\n1.000;12,50;1.5\n2.500;13,00;2.25\n"
    table, notes = converted(tmp_path / "t.csv", content)
    assert table.to_pydict() == {"amount": [1000.0, 2500.0], "price": [12.5, 13.0], "share": [1.5, 2.25]}
    assert notes == ["commas are decimal in: amount, price"]
    plain_table, _ = converted(tmp_path / "u.csv", content.replace(",", "."))
    assert plain_table["amount"].to_pylist() == [1.0, 2.5]


def plain(cell: str) -> str:
    """Return a cell as its column has it, which holds decimal points or texts."""
    return "2.0" if cell == "2" else cell


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["12,50", "-0,5", "3"], [12.5, -0.5, 3.0]),
        (["1.234,56", "1.234", "1.234.567,5"], [1234.56, 1234.0, 1234567.5]),
        (["1,5e3", "NaN", "2"], [1500.0, None, 2.0]),
        (["1", "2"], [1, 2]),
        (["1.234", "5.678"], ["1.234", "5.678"]),
        (["1.5", "2"], ["1.5", "2"]),
        (["1.23,5", "2"], ["1.23,5", "2"]),
        (["0,0123456789012345678", "2"], ["0,0123456789012345678", "2"]),
        (["NaN"] * 5_000 + ["1.234"], ["NaN"] * 5_000 + ["1.234"]),
    ],
)
def test_decimal_commas(tmp_path: Path, cells: list[str], values: list[float | str | None]) -> None:
    """Numbers with decimal commas are numbers where the option says so; what can be something else stays text."""
    content = "key;value\n" + "".join(f"k;{cell}\n" for cell in cells)
    table, notes = converted(tmp_path / "t.csv", content, decimal=",")
    assert [None if str(value) == "nan" else value for value in table["value"].to_pylist()] == values
    assert notes == []


def test_decimal_commas_without_a_header(tmp_path: Path) -> None:
    """Rows of numbers with decimal commas are values from the first one on."""
    table, _ = converted(tmp_path / "t.csv", "1,5;2\n3,5;4\n", decimal_separator=",")
    assert table.to_pydict() == {"column1": [1.5, 3.5], "column2": [2, 4]}
    table, _ = converted(tmp_path / "t.csv", 'a,b\n"1,5",2\n', decimal=",")
    assert table.to_pydict() == {"a": [1.5], "b": [2]}
    with pytest.raises(InvalidInputError, match=r"decimal: expected ',' or '\.', got ';'"):
        CsvOptions.of({"decimal": ";"})


@pytest.mark.parametrize(
    "cells",
    [
        ["12345678901234567.89", "1.5"],
        ["-0.0123456789012345678", "1.5"],
        ["1.5", "1234567890123456"],
        ["1.5", "1.2345678901234567e-99999999999999999999"],
        ["10E5", "20E3"],
        ["10e5", "1.5"],
        ["123e4567", "1"],
        ["1.5", "1.0e400"],
        ["1.5", "1e+400"],
        ["Nan", "Inf"],
        ["nan", "nan"],
    ],
)
def test_numbers_that_are_texts(tmp_path: Path, cells: list[str]) -> None:
    """Numbers that a DOUBLE would change, codes with an E, and names such as Nan stay texts."""
    table, _ = converted(tmp_path / "t.csv", "key;value\n" + "".join(f"k;{cell}\n" for cell in cells))
    assert table["value"].to_pylist() == cells


@pytest.mark.parametrize(
    "cells",
    [
        ["1.5e5", "1e-3"],
        ["1e+5", "2"],
        ["nan", "-inf", "1.5"],
        ["0.00000012345678901234", "123456789012.345"],
        ["0.30000000000000004", "0.10000000000000001", "1.000000000000000056e-01", "-1.2345678901234568e-05"],
    ],
)
def test_numbers(tmp_path: Path, cells: list[str]) -> None:
    """NaN beside numbers, DOUBLEs as programs write them, and exponents with a dot or a sign are numbers."""
    table, _ = converted(tmp_path / "t.csv", "key;value\n" + "".join(f"k;{cell}\n" for cell in cells))
    assert list(map(repr, table["value"].to_pylist())) == list(map(repr, map(float, cells)))


def test_a_text_far_down(tmp_path: Path) -> None:
    """A text after thousands of numbers makes the column one of texts; no row is lost, and none is changed."""
    values = [*map(str, range(5_000)), "none", *map(str, range(20_000))]
    table, _ = converted(tmp_path / "t.csv", "n;t\n" + "".join(f"{value};x\n" for value in values))
    assert table["n"].to_pylist() == values


def test_long_fields(tmp_path: Path) -> None:
    """A field of millions of characters is read as it is."""
    long = 'x,"\n' * 1_000_000
    table, _ = converted(tmp_path / "t.csv", f'a,b\n1,"{long.replace(chr(34), chr(34) * 2)}"\n2,y\n')
    assert table["b"].to_pylist() == [long, "y"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it has no columns, because its first line is empty"),
        ("\n\n", "it has no columns"),
        ("a,ö\r1,2\r".encode() + b"1,\xff\r", "line 3 has the byte 0xff"),
        ('a,b,c\n1,"x\ny",2\n3,4\n', r"line 4 has 2 columns where the first line has 3 \(',' separates them"),
        ('a,b\n1,"x\ny"\n3,4,5\n', "line 4 has 3 columns where the first line has 2"),
        ('a,b\n1,"abc\n2,z,w\n3,k\n', 'line 2: a quote is never closed; double each "'),
        ('a,b\n1,"abc\n2,z\n3,"k"\n', "line 2: quotes are wrong"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)[:-200], "damaged"),
        (b"\xef\xbb\xbfa,b\n1,\xff\n", "not valid utf-8-sig: .* name its encoding"),
    ],
)
def test_broken_files(tmp_path: Path, content: str | bytes, message: str) -> None:
    """A file that has no columns, a row of another width or a wrong quote is refused with the line."""
    name = "t.csv.gz" if isinstance(content, bytes) and content[:2] == b"\x1f\x8b" else "t.csv"
    with pytest.raises(InvalidInputError, match=f"{name}: (it is )?{message}"):
        converted(tmp_path / name, content)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst"])
def test_compressed_files(tmp_path: Path, ending: str) -> None:
    """A compressed file is read like a plain one."""
    content = "größe;text\n1;ü\n".encode("latin-1")
    packers: dict[str, Callable[[bytes], bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    }
    packed = packers[ending](content)
    assert converted(tmp_path / f"t.csv.{ending}", packed)[0].to_pylist() == [{"größe": 1, "text": "ü"}]


def test_options_go_before_looking(tmp_path: Path) -> None:
    """What an option says is not looked for, and NULL has the names that it gives, beside the empty text."""
    table, _ = converted(tmp_path / "t.csv", "1!NA\n2!-\n3!\n", delimiter="!", null="NA,-", header="true")
    assert table.to_pydict() == {"1": [2, 3], "NA": [None, None]}


def test_no_quotes(tmp_path: Path) -> None:
    """An empty quote says that each quote is a letter, whatever the delimiter and the name's ending."""
    for name, delimiter in (("t.csv", ","), ("t.tsv", "\t")):
        content = 'a,b\n"1,"x\n2,y"\n'.replace(",", delimiter)
        assert converted(tmp_path / name, content, quote="")[0].to_pydict() == {"a": ['"1', "2"], "b": ['"x', 'y"']}


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a,b\n1,'tis the season\n2,'x'\n3,'y, z\n", None),
        ("a,b\r1,'x, it''s'\r2,y\r", ["x, it's", "y"]),
        ("a,b\n1,'x\n2,y'\n", ["'x", "y'"]),
        ("a,b\n1,\"x\"\n2,'y'\n", ["x", "'y'"]),
        ('a,b\n1,"he said \\"hi\\", ok"\n2,"C:\\new"\n3,\\N\n', ['he said "hi", ok', "C:\\new", "\\N"]),
        ('a,b\n1,"C:\\"\n2,D:\\\n', ["C:\\", "D:\\"]),
        ('b\n"say \\"hi\\""\n', ['say "hi"']),
    ],
)
def test_quotes_and_escapes(tmp_path: Path, content: str, texts: list[str] | None) -> None:
    """A single quote quotes whole cells alone, and a backslash escapes quotes alone, and only if it must."""
    if texts is None:
        with pytest.raises(InvalidInputError, match="line 4 has 3 columns"):
            converted(tmp_path / "t.csv", content)
    else:
        assert converted(tmp_path / "t.csv", content)[0]["b"].to_pylist() == texts


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "UTF8", "utf-16", "utf-16-le", "utf-32-be"])
def test_a_mark_with_an_encoding(tmp_path: Path, encoding: str) -> None:
    """The mark at a file's start is no part of a name where an option says the encoding."""
    (tmp_path / "t.csv").write_bytes('\ufeff"a;b";größe\nx;1\n'.encode(encoding))
    convert_csv([tmp_path / "t.csv"], CsvOptions.of({"encoding": encoding}), tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == {"a;b": ["x"], "größe": [1]}


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("moved", range(6))
def test_lines_at_the_end_of_the_sample(tmp_path: Path, end: str, moved: int) -> None:
    """No row changes where the sample for guessing ends in or between lines, whatever ends these."""
    lines = ["a" * (moved + 1) + ",b", *["1,2"] * (SAMPLE // 4 + 10)]
    table, _ = converted(tmp_path / "t.csv", end.join([*lines, ""]))
    assert (table.num_rows, table.schema.types) == (len(lines) - 1, [pa.int64(), pa.int64()])


@pytest.mark.parametrize("content", [b"a,b\n1,\\ud800\n", b"a,\\ud800\n1,2\n"])
def test_half_a_character(tmp_path: Path, content: bytes) -> None:
    """Half a character, which an encoding lets through, is refused with what to write."""
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"t.csv: it is not valid unicode.escape: .* name its encoding"):
        convert_csv([tmp_path / "t.csv"], CsvOptions.of({"encoding": "unicode_escape"}), tmp_path / "rows.parquet")


def test_one_backslash_in_a_long_file(tmp_path: Path) -> None:
    """A backslash at the end of a quoted cell is no escape because a row far behind has another width."""
    content = 'a,b\n1,"C:\\"\n' + "2,y\n" * 100 + "3\n" + "4,z\n" * 100_000
    with pytest.raises(InvalidInputError, match="line 103 has 1 column where"):
        converted(tmp_path / "t.csv", content)


def test_an_escape_that_is_the_quote(tmp_path: Path) -> None:
    """An escape that is the quote itself says that quotes are doubled."""
    assert converted(tmp_path / "t.csv", 'a,b\n1,"x""y"\n', escape='"')[0]["b"].to_pylist() == ['x"y']


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(_TEXT, min_size=3, max_size=3), min_size=1, max_size=8),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_text_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str, end: str
) -> None:
    """Whatever stands in quotes comes back as it was written, the empty text as NULL."""
    lines = [["first", "second", "third"], *([f"={cell}" if cell else "" for cell in row] for row in rows)]
    content = "".join(
        delimiter.join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in line) + end for line in lines
    )
    folder = tmp_path_factory.mktemp("any")
    table, _ = converted(folder / "t.csv", content, quote='"', delimiter=delimiter)
    assert [list(row.values()) for row in table.to_pylist()] == [[cell or None for cell in line] for line in lines[1:]]


def test_row_groups_are_large(tmp_path: Path) -> None:
    """A row group has at least 100,000 rows, but for the last."""
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 150_000)
    convert_csv([tmp_path / "t.csv"], CsvOptions(), tmp_path / "t.parquet")
    footer = pq.read_metadata(tmp_path / "t.parquet")
    assert footer.num_rows == 150_000
    assert footer.num_row_groups == 2
    assert footer.row_group(0).num_rows >= 100_000


def test_lines_are_counted_from_the_start(tmp_path: Path) -> None:
    """An error names the line of the file, blank lines at its start included."""
    with pytest.raises(InvalidInputError, match="line 4 has 3 columns"):
        converted(tmp_path / "t.csv", "\n\na,b\n1,2,3\n4,5\n6,7\n8,9\n")
