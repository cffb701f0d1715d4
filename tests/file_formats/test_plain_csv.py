"""Plain CSV files read by pyarrow: the rows are those of the reader that reads row by row, or that reader is asked."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.errors import InvalidInputError
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions
from flightllm.file_formats.plain_csv import NotPlainError, _Quotes, plain_chunks
from flightllm.file_formats.rows import CsvRows


def by_pyarrow(file: Path, known: CsvOptions) -> list[list[str | None]] | None:
    """Return the rows after the first; None where the file is not plain."""
    with CsvRows(file, known) as rows:
        try:
            return [list(row.values()) for batch in plain_chunks(file, rows) for row in batch.to_pylist()]
        except NotPlainError:
            return None


def one_by_one(file: Path, known: CsvOptions) -> list[list[str | None]] | None:
    """Return the rows after the first; None where the file is wrong."""
    with CsvRows(file, known) as rows:
        try:
            return [list(row) for row in rows]
        except InvalidInputError:
            return None


USUAL = ["", "a", "NA", " b ", "é", '"a"', '""', '"a""b"', '"a,b"', '"a\nb"', '"""a"', "a;b", "'c'"]
ODD = ['a"b', '"a"b', '"', 'a"', 'a""b', '""a', '"a,"b"']
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
OPTIONS = [NOTHING_SAID, CsvOptions(delimiter=",", quote='"', null=("NA",)), CsvOptions(quote="")]


@st.composite
def files(draw: st.DrawFn) -> str:
    """Draw the text of a file with two columns, or nearly so."""
    is_usual = draw(st.booleans())
    cells = st.sampled_from(USUAL if is_usual else USUAL + ODD)
    row = st.lists(cells, min_size=2 if is_usual else 1, max_size=2 if is_usual else 3)
    text = "".join(f"{','.join(cells)}{end}" for cells, end in draw(st.lists(st.tuples(row, ENDS), max_size=8)))
    return "x,y\n1,2\n" + (text if draw(st.booleans()) else text.rstrip("\r\n"))


@given(files(), st.sampled_from(OPTIONS))
def test_same_rows(tmp_path_factory: pytest.TempPathFactory, text: str, known: CsvOptions) -> None:
    """What pyarrow yields is what the other reader yields."""
    file = tmp_path_factory.mktemp("files") / "t.csv"
    file.write_bytes(text.encode())
    found = by_pyarrow(file, known)
    assert found is None or found == one_by_one(file, known)


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n1,x\n2,"y, ""z"""\n',
        '\ufeff"a","b"\r\n"1","two\r\nlines"\r\n',
        '\n\n"a\nb",c\n,\n"",x\n',
        "a\tb\n1\t5'\n",
        "a,b\n",
        "a;b\n'1;2';3\n'4';5\n",
    ],
)
def test_usual_files(tmp_path: Path, text: str) -> None:
    """Usual files are plain."""
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    found = by_pyarrow(file, NOTHING_SAID)
    assert found is not None
    assert found == one_by_one(file, NOTHING_SAID)


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2,3\n", 'a,b\n1,"x"y\n', 'a,b\n1,5"\n', 'a,b\n1,"x\n', "a\n1\n", 'a,b\n1,"x\\"y"\n'],
    ids=["width", "after a quote", "quote at the end", "open", "one column", "escapes"],
)
def test_other_files(tmp_path: Path, text: str) -> None:
    """Unusual files are left to the other reader."""
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    assert by_pyarrow(file, NOTHING_SAID) is None


@given(st.text(alphabet='a,"\n', max_size=40), st.integers(1, 7))
def test_blocks(text: str, size: int) -> None:
    """Quotes are judged alike, however the bytes come."""
    data = text.encode()
    judged = []
    for step in (size, 100):
        quotes = _Quotes(io.BytesIO(data), ",", '"')
        while quotes.read(step):
            pass
        judged.append(quotes.usual)
    assert judged[0] == judged[1]
