"""KV chunks on the disk of this machine, up to a given size."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Self
from uuid import uuid4

import structlog

from flightllm.common.atomic_files import make_private, move_aside
from flightllm.errors import InvalidInputError, LimitExceededError, NotFoundError, StoreUnavailableError
from flightllm.kvcache.store.eviction import ChunkOrder
from flightllm.kvcache.store.index import Index, StoredBitstream
from flightllm.kvcache.store.names import PART_BYTES, check_keys, check_names, is_file_of_store
from flightllm.kvcache.store.parts import CHECK_BYTES, checksum, write
from flightllm.kvcache.store.status import CodecUsage, StoreStatus
from flightllm.storage.lock import FolderLock

_log = structlog.get_logger(__name__)


class DiskStore:
    """Bitstreams as files in `folder`, at most `max_bytes` together. Thread-safe; one process at a time.

    A bitstream is written to a file of its own. The commit of its row in the index makes it part of the store. So after
    `kill -9` at any moment all bitstreams that were put are complete; half-written files are removed when the store is
    opened. No write waits for the disk, so a power cut can lose or damage the last bitstreams. Each part is checked
    against its checksum before it is returned, so a damaged bitstream is dropped and never used as a chunk. `max_bytes`
    bounds the held bitstreams. Files being written, and evicted files that are still read, take further space.
    """

    def __init__(self, folder: Path, max_bytes: int, eviction: str = "lru") -> None:
        """Open the store; create its folder if it does not exist.

        Raises:
            ConfigError: another process uses the folder, the folder is not usable, or a store has no such policy.
            StoreUnavailableError: the index cannot be read.
        """
        if max_bytes < 1:
            raise InvalidInputError(f"a store of {max_bytes} bytes can hold nothing: set max_bytes to at least 1")
        self.max_bytes = max_bytes
        self._files = folder / "chunks"
        self._mutex = threading.Lock()
        """Guards the fields below."""
        self._closed = False
        self._hits = self._misses = self._evicted = self._damaged = 0
        with suppress(OSError):  # the lock raises the better error
            make_private(folder)
        self._lock = FolderLock(folder, "KV caches", "folder under [kvstore]")
        try:
            with _usable():
                make_private(self._files)
                self._index = Index(folder / "index.sqlite")
                try:
                    self._remove_leftovers()
                    self._order = ChunkOrder(eviction, max_bytes, self._index.marks(), folder / "eviction.json")
                    self._make_room()
                except BaseException:
                    self._index.close()
                    raise
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        """Close the files and release the folder; running reads can go on to their ends. Idempotent."""
        with self._mutex, _usable():
            if not self._closed:
                self._order.close()
            self._closed = True
            self._index.close()
        self._lock.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    # --- reading

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return the sizes of each chunk's bitstreams; see `ChunkStore.lookup`. A lookup does not count as a use.

        `keys` are the chunks of one prompt in their order: the store evicts a prompt from its end.

        Raises:
            InvalidInputError: a key is invalid.
        """
        check_keys(keys)
        with self._mutex, _usable():
            found = self._index.sizes(keys)
            self._order.tell(tuple(keys))
            self._misses += not any(found)
        return [MappingProxyType(held) for held in found]

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a bitstream in parts of at most 1 MiB, each checked; see `ChunkStore.get`.

        A bitstream that is evicted or replaced meanwhile is still yielded to its end, unchanged.

        Raises:
            InvalidInputError: the key or codec name is invalid.
            NotFoundError: the bitstream is not held, or a part is damaged; a damaged bitstream is dropped.
        """
        check_names(key, codec)
        entry, descriptor = self._open(key, codec)
        with os.fdopen(descriptor, "rb") as file:
            for place in range(0, len(entry.checksums), CHECK_BYTES):
                try:
                    part = file.read(PART_BYTES)
                except OSError:
                    part = b""
                if checksum(part) != entry.checksums[place : place + CHECK_BYTES]:
                    raise self._drop_damaged(entry)
                yield memoryview(part)

    def status(self) -> StoreStatus:
        """Return the store's contents and request counts since it was opened."""
        with self._mutex, _usable():
            return StoreStatus(
                self._index.chunks(),
                self._index.bytes,
                self.max_bytes,
                MappingProxyType({codec: CodecUsage(*held) for codec, held in self._index.by_codec().items()}),
                self._hits,
                self._misses,
                self._evicted,
                self._damaged,
            )

    # --- writing

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep a bitstream; see `ChunkStore.put`.

        Raises:
            InvalidInputError: the key or codec name is invalid.
        """
        whole = memoryview(data).cast("B")
        self.put_parts(key, codec, len(whole), (whole,))

    def put_parts(self, key: str, codec: str, size: int, parts: Iterable[memoryview]) -> None:
        """Keep a bitstream of `size` bytes that arrives in parts; keep nothing if the parts have another size.

        Raises:
            InvalidInputError: the key or codec name is invalid, or the parts do not have `size` bytes together.
            LimitExceededError: the bitstream is larger than the store; no part was read.
            StoreUnavailableError: the disk is full, or the store was closed.
        """
        check_names(key, codec)
        if size > self.max_bytes:
            raise LimitExceededError(
                f"the KV chunk has {size:,} bytes, the store holds {self.max_bytes:,}: raise max_bytes under [kvstore]"
            )
        name = f"{key[:2]}/{key}.{codec}.{uuid4().hex}"
        path = self._files / name
        try:
            with _usable():
                entry = StoredBitstream(key, codec, name, size, write(path, size, parts))
                with self._mutex:
                    gone = self._keep(entry)
        except BaseException:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise
        self._unlink(gone)

    def delete(self, keys: Sequence[str]) -> int:
        """Delete all bitstreams of some chunks; return the number of deleted bitstreams.

        Raises:
            InvalidInputError: a key is invalid.
        """
        check_keys(keys)
        return self._forget(lambda: self._index.of_keys(keys))

    def clear(self) -> int:
        """Delete all bitstreams; return their number."""
        return self._forget(self._index.all)

    # --- internals

    def _open(self, key: str, codec: str) -> tuple[StoredBitstream, int]:
        """Return a bitstream's entry and its open file."""
        with self._mutex, _usable():
            entry = self._index.find(key, codec)
            if entry is None:
                self._misses += 1
                raise NotFoundError(f"no KV chunk {key} is held as {codec}")
            descriptor = -1
            with suppress(OSError):
                descriptor = os.open(self._files / entry.file, os.O_RDONLY)
            if descriptor >= 0 and os.fstat(descriptor).st_size == entry.size:
                self._index.touch(key, self._order.use(key))
                self._hits += 1
                return entry, descriptor
        if descriptor >= 0:
            os.close(descriptor)
        raise self._drop_damaged(entry)

    def _drop_damaged(self, entry: StoredBitstream) -> NotFoundError:
        """Delete a bitstream whose file is damaged, and return the error for it."""
        _log.warning("KV chunk damaged, dropped", key=entry.key, codec=entry.codec)
        with self._mutex, _usable():
            self._misses += 1
            if self._index.find(entry.key, entry.codec) == entry:  # else a newer bitstream has replaced it
                self._damaged += 1
                self._remove([entry])
        self._unlink([entry])
        return NotFoundError(f"the KV chunk {entry.key} as {entry.codec} was damaged on disk and has been dropped")

    def _keep(self, entry: StoredBitstream) -> list[StoredBitstream]:
        """Commit a bitstream, and return the entries that it replaced or evicted. The caller must hold the mutex."""
        replaced = self._index.find(entry.key, entry.codec)
        gone = [] if replaced is None else [replaced]
        had = entry.key in self._order
        self._order.remove([entry.key])
        evicted = self._victims(entry.size - sum(one.size for one in gone), entry)
        try:
            self._index.change([*gone, *evicted], entry, self._order.use(entry.key))
        except BaseException:
            self._order.remove([] if had else [entry.key])
            for one in evicted:
                self._order.use(one.key)
            raise
        self._evicted += len(evicted)
        return [*gone, *evicted]

    def _victims(self, size: int, new: StoredBitstream | None = None) -> list[StoredBitstream]:
        """Return the entries to evict before `size` more bytes can be held; other bitstreams of a new one go last."""
        over, victims = self._index.bytes + size - self.max_bytes, list[StoredBitstream]()
        while over > 0 and len(self._order):
            chunk = self._index.of_keys([self._order.first()])
            victims += chunk
            over -= sum(one.size for one in chunk)
        if over > 0 and new is not None:
            victims += [one for one in self._index.of_keys([new.key]) if one.codec != new.codec]
        return victims

    def _make_room(self) -> None:
        """Evict the excess if the store's limit was larger when it was last open."""
        evicted = self._victims(0)
        if evicted:
            self._index.change(evicted)
            self._unlink(evicted)

    def _remove(self, gone: Sequence[StoredBitstream]) -> None:
        """Remove entries from the index, and the chunks without other bitstreams from the order of eviction."""
        self._index.change(gone)
        keys = list(dict.fromkeys(one.key for one in gone))
        left = self._index.sizes(keys)
        self._order.remove(key for key, sizes in zip(keys, left, strict=True) if not sizes)

    def _forget(self, chosen: Callable[[], list[StoredBitstream]]) -> int:
        with self._mutex, _usable():
            gone = chosen()
            self._remove(gone)
        self._unlink(gone)
        return len(gone)

    def _unlink(self, gone: Iterable[StoredBitstream]) -> None:
        """Remove files that no row names; a file that cannot be removed now is removed at the next opening."""
        for entry in gone:
            try:
                (self._files / entry.file).unlink(missing_ok=True)
            except OSError as error:
                _log.warning("file of a KV chunk cannot be removed", file=entry.file, error=error.strerror)

    def _remove_leftovers(self) -> None:
        """Remove bitstreams that no row names, and rows whose file is missing or incomplete; move other files aside."""
        entries = {entry.file: entry for entry in self._index.all()}
        found = {path.relative_to(self._files).as_posix(): path for path in self._files.glob("*/*")}
        unnamed = [name for name in found if name not in entries]
        ours = [name for name in unnamed if is_file_of_store(name) and S_ISREG(found[name].lstat().st_mode)]
        for name in ours:  # engines can compute them again
            found[name].unlink()
        if ours and not entries:
            _log.warning("the index of KV chunks was lost, so the files of all chunks were removed", files=len(ours))
        elif ours:
            _log.info("files of KV chunks that no index names were removed", files=len(ours))
        if strange := [Path(name) for name in unnamed if name not in ours]:
            self._move_aside(strange)
        lost = [one for name, one in entries.items() if name not in found or found[name].stat().st_size != one.size]
        if lost:
            _log.warning("KV chunks are lost", count=len(lost))
            self._index.change(lost)
            self._unlink(lost)

    def _move_aside(self, strange: Sequence[Path]) -> None:
        """Move what no store wrote out of the folder of bitstreams. No such file has the name of a bitstream."""
        try:
            aside = move_aside(self._files, strange, self._files.parent / "set-aside")
        except OSError as error:
            _log.warning("strange files are among the KV chunks", files=len(strange), error=error.strerror)
            return
        _log.warning(
            "strange files were among the KV chunks and were moved: delete the folder if you do not need it",
            folder=str(aside.folder), files=len(aside.moved), left_in_place=list(map(str, aside.stayed)),
        )  # fmt: skip


@contextmanager
def _usable() -> Iterator[None]:
    """Turn errors of the disk and the index into errors of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"the index of the KV store cannot be used: {error}") from error
    except OSError as error:  # the rest of the error names a path
        raise StoreUnavailableError(f"the folder of the KV store cannot be used: {error.strerror}") from error
