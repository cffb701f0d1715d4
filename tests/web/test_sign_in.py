"""Who comes in, and whose requests are taken."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import trustme

from flightllm.config import Config, EngineConfig, HttpConfig, ServerConfig
from flightllm.errors import ConfigError, UnauthenticatedError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.web.http_server import HttpServer
from tests.web.support import PAGE, PASSWORD, Visitor

ROUTES = ("/api/me", "/api/queries", "/api/queries/x", "/api/objects", "/api/load")


def test_nobody_sees_anything_before(page: str) -> None:
    """Every route but the page's own files asks for a login, also where there is a made-up cookie."""
    visitor = Visitor(page)
    for cookie in ("", f"flightllm_page_{visitor.host.partition(':')[2]}=login.AAAA.bbbb"):
        visitor.cookie = cookie
        assert {visitor.get(route)[0] for route in ROUTES} == {401}
        for route in ("/api/statements", "/api/queries/x/cancel", "/api/sign-out"):
            status, answer = visitor.post(route, {"sql": "SELECT 1"})
            assert (status, answer["error"]["sqlstate"]) == (401, "28000")
    assert visitor.send("GET", "/", None, {}).status == 200


@pytest.mark.parametrize(("name", "password"), [("root", "wrong"), ("nobody", PASSWORD), ("", ""), ("root", "")])
def test_wrong_credentials(page: str, name: str, password: str) -> None:
    """They are refused in the same words, without a cookie."""
    visitor = Visitor(page)
    status, answer = visitor.post("/api/sign-in", {"user": name, "password": password})
    assert (status, answer["error"]["message"], visitor.cookie) == (401, "wrong user name or password", "")


def test_an_api_token_signs_in(page: str, database: Database) -> None:
    """It stands in for the password, with or without the user's name, and ends with the token."""
    token = database.access.store.add_token("ann")
    visitor = Visitor(page)
    for name in ("", "ann"):
        assert visitor.post("/api/sign-in", {"user": name, "password": token}) == (200, {"user": "ann"})
    assert visitor.get("/api/me")[1]["user"] == "ann"
    for found in [id_ for id_, kept in database.access.store.snapshot().tokens.items() if kept.user == "ann"]:
        database.access.store.drop_token(database.access.store.snapshot().tokens[found].id)
    assert visitor.get("/api/me")[0] == 401


def test_the_cookie(page: str) -> None:
    """Scripts cannot read it, other sites cannot send it, and it is no server's but this port's."""
    visitor = Visitor(page)
    own = {"content-type": "application/json", "origin": page}
    body = f'{{"user": "ann", "password": "{PASSWORD}"}}'
    cookie = visitor.send("POST", "/api/sign-in", body, own).getheader("set-cookie") or ""
    name, *attributes = cookie.split("; ")
    assert name.startswith(f"flightllm_page_{page.rpartition(':')[2]}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(attributes)
    assert "Secure" not in attributes


def test_sign_out(visit: Callable[[str], Visitor], database: Database) -> None:
    """The session is closed, and a copy of the cookie is worth nothing any more."""
    visitor = visit("ann")
    visitor.rows("SELECT 1")
    mine = [record for record in database.sessions.records() if record.user == "ann"]
    kept = visitor.cookie
    assert visitor.post("/api/sign-out")[0] == 200
    assert visitor.cookie.endswith('=""')
    visitor.cookie = kept
    assert visitor.get("/api/me")[0] == 401
    with pytest.raises(UnauthenticatedError):
        database.access.login.by_token(kept.partition("=")[2])
    assert len([record for record in database.sessions.records() if record.user == "ann"]) == len(mine) - 1


def test_cookies_end_with_the_process(visit: Callable[[str], Visitor], database: Database) -> None:
    """After a restart nobody is signed in, so neither is who had signed out; and a cookie is no bearer token."""
    before = visit("ann").cookie.partition("=")[2]
    other = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    with HttpServer(PAGE, database, other) as restarted:
        visitor = Visitor(restarted.uri or "")
        assert visitor.post("/api/sign-in", {"user": "ann", "password": PASSWORD})[0] == 200
        assert visitor.get("/api/me")[0] == 200
        visitor.cookie = f"{visitor.cookie.partition('=')[0]}={before}"
        assert visitor.get("/api/me")[0] == 401
    other.drain(0)
    with pytest.raises(UnauthenticatedError):
        database.access.login.by_token(before)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://elsewhere.example"},
        {"origin": "null"},
        {"origin": ""},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
def test_requests_of_other_sites(visit: Callable[[str], Visitor], headers: dict[str, str]) -> None:
    """Whatever changes something needs the page's own origin, and a type that no form can send."""
    visitor = visit("root")
    for route in ("/api/statements", "/api/queries/x/cancel", "/api/sign-out", "/api/sign-in"):
        assert visitor.post(route, {"sql": "DROP TABLE open_t"}, **headers)[0] in {400, 403}
    assert visitor.get("/api/me")[0] == 200
    assert visitor.send("GET", "/api/statements", None, {}).status == 405


@pytest.mark.parametrize(("body", "status"), [("{", 400), ("[]", 400), ('{"sql": 1}', 400), ("[" * 100_000, 400)])
def test_bad_bodies(visit: Callable[[str], Visitor], body: str, status: int) -> None:
    """What is no JSON object, or has a number for a text, is refused in words."""
    visitor = visit("ann")
    own = {"content-type": "application/json", "origin": f"http://{visitor.host}"}
    response = visitor.send("POST", "/api/statements", body, own)
    assert response.status == status
    assert b"Traceback" not in response.read()


def test_a_long_body(visit: Callable[[str], Visitor]) -> None:
    """A body far longer than any statement is not read to its end."""
    status, answer = visit("ann").post("/api/statements", {"sql": "x" * 3_000_000})
    assert (status, "sql_bytes" in answer["error"]["message"]) == (413, True)


def test_headers(page: str) -> None:
    """Nothing runs but the page's own scripts, nothing is kept, and no other site shows the page inside its own."""
    visitor = Visitor(page)
    for path in ("/", "/static/main.js", "/api/me", "/nowhere"):
        response = visitor.send("GET", path, None, {})
        policy = response.getheader("content-security-policy") or ""
        assert "default-src 'none'; script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.getheader("x-content-type-options") == "nosniff"
        assert response.getheader("cache-control") == ("no-store" if path == "/api/me" else "no-cache")


def test_files_elsewhere(page: str) -> None:
    """Only the page's own files are served."""
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/"):
        assert Visitor(page).send("GET", path, None, {}).status == 404


def test_a_server_without_users(open_page: str) -> None:
    """It lets its own machine in as an admin, but no site whose name was pointed at this machine."""
    visitor = Visitor(open_page)
    assert visitor.get("/api/me")[0] == 401
    assert visitor.post("/api/sign-in") == (200, {"user": "local"})
    me = visitor.get("/api/me")[1]
    assert (me["user"], me["admin"], me["open"]) == ("local", True, True)
    assert visitor.rows("SELECT 1") == [["1"]]
    port = visitor.host.rpartition(":")[2]
    status, answer = visitor.get("/api/me", host=f"elsewhere.example:{port}")
    assert (status, "hosts in [http]" in answer["error"]["message"]) == (403, True)
    host, origin = f"elsewhere.example:{port}", f"http://elsewhere.example:{port}"
    assert visitor.post("/api/sign-in", host=host, origin=origin)[0] == 403
    assert visitor.post("/api/statements", {"sql": "SELECT 1"}, host=host, origin=origin)[0] == 403


def test_other_names(visit: Callable[[str], Visitor]) -> None:
    """Who signed in is answered under the page's own names alone, its files too, whatever the port and case."""
    signed_in = visit("ann")
    port = signed_in.host.rpartition(":")[2]
    others = ("evil.com", f"evil.com:{port}", "localhost.evil.com", "127.0.0.1.evil.com", "10.0.0.1", "", "[::1", "a b")
    for host in others:
        for path in ("/api/me", "/", "/static/dom.js"):
            assert signed_in.send("GET", path, None, {"host": host}).status in {400, 403}, (host, path)
    for host in ("localhost", f"LocalHost:{port}", "127.0.0.1", f"[::1]:{port}", socket.gethostname()):
        assert signed_in.get("/api/me", host=host)[0] == 200, host


def test_configured_names(database: Database, server: FlightSqlServer) -> None:
    """Names in the configuration are the page's too, and on every address of a machine each address is."""
    with HttpServer(HttpConfig("127.0.0.1:0", page=True, hosts=("llm.example.com",)), database, server) as http:
        visitor = Visitor(http.uri or "")
        assert visitor.get("/api/me", host="LLM.example.com.:8443")[0] == 401
        assert visitor.get("/api/me", host="example.com")[0] == 403
    insecure = ServerConfig(insecure=True)
    with HttpServer(HttpConfig("0.0.0.0:0", page=True), database, server, insecure) as http:
        visitor = Visitor(f"http://127.0.0.1:{http.port}")
        assert visitor.get("/api/me", host="192.0.2.7:9090")[0] == 401
        assert visitor.get("/api/me", host="evil.com")[0] == 403
    with pytest.raises(ConfigError, match="without a port"):
        HttpConfig("127.0.0.1:0", hosts=("a:1",))


def test_beyond_this_machine(database: Database, server: FlightSqlServer) -> None:
    """The page is refused in plain text unless all is trusted; metrics alone are not."""
    everywhere = HttpConfig("0.0.0.0:0", page=True)
    with pytest.raises(ConfigError, match=r"\[http\] listen: 0.0.0.0:0 can be reached .* without TLS"):
        HttpServer(everywhere, database, server, server_config=ServerConfig())
    with HttpServer(everywhere, database, server, server_config=ServerConfig(insecure=True)) as http_server:
        assert http_server.uri is not None
    with HttpServer(HttpConfig("0.0.0.0:0"), database, server, server_config=ServerConfig()) as http_server:
        assert http_server.uri is not None
    with pytest.raises(ConfigError, match=r"\[http\] page needs listen"):
        HttpConfig(page=True)


def test_an_open_server_beyond_this_machine(tmp_path: Path) -> None:
    """Even where all is trusted, a server that asks nobody shows its page to nobody through such an address."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    config = HttpConfig("0.0.0.0:0", page=True)
    with HttpServer(config, database, server, server_config=ServerConfig(insecure=True)) as http_server:
        visitor = Visitor((http_server.uri or "").replace("0.0.0.0", "127.0.0.1"))  # noqa: S104
        assert visitor.post("/api/sign-in")[0] == 403
    server.drain(0)
    database.close()


def test_tls(database: Database, server: FlightSqlServer, tmp_path: Path) -> None:
    """With the server's certificate the page is encrypted, and so is what its cookie travels in."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    config = ServerConfig(tls_certificate=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    page = HttpConfig("127.0.0.1:0", page=True)
    with HttpServer(page, database, server, server_config=config) as http_server:
        uri = http_server.uri or ""
        assert uri.startswith("https://")
        with urlopen(f"{uri}/healthz", context=trust) as answer:  # noqa: S310 - the address is this test's
            assert answer.status == 200
        body = f'{{"user": "ann", "password": "{PASSWORD}"}}'.encode()
        request = Request(  # noqa: S310 - see above
            f"{uri}/api/sign-in", body, {"content-type": "application/json", "origin": uri}
        )
        with urlopen(request, context=trust) as answer:  # noqa: S310 - see above
            assert "; Secure" in answer.headers["set-cookie"]


def test_no_page_unless_asked(database: Database, server: FlightSqlServer) -> None:
    """An address for metrics has no page."""
    with HttpServer(HttpConfig("127.0.0.1:0"), database, server) as http_server:
        visitor = Visitor(http_server.uri or "")
        assert {visitor.send("GET", path, None, {}).status for path in ("/", "/api/me", "/static/main.js")} == {404}
