"""Addresses of Flight servers, and the messages of their errors, for every client of one."""

import re
from urllib.parse import urlsplit

from flightllm.errors import InvalidInputError

_NOISE = re.compile(r"\.? ?(Detail: |gRPC client debug context: |Client context: ).*", re.DOTALL)
"""What gRPC and Arrow add to a message."""
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")


def plain(text: str) -> str:
    """Return the message of a status without what gRPC and Arrow add to it."""
    return _NOISE.sub("", text).strip()


def checked_uri(uri: str) -> str:
    """Return the address of a server as it is; raise `InvalidInputError` where it is none."""
    try:
        parts = urlsplit(uri)
        good = parts.scheme in _SCHEMES and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # a port out of range, or a bracket left open
        good = False
    if not good:
        raise InvalidInputError(f"{uri!r} is no address of a server: write grpc://HOST:PORT")
    return uri
