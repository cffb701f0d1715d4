"""Report to a container's runtime whether the server works: the exit status is 0 if it works.

It asks `/readyz` at FLIGHTLLM_HTTP, by default 127.0.0.1:9090. If your own configuration serves no HTTP, set
FLIGHTLLM_HTTP to an empty text. The script then connects to the Flight port, FLIGHTLLM_PORT.
"""

import http.client
import os
import socket
import ssl
import sys
import urllib.error
import urllib.request

_SECONDS = 4


def main() -> int:
    """Return 0 if the server is ready for statements, otherwise 1; print the reason."""
    address = os.environ.get("FLIGHTLLM_HTTP", "127.0.0.1:9090")
    try:
        if address:
            print(_ready(address))
        else:
            port = int(os.environ.get("FLIGHTLLM_PORT", "31337"))
            socket.create_connection(("127.0.0.1", port), _SECONDS).close()
    except (OSError, http.client.HTTPException) as error:
        print(error)
        return 1
    return 0


def _ready(address: str) -> str:
    """Return the server's answer; raise OSError if the server is not ready.

    With a page and a certificate the server speaks only TLS. The certificate names the host that clients use, not the
    container's own address, so it is not verified: nothing secret is sent.
    """
    if "://" in address:
        return _answer(address)
    try:
        return _answer(f"http://{address}")
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException):
        return _answer(f"https://{address}")


def _answer(address: str) -> str:
    """Ask `/readyz` once."""
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    with urllib.request.urlopen(f"{address}/readyz", timeout=_SECONDS / 2, context=unverified) as answer:
        return str(answer.read(200).decode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
