"""Files at addresses: downloaded from a real server on this machine, or refused with what is wrong."""

import gzip
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner

from flightllm.cli import main
from flightllm.cli.download import download
from flightllm.cli.sources import named_tables
from flightllm.errors import ConfigError

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
    "/program.exe": ("application/octet-stream", b"MZ"),
}


MOVED = {
    "/moved.csv": "/export",
    "/wrong.csv": "http://me:secretpw@127.0.0.1:port/",
    "/file.csv": "file://me:secretpw@h/x.csv",
}
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
        kind, content = PAGES.get(self.path.partition("?")[0], ("text/csv", b""))
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", kind)
        more = {"/short.csv": 5, "/huge.csv": 1 << 60}.get(self.path, 10_000 if self.path.startswith("/drip") else 0)
        self.send_header("Content-Length", str(len(content) + more))
        self.end_headers()
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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_ask_an_address(site: str, tmp_path: Path) -> None:
    """A file at an address is a table; its copy has its name, lies in the working folder, and is told of."""
    result = CliRunner().invoke(main, ["query", "--engine", "fake", "--open", f"{site}/My%20Tickets.csv?key=secret",
                                       "--format", "csv", "SELECT sum(id) AS s FROM my_tickets"])  # fmt: skip
    assert result.stdout.split() == ['"s"', "3"]
    path = tmp_path / "My Tickets.csv"
    assert f"is downloaded to {path}, 16 bytes" in result.stderr
    assert "secret" not in result.stderr
    assert path.read_bytes() == CSV


def test_names_and_redirects(site: str) -> None:
    """Compressed files keep their endings, and a type stands in for an ending; redirects are followed."""
    found = named_tables([f"{site}/packed.csv.gz", f"{site}/export"], lambda _: None)
    assert [(name, Path(place).name) for name, place in found] == [
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
        ("/program.exe", "its name does not end like that of a table"),
        ("/short.csv", "broke off|cannot be downloaded"),
    ],
)
def test_what_is_no_file(site: str, path: str, message: str, tmp_path: Path) -> None:
    """What is no whole file of a table is refused, and nothing stays of it."""
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
        ("SITE/wrong.csv", "is wrong"),
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
    monkeypatch.setattr("flightllm.cli.download._MOST_SECONDS", 0.1)
    with pytest.raises(ConfigError, match=r"drip.csv takes more than 0 seconds: download it by another program"):
        download(f"{site}/drip.csv", tmp_path, lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_no_address() -> None:
    """An address that is none is an error of one line."""
    result = CliRunner().invoke(main, ["query", "--open", "http://[::1/x.csv", "SELECT 1"])
    assert result.output.startswith("error: http://[::1/x.csv cannot be downloaded: the address")
    assert isinstance(result.exception, SystemExit)


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
    """A file beyond the limit is refused, and one that is there already is never written over."""
    with pytest.raises(ConfigError, match="is larger than 15 bytes"):
        download(f"{site}/export", tmp_path, lambda _: None, most_bytes=15)
    (tmp_path / "export.csv").write_text("mine")
    with pytest.raises(ConfigError, match="is there already: name that file"):
        download(f"{site}/export", tmp_path, lambda _: None)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
