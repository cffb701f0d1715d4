"""The user and the password of a Basic header."""

import base64

import pytest

from flightllm.common.basic_credentials import read_basic
from flightllm.errors import UnauthenticatedError


def _coded(text: bytes) -> str:
    return base64.b64encode(text).decode()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (_coded(b"ann:secret"), ("ann", "secret")),
        (_coded(b"ann:secret").rstrip("="), ("ann", "secret")),
        (_coded(b"ann:a:b"), ("ann", "a:b")),
        (_coded(b"ann:"), ("ann", "")),
        (_coded(b":"), ("", "")),
    ],
)
def test_read(value: str, wanted: tuple[str, str]) -> None:
    """The first colon ends the name; the padding can be missing."""
    assert read_basic(value) == wanted


@pytest.mark.parametrize("value", ["", "?", _coded(b"ann"), _coded(b"\xff:a")])
def test_refused(value: str) -> None:
    """A header without a colon in it is no login."""
    with pytest.raises(UnauthenticatedError, match="user:password"):
        read_basic(value)
