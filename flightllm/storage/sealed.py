"""Checksums of manifests: any byte that changes on disk is found when the manifest is read.

The text is JSON whose last key is the checksum of everything before that key:

    {"version": 1, …, "checksum": "89abcdef"}
"""

import json
import re
from collections.abc import Collection
from typing import Any
from zlib import crc32

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
    document: dict[str, Any] = dict(json.loads(text))
    if document.keys() == set(unsealed_keys):
        return document
    end = _END.search(text, max(0, len(text) - len(f', "{_KEY}": "01234567"}}\n')))
    if end is None or end[1] != f"{crc32(text[: end.start()].encode()):08x}" or text[end.end() :]:
        raise ValueError("its checksum does not fit its content")
    del document[_KEY]
    return document
