"""Tokens whose keys are at an address, which may not answer."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec

from flightllm.access.claims import JwtClaims
from flightllm.config import AuthConfig
from flightllm.errors import UnauthenticatedError


class Provider(ThreadingHTTPServer):
    """Signs tokens, and publishes the key for that; `answering` cleared, it lets requests wait."""

    daemon_threads = True

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.answering = threading.Event()
        self.answering.set()
        self.asked = threading.Semaphore(0)
        self.requests = 0
        self.leads_to = ""
        self.rotate("k1")
        self.claims = JwtClaims(AuthConfig(jwks=f"https://127.0.0.1:{self.server_port}/keys"))

    def rotate(self, kid: str) -> None:
        """Sign with a new key, and publish it alone."""
        self._kid, self._key = kid, ec.generate_private_key(ec.SECP256R1())
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        self.published = json.dumps({"keys": [{**public, "kid": kid, "use": "sig", "alg": "ES256"}]}).encode()

    def token(self, kid: str | None = None) -> str:
        """Return a token that is valid for a minute."""
        claims = {"sub": "carol", "exp": time.time() + 60}
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": kid or self._kid})


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        """Send the keys, once there is an answer."""
        self.server.requests += 1
        self.server.asked.release()
        self.server.answering.wait()
        if self.server.leads_to:
            self.send_response(302)
            self.send_header("Location", self.server.leads_to)
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.published)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """Run a provider, whose keys are out of date at once."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    with pytest.MonkeyPatch.context() as patch, Provider(authority) as provider:
        patch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        patch.setattr("flightllm.access.keys._KEPT_SECONDS", 0.0)
        threading.Thread(target=provider.serve_forever, args=(0.01,), daemon=True).start()
        yield provider
        provider.answering.set()
        provider.shutdown()


@pytest.mark.slow
def test_known_keys_hold_while_the_address_hangs(provider: Provider) -> None:
    """Several calls at once are answered by the keys fetched before, although the fetch of newer ones goes on."""
    token = provider.token()
    assert provider.claims.read(token)["sub"] == "carol"
    provider.answering.clear()
    with ThreadPoolExecutor(4) as pool:
        assert [claims["sub"] for claims in pool.map(provider.claims.read, [token] * 8)] == ["carol"] * 8
    assert provider.requests == 2


def test_known_keys_hold_while_the_address_is_gone(provider: Provider) -> None:
    """A provider that refuses connections, or answers something else, takes no key away."""
    token = provider.token()
    provider.claims.read(token)
    for published in (b"<html>down</html>", b'{"keys": []}'):
        provider.published = published
        assert provider.claims.read(token)["sub"] == "carol"
    provider.shutdown()
    provider.server_close()
    assert provider.claims.read(token)["sub"] == "carol"


def test_a_withdrawn_key(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys out of date are fetched anew before they are used."""
    monkeypatch.setattr("flightllm.access.keys._PATIENCE_SECONDS", 60.0)
    token = provider.token()
    provider.claims.read(token)
    provider.rotate("k2")
    with pytest.raises(UnauthenticatedError, match="the key 'k1', which the server does not know"):
        provider.claims.read(token)


def test_unknown_keys_are_asked_for_now_and_then(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes key ids up has the set fetched no more often; a new key is found, by all who wait for it."""
    provider.claims.read(provider.token())
    for kid in ("made", "up"):
        with pytest.raises(UnauthenticatedError, match="does not know"):
            provider.claims.read(provider.token(kid))
    assert provider.requests == 1
    monkeypatch.setattr("flightllm.access.keys._AGAIN_SECONDS", 0.0)
    provider.rotate("k2")
    provider.answering.clear()
    asked = provider.asked
    asked.acquire()
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(provider.claims.read, provider.token()) for _ in range(4)]
        asked.acquire()
        provider.answering.set()
        assert [future.result()["sub"] for future in found] == ["carol"] * 4


def test_no_keys_at_all(provider: Provider) -> None:
    """The message does not say that the token is wrong."""
    provider.published = b"<html>down</html>"
    with pytest.raises(UnauthenticatedError, match="cannot fetch the keys"):
        provider.claims.read(provider.token())


def test_no_keys_of_another_host(provider: Provider) -> None:
    """An address that redirects gives no keys: whoever answers there could sign tokens."""
    provider.leads_to = f"https://localhost:{provider.server_port}/keys"
    with pytest.raises(UnauthenticatedError, match="cannot fetch the keys"):
        provider.claims.read(provider.token())
    assert provider.requests == 1
