"""An OpenAI-compatible endpoint in a process of its own, which can be killed and started again."""

import subprocess
import sys
from socket import create_server
from typing import Self

_SERVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(0.02)
        if "input" in asked:
            answer = {"data": [{"index": i, "embedding": [len(text), 1]} for i, text in enumerate(asked["input"])]}
        else:
            prompt = asked["messages"][0]["content"]
            answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": prompt[-20:]}}]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
server.serve_forever()
"""


class EndpointProcess:
    """It answers a chat by the end of the prompt, and embeds texts by their length; always on the same port."""

    def __init__(self) -> None:
        with create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Return its base URL."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [sys.executable, "-c", _SERVER, str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if self._process.stdout is not None:
            self._process.stdout.readline()

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it."""
        self.stop()
