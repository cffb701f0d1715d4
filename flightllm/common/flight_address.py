"""Addresses of Flight servers, and the texts of their errors, for every client of a Flight server."""

import re
from urllib.parse import urlsplit

from flightllm.errors import InvalidInputError

_NOISE = re.compile(r"\.? ?(Detail: |gRPC client debug context: |Client context: ).*", re.DOTALL)
"""The text that gRPC and Arrow append to a message."""
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")


def plain(text: str) -> str:
    """Return a status's message without the text that gRPC and Arrow append."""
    return _NOISE.sub("", text).strip()


def checked_uri(uri: str) -> str:
    """Return a server's address unchanged; raise `InvalidInputError` if it is not valid."""
    try:
        parts = urlsplit(uri)
        good = parts.scheme in _SCHEMES and bool(parts.hostname) and bool(parts.port)
    except ValueError:  # a port out of range, or a bracket left open
        good = False
    if not good:
        raise InvalidInputError(f"{uri!r} is not the address of a server: write grpc://HOST:PORT")
    return uri
