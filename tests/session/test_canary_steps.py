"""A secret of each kind, while each step of a request fails: no place that a user can look at shows it."""

import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme

from tests.canaries import CANARY, FORMS, UNKNOWN, Watched, watched_server
from tests.endpoints import Body, Reply, answer, endpoint_of
from tests.web.support import Visitor

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

ECHO = " ".join([*FORMS.values(), f"AUTHORIZATION: BEARER {CANARY.upper()}", f"authorization: bearer {CANARY.lower()}"])
STATUSES = (400, 401, 402, 403, 404, 422, 429, 500, 503)
STEPS = (*(f"status {status}" for status in STATUSES), "no json", "wrong shape", "text", "late", "moved", "cut short")
SECRET_SQL = (
    f"CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION 's3://me:{UNKNOWN}@lake/x.parquet'",
    f"CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION 'https://a.example/x.parquet?sig={quote(UNKNOWN, safe='')}'",
    f"CREATE EXTERNAL TABLE x STORED AS CSV LOCATION 's3://lake/x.csv' OPTIONS ('aws.secret_access_key' '{UNKNOWN}')",
    f"CREATE EXTERNAL TABLE x STORED AS CSV LOCATION 's3://lake/x.csv' OPTIONS ('{CANARY}' 'x')",
    f"CREATE SECRET s (TYPE s3, KEY_ID '{UNKNOWN}', SECRET '{UNKNOWN}')",
    f"CREATE STORE s OPTIONS (sas_token '{UNKNOWN}', google_service_account_key '{UNKNOWN}')",
    f"COPY t FROM 's3://lake/x.csv' CREDENTIALS 'aws_secret_access_key={UNKNOWN}'",
    f"COPY (SELECT 1) TO 's3://lake/x.csv' OPTIONS (secret_access_key '{UNKNOWN}')",
    f"SET aws.secret_access_key = '{UNKNOWN}'",
    f"CREATE USER bob PASSWORD '{UNKNOWN}'",
    f"ALTER USER bob IDENTIFIED BY '{UNKNOWN}'",
    f"ATTACH 'postgres://me:{UNKNOWN}@h/db' AS other",
    f"SELECT * FROM 'https://me:{quote(UNKNOWN, safe='')}@a.example/x.parquet'",
    f"SELECT * FROM read_parquet('https://a.example/x.parquet?X-Amz-Signature={UNKNOWN}')",
)


def _failing(_path: str, body: Body, _: int) -> Reply:
    """Fail as the prompt says, and quote the key in all its forms."""
    how = json.dumps(body)
    for status in STATUSES:
        if f"status {status}" in how:
            error = {"message": ECHO, "code": CANARY, "param": CANARY, "type": CANARY}
            return status, {"error": error}, {"retry_after": CANARY, "x_request_id": CANARY}
    if "moved" in how:
        return 307, {}, {"Location": f"http://someone:{quote(CANARY, safe='')}@127.0.0.2:1/v1?key={CANARY}"}
    if "wrong shape" in how:
        return 200, {CANARY: ECHO, "choices": [{"message": {"content": {CANARY: CANARY}}}]}, {}
    if "no json" in how:
        return 200, f'{{"choices": "{ECHO}'.encode(), {}  # type: ignore[return-value]
    if "text" in how:
        return 200, ECHO.encode(), {"Content-Type": f"text/{CANARY}"}  # type: ignore[return-value]
    if "cut short" in how:
        return 200, ECHO.encode(), {"Content-Length": "100000", "Connection": "close"}  # type: ignore[return-value]
    if "late" in how:
        threading.Event().wait(3)
        return 200, {}, {"Connection": "close"}
    return answer("/v1/chat/completions", {"model": "x", "messages": [{"content": "fine"}]})


class _Echo(BaseHTTPRequestHandler):
    """Refuses all requests, and quotes their headers; keeps what comes."""

    got: list[bytes]

    def _refuse(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        self.got.append(self.rfile.read(length))
        said = (
            f"<Error><Code>InvalidAccessKeyId</Code><Message>{FORMS['plain']} {self.headers}</Message></Error>".encode()
        )
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    do_GET = do_HEAD = do_PUT = do_POST = _refuse  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@contextmanager
def _server(context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """Run a server that refuses all; yield its port and the bodies that it gets."""
    got: list[bytes] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Echo", (_Echo,), {"got": got})) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a refused certificate
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port, got
        server.shutdown()


def _ask_models(watched: Watched, url: str, strange: int) -> None:
    """Let each step of a request fail, with the key in each option that can refer to it."""
    refers = {
        "key": "api_key 'env:CANARY'",
        "header": 'headers \'{"X-Key": "env:CANARY"}\'',
        "query": 'query \'{"sig": "env:CANARY"}\'',
        "body": f"extra_body '{json.dumps({'token': CANARY})}'",
    }
    for name, option in refers.items():
        more = f"{option}, timeout 1, max_retries 0" + ("" if name == "key" else ", api_key 'env:CANARY'")
        for how in STEPS if name == "key" else STEPS[1:2]:  # a new model each: some errors hold for all later requests
            watched.tell(f"CREATE OR REPLACE MODEL m OPTIONS (engine 'openai', model 'x', base_url '{url}', {more})")
            watched.tell(f"SELECT ai_gen('{how} {name}', model => m) AS a")
        watched.tell(f"EXPLAIN ANALYZE SELECT ai_gen('status 500 {name}', model => m) AS a")
        for place in (f"https://127.0.0.1:{strange}/v1", "http://127.0.0.1:1/v1", "http://no-such-host.invalid/v1"):
            watched.tell(f"CREATE OR REPLACE MODEL n OPTIONS (engine 'openai', model 'x', base_url '{place}', {more})")
            watched.tell("SELECT ai_gen('x', model => n) AS a")
    watched.prepare(f"CREATE MODEL o OPTIONS (engine 'openai', model 'x', api_key '{UNKNOWN}')")


def _look_around(watched: Watched, config: Path) -> None:
    """Read the web page, the metrics, and what the commands print."""
    visitor = Visitor(watched.page)
    assert visitor.post("/api/sign-in")[0] == 200
    for path in ("queries", "objects", "load", "me"):
        watched.said.append((path, str(visitor.get(f"/api/{path}"))))
    for sql in SECRET_SQL:
        watched.said.append(("page", str(visitor.run(sql))))
    watched.said.append(("metrics", visitor.send("GET", "/metrics", None, {}).read().decode()))
    assert "flightllm_" in watched.said[-1][1]
    for command in (["stats", "--once"], ["queries", "--limit", "500"], ["tables"], ["quarantine"], ["doctor"]):
        where = ["--config", str(config)] if command == ["doctor"] else ["--uri", watched.uri]
        done = subprocess.run(
            [sys.executable, "-m", "flightllm", *command, *where], capture_output=True, text=True, check=False
        )
        watched.said.append((command[0], done.stdout + done.stderr))


@pytest.mark.slow
def test_each_step(tmp_path: Path) -> None:
    """Endpoints, certificates, stores and statements fail, and quote the secret: it is shown nowhere."""
    strange = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(strange)
    with endpoint_of(_failing) as endpoint, _server() as (port, got), _server(strange) as (encrypted, _):
        more = f"""
[http]
listen = "127.0.0.1:0"
page = true
metrics = true
[embedding]
kind = "openai"
model = "status 401"
base_url = "{endpoint.url}"
api_key_env = "CANARY"
max_retries = 0
timeout = 1
extra_body = {{token = "{CANARY}"}}
[tracing]
endpoint = "http://me:{quote(CANARY, safe="")}@127.0.0.1:{port}/v1/traces"
[storage.object_stores.lake]
url = "s3://lake"
endpoint = "http://127.0.0.1:{port}"
allow_http = true
access_key_id = "env:CANARY"
secret_access_key = "env:CANARY"
"""
        with watched_server(tmp_path, "console", more) as watched:
            _ask_models(watched, endpoint.url, encrypted)
            watched.tell("SELECT ai_similarity('a', 'b') AS a")
            for sql in SECRET_SQL:
                watched.tell(sql)
                watched.prepare(sql)
            watched.tell("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION 's3://lake/x/'")
            watched.tell_all()
            _look_around(watched, tmp_path / "server.toml")
        for how in STEPS:
            assert any(how in json.dumps(body) for body in endpoint.bodies)
        assert any("InvalidAccessKeyId" in text for _, text in watched.said)
        assert any("401" in text and "embedding" in text for _, text in watched.said)
        assert any("certificate is not trusted" in text for _, text in watched.said)
        assert any(b"flightllm" in body for body in got)  # the spans
        watched.said += [("spans", body.decode("latin-1")) for body in got]
        assert watched.leaks() == []
