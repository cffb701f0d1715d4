"""The names of bitstreams in a store: the chunk's key and the codec's name. File paths contain them."""

import re
from collections.abc import Iterable
from typing import Final

from flightllm.errors import InvalidInputError

PART_BYTES: Final = 1 << 20
"""The most bytes of a bitstream that are read, sent and checked at once."""

_KEY = re.compile(r"[0-9a-f]{40}", re.ASCII)
_CODEC = re.compile(r"[a-z0-9-]{1,16}", re.ASCII)
_FILE = re.compile(r"([0-9a-f]{2})/(?=\1)[0-9a-f]{40}\.[a-z0-9-]{1,16}\.[0-9a-f]{32}", re.ASCII)
_SHOWN = 60


def check_keys(keys: Iterable[object]) -> None:
    """Raise `InvalidInputError` if a value is not the key of a chunk; see `flightllm.kvcache.chunks`."""
    for key in keys:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise InvalidInputError(f"{_shown(key)} is not a key of a KV chunk: send 40 lower-case hexadecimal digits")


def check_codec(codec: object) -> None:
    """Raise `InvalidInputError` if `codec` is not a valid name of a codec."""
    if not isinstance(codec, str) or not _CODEC.fullmatch(codec):
        raise InvalidInputError(
            f"{_shown(codec)} is not a name of a codec: send 1 to 16 of the characters a-z, 0-9 and -"
        )


def check_names(key: object, codec: object) -> None:
    """Raise `InvalidInputError` if the key or the codec name is invalid."""
    check_keys([key])
    check_codec(codec)


def is_file_of_store(name: str) -> bool:
    """Return whether a path below `chunks` has the form of a bitstream's file: `ab/KEY.CODEC.ID`."""
    return _FILE.fullmatch(name) is not None


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
