"""Files that a user uploads on the page: temporary tables of the own session, with the own rights and limits."""

import io
import socket
import struct
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.catalog.conversion import AT_ONCE, _place
from flightllm.flight.server import FlightSqlServer
from flightllm.web import connections, files
from tests.servers import await_true
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
    ann = visit("ann")
    _, answer = ann.upload("both.zip", zipped({"one.csv": b"a\n1\n", "two.csv": b"b\n2\n3\n"}))
    rows = sorted(one["rows"] for one in answer["tables"])
    assert rows == [1, 2], answer


def zipped(members: dict[str, bytes]) -> bytes:
    """Return a zip file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return packed.getvalue()


def temporary_tables(visitor: Visitor) -> list[str]:
    """Return the names of a login's temporary tables."""
    return [table["name"] for table in visitor.get("/api/objects")[1]["tables"] if table["temporary"]]


def test_members_with_one_name(visit: Callable[[str], Visitor]) -> None:
    """Two members whose tables would have one name are two tables."""
    _, answer = visit("ann").upload("two.zip", zipped({"x/a b.csv": b"a\n1\n", "x/a_b.csv": b"a\n1\n2\n"}))
    assert [(one["name"], one["rows"]) for one in answer["tables"]] == [("two_x_a_b_csv", 1), ("two_x_a_b_csv_2", 2)]


def test_a_bad_member(visit: Callable[[str], Visitor]) -> None:
    """A member that cannot be read is named; no table is made, and an earlier one of the same name stays."""
    ann = visit("ann")
    status, answer = ann.upload("two.zip", zipped({"good.csv": b"a\n1\n", "bad.parquet": b"PAR1 no PAR1"}))
    assert (status, answer["error"]["message"]) == (400, "bad.parquet is not a valid Parquet file")
    status, answer = ann.upload("two.zip", zipped({"good.csv": b"a\n1\n", "bad.json": b'{"a": '}))
    assert status == 400
    assert answer["error"]["message"].startswith("bad.json: line 1")
    assert temporary_tables(ann) == []
    ann.upload("two_good_csv.csv", b"a\n7\n")
    ann.upload("two.zip", zipped({"good.csv": b"a\n1\n", "bad.parquet": b"PAR1 no PAR1"}))
    assert ann.rows("SELECT * FROM two_good_csv") == [["7"]]


def test_a_member_whose_rows_are_too_large(
    visit: Callable[[str], Visitor], server: FlightSqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member whose rows are beyond the limit is named, and the tables before it are dropped."""
    monkeypatch.setattr(server.core, "limits", replace(server.core.limits, upload_bytes=4_000))
    ann = visit("ann")
    status, answer = ann.upload("two.zip", zipped({"good.csv": b"a\n1\n", "long.csv": b"a\n" + b"1\n" * 1_000}))
    assert status == 413, answer
    assert answer["error"]["message"].startswith("long.csv: the upload has ")
    assert temporary_tables(ann) == []


def test_a_zip_file_that_unpacks_to_too_much(visit: Callable[[str], Visitor]) -> None:
    """A zip file whose members are larger than the limit is refused before it is unpacked."""
    packed = bytearray(zipped({"rows.csv": b"a\n1\n"}))
    struct.pack_into("<I", packed, packed.index(b"PK\1\2") + 24, 2_500_000_000)
    status, answer = visit("ann").upload("rows.zip", bytes(packed))
    assert status == 413, answer
    said = "its files have 2,500,000,000 bytes; [limits] upload_bytes = 1,073,741,824 is the most"
    assert said in answer["error"]["message"]


def test_a_visitor_who_leaves(visit: Callable[[str], Visitor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload that waits for a place to read the names of its tables ends once its visitor has left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ann, content = visit("ann"), zipped({"rows.csv": b"a\n1\n"})
    host, _, port = ann.host.partition(":")
    head = (
        f"POST /api/files?name=rows.zip HTTP/1.1\r\nhost: {ann.host}\r\norigin: http://{ann.host}\r\n"
        f"cookie: {ann.cookie}\r\ncontent-type: application/octet-stream\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    with ExitStack() as taken:
        for _ in range(AT_ONCE):
            taken.enter_context(_place(lambda: False))
        with closing(socket.create_connection((host, int(port)), timeout=60)) as opened:
            opened.sendall(head.encode() + content)
            await_true(lambda: len(list(tmp_path.iterdir())) == 2)  # that of the file, and that of the names
        await_true(lambda: list(tmp_path.iterdir()) == [])


def test_only_the_own_session_sees_it(
    visit: Callable[[str], Visitor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of a file is listed for its own login, is nobody else's, and ends with the login; no file is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ann, other, root = visit("ann"), visit("ann"), visit("root")
    ann.upload("mine.csv", CSV)
    assert temporary_tables(ann) == ["mine"]
    for visitor in (other, root):
        assert temporary_tables(visitor) == []
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
