"""A file of the counts that `workload_aware` learned, so that a restarted engine begins with them.

The file is JSON: its format, the counts of each class of blocks, and how far each ghost is behind the best one. It is
written about once a minute, when a prompt is reported. A missing file, a damaged one, or one of another format changes
nothing; the log says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, Final

import structlog

from flightllm.common.atomic_files import write_atomically

FORMAT: Final = 1
_SAVE_SECONDS: Final = 60.0
_MOST_BYTES: Final = 4 << 20
"""The most bytes that are read; a larger file does not come from `Memory`."""
_log = structlog.get_logger(__name__)


class Memory:
    """A file of learned counts. No method raises an error: eviction goes on without the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due = -math.inf
        self._writing: Thread | None = None

    def read(self) -> dict[str, Any]:
        """Return the content of the file; empty if the file is missing or cannot be used."""
        try:
            with self._path.open("rb") as file:
                content = json.loads(file.read(_MOST_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self.refuse(error)
            return {}
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            self.refuse(ValueError(f"expected an object with format {FORMAT}"))
            return {}
        return content

    def restore(self, into: Callable[[Mapping[str, Any]], None]) -> None:
        """Give the content of the file to a policy, which raises an error if it cannot use it."""
        content = self.read()
        if content:
            try:
                into(content)
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                self.refuse(error)

    def refuse(self, error: Exception) -> None:
        """Log that the content of the file is not used."""
        _log.warning("kv_eviction_memory_unusable", file=str(self._path), reason=repr(error), instead="start anew")

    def is_due(self, now: float) -> bool:
        """Return whether the file must be written again: a minute after the first question, and then once a minute."""
        if math.isinf(self._due):
            self._due = now + _SAVE_SECONDS
        return now >= self._due

    def write(self, content: Mapping[str, Any], now: float) -> None:
        """Replace the file, in a thread of its own, because the caller must not wait for a disk."""
        self._due = now + _SAVE_SECONDS
        if self._writing is None or not self._writing.is_alive():
            told = json.dumps({"format": FORMAT, **content}).encode()
            self._writing = Thread(target=self._replace, args=(told,), daemon=True)
            self._writing.start()

    def wait(self) -> None:
        """Wait until the file is written, if it is being written."""
        if self._writing is not None:
            self._writing.join()

    def _replace(self, content: bytes) -> None:
        try:
            write_atomically(self._path, content)
        except OSError as error:
            _log.warning("kv_eviction_memory_not_saved", file=str(self._path), reason=repr(error))
