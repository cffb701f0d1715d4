"""Tell a container's runtime whether the server works: the exit status is 0 if it does.

It asks `/readyz` at FLIGHTLLM_HTTP, by default 127.0.0.1:9090. A configuration of your own that serves no HTTP sets
FLIGHTLLM_HTTP to nothing: then the Flight port, FLIGHTLLM_PORT, must take a connection.
"""

import os
import socket
import sys
import urllib.error
import urllib.request

_SECONDS = 4


def main() -> int:
    """Return 0 where the server is ready for statements, else 1; print why."""
    http = os.environ.get("FLIGHTLLM_HTTP", "127.0.0.1:9090")
    try:
        if http:
            with urllib.request.urlopen(f"http://{http}/readyz", timeout=_SECONDS) as answer:
                print(answer.read(200).decode("utf-8", "replace"))
        else:
            port = int(os.environ.get("FLIGHTLLM_PORT", "31337"))
            socket.create_connection(("127.0.0.1", port), _SECONDS).close()
    except (OSError, urllib.error.URLError) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
