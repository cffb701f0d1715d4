"""The user and the password of an `Authorization: Basic` header."""

import base64
import binascii

from flightllm.errors import UnauthenticatedError

_WRONG = "the Basic credentials are not base64 of user:password"


def read_basic(value: str) -> tuple[str, str]:
    """Return the name and the password that follow `Basic` in the header; Go clients omit the base64 padding.

    Raises:
        UnauthenticatedError: the text is not base64 of user:password.
    """
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as exc:
        raise UnauthenticatedError(_WRONG) from exc
    name, colon, password = plain.partition(":")
    if not colon:
        raise UnauthenticatedError(_WRONG)
    return name, password
