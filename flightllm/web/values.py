"""What a request of the page says: a JSON object."""

import json
from collections.abc import Mapping
from typing import Any

from flightllm.common.text import check_well_formed
from flightllm.errors import InvalidInputError


class Values:
    """The values of one request.

    Raises:
        InvalidInputError: the body is no JSON object.
    """

    def __init__(self, body: bytes) -> None:
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError("the request is no JSON, or nested too deeply") from error
        if not isinstance(values, dict):
            raise InvalidInputError("the request must be a JSON object")
        self._values: Mapping[str, Any] = values

    def text(self, name: str) -> str:
        """Return a text, empty where there is none.

        Raises:
            InvalidInputError: it is no text, or one that Unicode does not allow.
        """
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise InvalidInputError(f"{name!r} must be a text")
        check_well_formed(value, repr(name))
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """Return a whole number from 1 to `most`, `default` where there is none.

        Raises:
            InvalidInputError: it is no such number.
        """
        value = self._values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise InvalidInputError(f"{name!r} must be a whole number from 1 to {most:,}")
        return value
