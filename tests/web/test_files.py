"""Files that a user uploads on the page: temporary tables of the own session, with the own rights and limits."""

import io
import socket
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.web import connections, files
from tests.web.support import Visitor

CSV = b"id;city\n1;Bern\n2;\n"


def parquet() -> bytes:
    """Return a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2], "city": ["Bern", None]}), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("My Cities.csv", CSV),
        ("C:\\folder\\my cities.tsv", CSV.replace(b";", b"\t")),
        ("my-cities.jsonl", b'{"id": 1, "city": "Bern"}\n{"id": 2, "city": null}\n'),
        ("../../my_cities.parquet", parquet()),
        (".my cities.txt", CSV.replace(b";", b"\t")),
    ],
)
def test_formats(visit: Callable[[str], Visitor], name: str, content: bytes) -> None:
    """Each format becomes a table with a name that needs no quotes; the same name again replaces it."""
    ann = visit("ann")
    for _ in range(2):
        status, answer = ann.upload(name, content)
        assert status == 200, answer
        (made,) = answer["tables"]
        assert (made["name"], made["rows"]) == ("my_cities", 2)
    assert ann.rows("SELECT id, city FROM my_cities ORDER BY id") == [["1", "Bern"], ["2", None]]


def test_a_document(visit: Callable[[str], Visitor]) -> None:
    """A text is a row, with the name of its file."""
    ann = visit("ann")
    _, answer = ann.upload("Read me.md", b"# Title\n\nWords.\n")
    (made,) = answer["tables"]
    (row,) = ann.rows(f"SELECT * FROM {made['name']}")
    assert "Read me.md" in row


def test_a_file_of_several_tables(visit: Callable[[str], Visitor]) -> None:
    """Each file in a zip file becomes a table."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("one.csv", "a\n1\n")
        file.writestr("two.csv", "b\n2\n3\n")
    ann = visit("ann")
    _, answer = ann.upload("both.zip", packed.getvalue())
    rows = sorted(one["rows"] for one in answer["tables"])
    assert rows == [1, 2], answer


def test_only_the_own_session_sees_it(
    visit: Callable[[str], Visitor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of a file is listed for its own login, is nobody else's, and ends with the login; no file is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ann, other, root = visit("ann"), visit("ann"), visit("root")
    ann.upload("mine.csv", CSV)

    def listed(visitor: Visitor) -> list[str]:
        return [table["name"] for table in visitor.get("/api/objects")[1]["tables"] if table["temporary"]]

    assert listed(ann) == ["mine"]
    for visitor in (other, root):
        assert listed(visitor) == []
        assert "not found" in visitor.error("SELECT * FROM mine")
    assert list(tmp_path.iterdir()) == []
    ann.post("/api/sign-out")
    assert "not found" in visit("ann").error("SELECT * FROM mine")


def test_it_hides_no_table(visit: Callable[[str], Visitor]) -> None:
    """A file with the name of a table gets another name."""
    ann = visit("ann")
    assert ann.upload("open_t.csv", CSV)[1]["tables"][0]["name"] == "open_t_2"
    assert ann.rows("SELECT count(*) FROM open_t") == [["2000"]]


def test_who_can_upload(visit: Callable[[str], Visitor], page: str) -> None:
    """A readonly user, a visitor who did not sign in, and another site cannot upload."""
    assert visit("rob").upload("mine.csv", CSV)[0] == 403
    assert Visitor(page).upload("mine.csv", CSV)[0] == 401
    assert visit("ann").upload("mine.csv", CSV, origin="http://elsewhere.example")[0] == 403
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded"):
        assert visit("ann").upload("mine.csv", CSV, **{"content-type": kind})[0] == 400


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.exe", b"x", "cannot be a table"),
        ("", b"x", "cannot be a table"),
        ("broken.parquet", b"PAR1 no PAR1", "not a valid Parquet file"),
        ("broken.xlsx", b"no", "cannot be read as a spreadsheet"),
        ("broken.json", b'{"a": ', "line 1"),
        ("mine.csv", b"", ""),
    ],
)
def test_bad_files(visit: Callable[[str], Visitor], name: str, content: bytes, words: str) -> None:
    """A file that cannot be read is refused in words, without a path of the server."""
    status, answer = visit("ann").upload(name, content)
    assert status == 400, answer
    assert words in answer["error"]["message"]
    assert tempfile.gettempdir() not in answer["error"]["message"]


def test_a_large_file(visit: Callable[[str], Visitor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beyond the bound is refused."""
    monkeypatch.setattr(files, "MOST_BYTES", 1_000)
    status, answer = visit("ann").upload("mine.csv", b"a\n" + b"1\n" * 1_000)
    assert (status, "at most 1,000 bytes" in answer["error"]["message"]) == (413, True)


def test_a_slow_file(visit: Callable[[str], Visitor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file can take longer than other requests as long as its bytes arrive."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)
    ann = visit("ann")
    host, _, port = ann.host.partition(":")
    head = (
        f"POST /api/files?name=slow.csv HTTP/1.1\r\nhost: {ann.host}\r\norigin: http://{ann.host}\r\n"
        f"cookie: {ann.cookie}\r\n"
        "content-type: application/octet-stream\r\ncontent-length: 22\r\nconnection: close\r\n\r\n"
    )
    with closing(socket.create_connection((host, int(port)), timeout=60)) as opened:
        opened.sendall(head.encode())
        opened.settimeout(0.1)
        for _ in range(11):  # 1.1 seconds at least
            with pytest.raises(TimeoutError):
                opened.recv(1)
            opened.sendall(b"1\n")
        opened.settimeout(60)
        assert b"200 OK" in opened.recv(10_000)
