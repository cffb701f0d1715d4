"""Checksums of manifests: any byte that changes on disk is found when the manifest is read.

The text is JSON whose last key is the checksum of everything before that key:

    {"version": 1, …, "checksum": "89abcdef"}
"""

import json
import re
from collections.abc import Collection
from typing import Any
from zlib import crc32

from flightllm.errors import ConfigError

_KEY = "checksum"
_END = re.compile(rf', "{_KEY}": "([0-9a-f]{{8}})"}}\n')


def sealed(text: str) -> str:
    """Return the text of a JSON object with its checksum; the object must not be empty."""
    body = text.rstrip().removesuffix("}").rstrip("\n")
    return f'{body}, "{_KEY}": "{crc32(body.encode()):08x}"}}\n'


def unsealed(text: str, unsealed_keys: Collection[str]) -> dict[str, Any]:
    """Return the object of a text that `sealed` returned.

    Earlier versions wrote no checksum. Their objects have exactly the keys `unsealed_keys`. So a changed name of the
    key with the checksum never makes the checksum optional.

    Raises:
        ValueError: the text was changed; the message says how this shows.
    """
    try:
        document: dict[str, Any] = dict(json.loads(text))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if document.keys() == set(unsealed_keys):
        return document
    end = _END.search(text, max(0, len(text) - len(f', "{_KEY}": "01234567"}}\n')))
    if end is None or end[1] != f"{crc32(text[: end.start()].encode()):08x}" or text[end.end() :]:
        raise ValueError("its checksum does not fit its content")
    del document[_KEY]
    return document


class NewerVersionError(ConfigError):
    """A newer version of FlightLLM wrote a file, so the file is not damaged."""


def check_version(file: str, version: object, known: int) -> None:
    """Check that this version of FlightLLM can read a document whose checksum fits.

    Raises:
        NewerVersionError: a newer version wrote it.
        ValueError: no version wrote this.
    """
    if type(version) is int and version > known:
        raise NewerVersionError(
            f"a newer version of FlightLLM wrote {file} in the data folder: its format is {version}, and this version"
            f" reads {known}. Nothing was changed. Start the newer version, or restore the data folder from a backup of"
            " this version"
        )
    if version != known:
        raise ValueError(f"its version is {version!r}, but this server reads version {known}")
