"""The keys that verify login tokens (JWT); the server fetches the keys from an address."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from jwt import PyJWK

_log = structlog.get_logger(__name__)
_KEPT_SECONDS = 300.0
"""After this time known keys are fetched again, because one of them can have been withdrawn."""
_AGAIN_SECONDS = 10.0
"""The least time between two fetches for unknown keys, and after a failed fetch. Any client can name unknown keys."""
_PATIENCE_SECONDS = 1.0
"""How long a call with a known key waits for a fetch."""


class FetchedKeys:
    """The latest fetched keys; they stay valid while the address cannot be reached. Safe to use from several threads.

    One thread at a time fetches. After a failed fetch, a call with a known key does not wait for the next fetch.
    """

    def __init__(self, fetch: Callable[[], Mapping[str, "PyJWK"]]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._keys: Mapping[str, PyJWK] = {}
        self._ended = threading.Event()
        self._ended.set()
        self._tried = float("-inf")
        self._failed: Exception | None = None

    def find(self, kid: str | None) -> "PyJWK | None":
        """Return the key with this id (without an id: any key), or None.

        Raises:
            Exception: the error of the last fetch, if no fetch has ever succeeded.
        """
        found = self._known(kid)
        if fetched := self._due(known=found is not None):
            fetched.wait(None if found is None else 0.0 if self._failed else _PATIENCE_SECONDS)
            found = self._known(kid)
        if not self._keys and self._failed is not None:
            raise self._failed
        return found

    def _known(self, kid: str | None) -> "PyJWK | None":
        keys = self._keys
        return keys.get(kid or next(iter(keys), ""))

    def _due(self, *, known: bool) -> threading.Event | None:
        """Start a fetch if it is due; return the event that is set when the running fetch ends, or None."""
        with self._lock:
            if not self._ended.is_set():
                return self._ended
            seconds = _KEPT_SECONDS if known and self._failed is None else _AGAIN_SECONDS
            if time.monotonic() - self._tried < seconds:
                return None
            ended = threading.Event()
            threading.Thread(target=self._run, args=(ended,), name="keys", daemon=True).start()
            self._ended = ended
            return ended

    def _run(self, ended: threading.Event) -> None:
        try:
            self._keys, self._failed = self._fetch(), None
        except Exception as error:  # noqa: BLE001 - the address can send any answer
            self._failed = error
            _log.warning("the key set cannot be fetched, the former keys stay", error=str(error))
        finally:
            self._tried = time.monotonic()
            ended.set()
