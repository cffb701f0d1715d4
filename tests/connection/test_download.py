"""Files at addresses: downloaded from a real server on this machine, or refused with what is wrong."""

import gzip
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner

from flightllm.cli import main
from flightllm.connection.download import download
from flightllm.connection.sources import named_tables
from flightllm.errors import ConfigError
from tests.servers import await_true

CSV = b"id;body\n1;a\n2;b\n"
PAGES = {
    "/My%20Tickets.csv": ("text/csv", CSV),
    "/packed.csv.gz": ("application/gzip", gzip.compress(CSV)),
    "/export": ("text/csv; charset=utf-8", CSV),
    "/page.csv": ("text/html; charset=utf-8", b"<html>"),
    "/blob.csv": ("text/plain", b"  <!DOCTYPE html><html>Sign in</html>"),
    "/short.csv": ("text/csv", CSV),
    "/huge.csv": ("text/csv", CSV),
    "/large.csv": ("text/csv", CSV * 1_000),
    "/drip.csv": ("text/csv", CSV),
    "/drip_page.csv": ("text/csv", b"<html>"),
    "/sent_packed.csv": ("text/csv", gzip.compress(CSV)),
    "/cut.csv": ("text/csv", gzip.compress(CSV)[:-9]),
    "/bomb.csv": ("text/csv", gzip.compress(CSV * 1_000)),
    "/really.csv.gz": ("text/csv", gzip.compress(CSV)),
    "/brotli.csv": ("text/csv", CSV),
    "/program.exe": ("application/octet-stream", b"MZ"),
}


MOVED = {
    "/moved.csv": "/export",
    "/wrong.csv": "http://me:secretpw@127.0.0.1:port/",
    "/file.csv": "file://me:secretpw@h/x.csv",
}
VERSIONS: dict[str, str] = {}
"""The ETag, or the time of the last change, of each page that has one."""
ENCODINGS = {
    "/sent_packed.csv": "gzip",
    "/cut.csv": "gzip",
    "/bomb.csv": "gzip",
    "/really.csv.gz": "x-gzip",
    "/brotli.csv": "br",
}
MEANWHILE: dict[str, Callable[[], object]] = {}
"""An action between the headers of a page and its content."""
GIVEN: list[tuple[str, str | None]] = []
"""The path and the login of each request."""


class Site(BaseHTTPRequestHandler):
    """Answers with `PAGES`; what it does not have is 404, and `short.csv` and `huge.csv` break off."""

    def do_GET(self) -> None:
        """Answer."""
        GIVEN.append((self.path, self.headers["Authorization"]))
        if self.path in MOVED:
            self.send_response(302)
            self.send_header("Location", MOVED[self.path])
            self.end_headers()
            return
        version = VERSIONS.get(self.path, "")
        if version and version in {self.headers["If-None-Match"], self.headers["If-Modified-Since"]}:
            self.send_response(304)
            self.end_headers()
            return
        kind, content = PAGES.get(self.path.partition("?")[0], ("text/csv", b""))
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", kind)
        if version:
            self.send_header("ETag" if version.startswith('"') else "Last-Modified", version)
        if self.path in ENCODINGS:
            self.send_header("Content-Encoding", ENCODINGS[self.path])
        more = {"/short.csv": 5, "/huge.csv": 1 << 60}.get(self.path, 10_000 if self.path.startswith("/drip") else 0)
        self.send_header("Content-Length", str(len(content) + more))
        self.end_headers()
        MEANWHILE.get(self.path, lambda: None)()
        if self.path.startswith("/drip"):
            self._drip(content)
        else:
            self.wfile.write(content)

    def _drip(self, content: bytes) -> None:
        """Send a byte at a time, and then spaces, until the other end hangs up."""
        with suppress(OSError):
            for byte in content + b" " * 10_000:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                Event().wait(0.01)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a site; the test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path / "home"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_ask_an_address(site: str, tmp_path: Path) -> None:
    """A file at an address is a table; its copy has its name, lies in the working folder, and is told of."""
    result = CliRunner().invoke(main, ["query", "--engine", "fake", "--open", f"{site}/My%20Tickets.csv?key=secret",
                                       "--format", "csv", "SELECT sum(id) AS s FROM my_tickets"])  # fmt: skip
    assert result.stdout.split() == ['"s"', "3"]
    path = tmp_path / "My Tickets.csv"
    assert f"was downloaded to {path}, 16 bytes" in result.stderr
    assert "secret" not in result.stderr
    assert path.read_bytes() == CSV


def test_names_and_redirects(site: str) -> None:
    """Compressed files keep their endings, and a type stands in for an ending; redirects are followed."""
    found = named_tables([f"{site}/packed.csv.gz", f"{site}/export"], lambda _: None)
    assert [(name, Path(str(place)).name) for name, place in found] == [
        ("packed", "packed.csv.gz"),
        ("export", "export.csv"),
    ]
    assert download(f"{site}/moved.csv", Path.cwd(), lambda _: None).read_bytes() == CSV


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/none.csv", "cannot be downloaded: HTTP 404 Not Found"),
        ("/page.csv", "is a web page, not a file"),
        ("/blob.csv", "is a web page, not a file"),
        ("/program.exe", "neither the ending of its name"),
        ("/short.csv", "too early|cannot be downloaded"),
        ("/cut.csv", "ended too early"),
        ("/brotli.csv", "is sent with the compression 'br'"),
    ],
)
def test_no_file_of_a_table(site: str, path: str, message: str, tmp_path: Path) -> None:
    """A page, a file cut short or a file of another kind is refused, and leaves nothing behind."""
    with pytest.raises(ConfigError, match=message):
        named_tables([f"{site}{path}"], lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_login(site: str, tmp_path: Path) -> None:
    """A user and a password of an address go to its host as a login, not to where that leads, and are never told."""
    told: list[str] = []
    address = site.replace("//", "//me:p%40ss@")
    GIVEN.clear()
    download(f"{address}/moved.csv", tmp_path, told.append)
    assert [*GIVEN] == [("/moved.csv", f"Basic {b64encode(b'me:p@ss').decode()}"), ("/export", None)]
    assert [line for line in told if "p%40ss" in line or "p@ss" in line] == []


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://me:secretpw@127.0.0.1:1/x.csv", "https://127.0.0.1:1/x.csv cannot be downloaded"),
        ("https://me:secretpw@127.0.0.1:port/x.csv", "https://127.0.0.1:port/x.csv cannot be downloaded"),
        ("http://127.0.0.1:1/x.csv?X-Amz-Signature=secretpw", "http://127.0.0.1:1/x.csv cannot be downloaded"),
        ("ftp://me:secretpw@h/x.csv", "ftp://h/x.csv: an address begins with"),
        ("SITE/wrong.csv", "is not valid"),
        ("SITE/file.csv", "HTTP 302"),
    ],
)
def test_no_secret_is_told(site: str, address: str, said: str) -> None:
    """No error shows the secret in an address, or in one that a server leads to."""
    with pytest.raises(ConfigError) as raised:
        named_tables([address.replace("SITE", site)], lambda _: None)
    assert said in str(raised.value)
    assert "secretpw" not in str(raised.value)


def test_nobody_answers() -> None:
    """A host where nothing listens is told."""
    with pytest.raises(ConfigError, match=r"cannot be downloaded: .*refused"):
        named_tables(["http://127.0.0.1:1/a.csv"], lambda _: None)


def test_a_slow_server(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come one by one count as they come, for the limits and for what is a web page."""
    with pytest.raises(ConfigError, match="is a web page"):
        download(f"{site}/drip_page.csv", tmp_path, lambda _: None)
    monkeypatch.setattr("flightllm.connection.download._MOST_SECONDS", 0.1)
    with pytest.raises(ConfigError, match=r"drip.csv takes more than 0 seconds: download it with another program"):
        download(f"{site}/drip.csv", tmp_path, lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_packed_on_its_way(site: str, tmp_path: Path) -> None:
    """A file that its server packs unasked is stored unpacked; one that is a packed file stays so."""
    assert download(f"{site}/sent_packed.csv", tmp_path, lambda _: None).read_bytes() == CSV
    assert gzip.decompress(download(f"{site}/really.csv.gz", tmp_path, lambda _: None).read_bytes()) == CSV
    with pytest.raises(ConfigError, match="is larger than 1,000 bytes"):
        download(f"{site}/bomb.csv", tmp_path, lambda _: None, most_bytes=1_000)


def test_a_file_made_meanwhile(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that somebody makes during the download stays."""

    def make() -> None:
        """Make the file once the download has begun."""
        await_true(lambda: any(tmp_path.iterdir()))
        (tmp_path / "export.csv").write_text("mine")

    monkeypatch.setitem(MEANWHILE, "/export", make)
    with pytest.raises(ConfigError, match=r"export.csv exists: name that file"):
        download(f"{site}/export", tmp_path, lambda _: None)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("version", ['"1"', "Wed, 01 Jan 2025 00:00:00 GMT", ""])
def test_start_again(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """A second start uses the file of the first, or replaces it if there is a newer version."""
    address = f"{site.replace('//', '//me:hunter2@')}/export?api_key=hunter3"
    path = "/export?api_key=hunter3"
    told: list[str] = []
    monkeypatch.setitem(VERSIONS, path, version)
    assert named_tables([address], told.append) == [("export", tmp_path / "export.csv")]
    assert named_tables([address], told.append) == [("export", tmp_path / "export.csv")]
    assert ("has no newer version" in told[-1]) == bool(version)
    monkeypatch.setitem(VERSIONS, path, '"2"')
    monkeypatch.setitem(PAGES, "/export", ("text/csv", b"id\n3\n"))
    assert named_tables([address], told.append) == [("export", tmp_path / "export.csv")]
    assert (tmp_path / "export.csv").read_bytes() == b"id\n3\n"
    assert "was downloaded to" in told[-1]
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert "hunter" not in "".join(told)
    assert b"hunter" not in written


def test_start_again_without_the_site(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the download fails, a second start uses the file of the first, and says why."""
    told: list[str] = []
    download(f"{site}/export", tmp_path, told.append)
    monkeypatch.setitem(PAGES, "/export", ("text/html", b"<html>"))
    assert download(f"{site}/export", tmp_path, told.append).read_bytes() == CSV
    monkeypatch.setitem(PAGES, "/export", ("text/csv", b""))
    assert download(f"{site}/export", tmp_path, told.append).read_bytes() == CSV
    assert "is a web page, not a file" in told[1]
    assert told[2].endswith(f"HTTP 404 Not Found; using the file that was downloaded before, {tmp_path}/export.csv")


def test_files_of_others(site: str, tmp_path: Path) -> None:
    """A file that was changed since its download, or that came from another address, is never written over."""
    download(f"{site}/export?key=1", tmp_path, lambda _: None)
    with pytest.raises(ConfigError, match="exists: name that file"):
        download(f"{site}/export?key=2", tmp_path, lambda _: None)
    (tmp_path / "export.csv").write_text("mine")
    with pytest.raises(ConfigError, match="exists: name that file"):
        download(f"{site}/export?key=1", tmp_path, lambda _: None)
    assert (tmp_path / "export.csv").read_text() == "mine"
    for record in tmp_path.glob(".flightllm-*"):
        record.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="exists: name that file"):
        download(f"{site}/export?key=1", tmp_path, lambda _: None)


def test_no_address() -> None:
    """An address that is none is an error of one line."""
    result = CliRunner().invoke(main, ["query", "--open", "http://[::1/x.csv", "SELECT 1"])
    assert result.output.startswith("error: http://[::1/x.csv cannot be downloaded: the address")
    assert isinstance(result.exception, SystemExit)


@pytest.mark.slow
def test_no_space(site: str, tmp_path: Path) -> None:
    """A file for which the disk has no space, and one that cannot be written to its end, are errors that name it."""
    with pytest.raises(ConfigError, match=r"/huge.csv has 1,152,921,504,606,846,992 bytes, and .* has space for"):
        download(f"{site}/huge.csv", tmp_path, lambda _: None, most_bytes=1 << 61)
    command = 'ulimit -f 8; exec "$0" -B -m flightllm query --engine fake --open "$1" "SELECT 1"'
    started = ["/bin/sh", "-c", command, sys.executable, f"{site}/large.csv"]
    done = subprocess.run(started, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"error: cannot write {tmp_path / 'large.csv'}: File too large\n")
    assert list(tmp_path.iterdir()) == []


def test_limits(site: str, tmp_path: Path) -> None:
    """A file beyond the limit is refused, and one that exists: name that file is never written over."""
    with pytest.raises(ConfigError, match="is larger than 15 bytes"):
        download(f"{site}/export", tmp_path, lambda _: None, most_bytes=15)
    (tmp_path / "export.csv").write_text("mine")
    with pytest.raises(ConfigError, match="exists: name that file"):
        download(f"{site}/export", tmp_path, lambda _: None)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
