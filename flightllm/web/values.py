"""The body of a request of the page: a JSON object."""

import json
from collections.abc import Mapping
from typing import Any

from flightllm.common.text import check_well_formed
from flightllm.errors import InvalidInputError


class Values:
    """The values of one request.

    Raises:
        InvalidInputError: the body is not a JSON object.
    """

    def __init__(self, body: bytes) -> None:
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError("the request must be JSON that is not nested too deeply") from error
        if not isinstance(values, dict):
            raise InvalidInputError("the request must be a JSON object")
        self._values: Mapping[str, Any] = values

    def text(self, name: str) -> str:
        """Return the text of `name`, or an empty text if it is absent.

        Raises:
            InvalidInputError: the value is not a text, or not valid Unicode.
        """
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise InvalidInputError(f"{name!r} must be a text")
        check_well_formed(value, repr(name))
        return value

    def optional_text(self, name: str) -> str | None:
        """Return the text of `name`, or None if it is absent or null.

        Raises:
            InvalidInputError: the value is not a text, or not valid Unicode.
        """
        return None if self._values.get(name) is None else self.text(name)

    def object_text(self, name: str) -> str:
        """Return the object of `name` as the text of JSON.

        Raises:
            InvalidInputError: the value is not an object.
        """
        value = self._values.get(name)
        if not isinstance(value, dict):
            raise InvalidInputError(f"{name!r} must be an object")
        return json.dumps(value)

    def texts(self, name: str, default: list[str | None] | None = None) -> list[str | None]:
        """Return the list of texts and nulls of `name`, or `default` if it is absent.

        Raises:
            InvalidInputError: the value is not such a list, or a text is not valid Unicode.
        """
        value = self._values.get(name, default)
        if not isinstance(value, list) or not all(one is None or isinstance(one, str) for one in value):
            raise InvalidInputError(f"{name!r} must be a list of texts and nulls")
        for one in value:
            check_well_formed(one or "", repr(name))
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """Return the whole number of `name`, from 1 to `most`, or `default` if it is absent.

        Raises:
            InvalidInputError: the value is not a whole number in this range.
        """
        value = self._values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise InvalidInputError(f"{name!r} must be a whole number from 1 to {most:,}")
        return value
