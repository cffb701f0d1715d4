"""Object stores keep their keys to themselves."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from flightllm.catalog.files import open_address
from flightllm.config import ObjectStoreConfig, StorageConfig
from flightllm.errors import InvalidInputError
from flightllm.storage.objects import ObjectStores


@contextmanager
def _server(host: str, status: int, place: str = "") -> Iterator[tuple[str, list[str]]]:
    """Run a server that answers each request with a status, and redirects to `place`; yield its address and headers."""
    got = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(f"{self.path}\n{self.headers}")
            self.send_response(status)
            if place:
                self.send_header("Location", place + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - the base class's name

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    with ThreadingHTTPServer((host, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://{host}:{server.server_port}", got
        server.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_a_redirect_takes_no_key_along(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that redirects to another port or host: the other server gets no key and no signature."""
    monkeypatch.setenv("STORE_ID", "canary-of-an-id")
    monkeypatch.setenv("STORE_KEY", "canary-of-a-key")
    keys = {"access_key_id": "env:STORE_ID", "secret_access_key": "env:STORE_KEY"}
    with _server(host, 403) as (other, theirs), _server("127.0.0.1", 307, other) as (endpoint, ours):
        lake = ObjectStoreConfig("s3://lake", endpoint=endpoint, allow_http=True, **keys)
        stores = ObjectStores(StorageConfig((), {"lake": lake}))
        for address in ("s3://lake/x/", "s3://lake/x.parquet"):
            with pytest.raises(InvalidInputError) as caught:
                open_address(address, stores)
            assert "canary-of" not in str(caught.value)
    assert all("canary-of-an-id" in one for one in ours)  # each request to the store is signed
    assert len(theirs) >= 2
    assert not [one for one in theirs if "canary-of" in one or "authorization" in one.lower()]
