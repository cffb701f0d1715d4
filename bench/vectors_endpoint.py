"""A local endpoint of embeddings, as the API of OpenAI documents it: similar vectors for texts about the same thing.

    python -m bench.vectors_endpoint DIMENSIONS NOISE

It prints its address. A text names its thing after the last `#`. Its vector is a direction of the thing and, `NOISE`
times as long, a direction of the text. Vectors come as base64 or as lists of numbers, as the request wishes.
"""

import json
import sys
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE, Popen
from typing import Any

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=4_096)
def _direction(name: str, dimensions: int) -> NDArray[np.float32]:
    found = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(dimensions, np.float32)
    return np.asarray(found / np.linalg.norm(found), np.float32)


def vector(text: str, dimensions: int, noise: float) -> NDArray[np.float32]:
    """Return the vector of a text, with length 1."""
    found = _direction(text.rpartition("#")[2], dimensions) + noise * _direction(text, dimensions)
    return np.asarray(found / np.linalg.norm(found), np.float32)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, dimensions: int, noise: float, *given: Any) -> None:
        self._dimensions, self._noise = dimensions, noise
        super().__init__(*given)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        given = body["input"]
        texts = [given] if isinstance(given, str) else given
        base64 = body.get("encoding_format") == "base64"
        data = []
        for index, text in enumerate(texts):
            found = vector(text, self._dimensions, self._noise)
            embedding = b64encode(found.astype("<f4").tobytes()).decode() if base64 else found.tolist()
            data.append({"object": "embedding", "index": index, "embedding": embedding})
        tokens = sum(len(text) // 4 for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        reply = json.dumps({"object": "list", "data": data, "model": body["model"], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@contextmanager
def vectors_endpoint(dimensions: int, noise: float) -> Iterator[str]:
    """Run the endpoint in a process of its own; yield its base URL."""
    command = [sys.executable, "-m", "bench.vectors_endpoint", str(dimensions), str(noise)]
    with Popen(command, stdout=PIPE, text=True) as process:
        try:
            yield (process.stdout or sys.stdin).readline().strip()
        finally:
            process.kill()


def main() -> None:
    """Serve until the process ends."""
    handler = partial(_Handler, int(sys.argv[1]), float(sys.argv[2]))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
