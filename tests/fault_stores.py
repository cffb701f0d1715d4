"""Each change of each store, with a fault at every call that it makes to the disk: what is there then, and afterwards.

    python -m tests.fault_stores STORE CHANGE [EVERY]

prints as JSON what went wrong and how many faults there were. With EVERY each kind of fault meets one call in so many;
with as many as there are kinds, each call fails in one way. The stores are opened in processes forked from this one: it
starts no thread, so that each of them is as good as a fresh one.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import structlog

from flightllm.access.store import AccessStore, User
from flightllm.catalog import Catalog
from flightllm.config import LimitsConfig
from flightllm.errors import FlightLLMError
from flightllm.operators.cache import AnswerCache
from flightllm.sql.grants import AccessPolicy, Grant
from flightllm.vector.build import IndexedRows
from flightllm.vector.index import VectorIndex
from flightllm.vector.manifest import IndexManifest
from flightllm.vector.options import IndexOptions
from flightllm.vector.store import VectorIndexes
from tests.catalogs import ingest, read, run
from tests.faults import KINDS, Durable, Kind, Watch, copied

_SECONDS = 60.0
"""After which a process that has not ended hangs."""
_MOST = 1_000
"""Calls of one change, by far."""
Tell = Callable[[bytes], None]


@dataclass(frozen=True)
class Store:
    """One kind of store: how it is opened, what it holds, and what changes it."""

    open: Callable[[Path], Any]
    close: Callable[[Any], None]
    fill: Callable[[Any], object]
    """Make what is there before the change."""
    state: Callable[[Any], Any]
    """Return what it holds, as JSON can write it."""
    changes: dict[str, Callable[[Any], object]]
    then: Callable[[Any], object]
    """A change that must succeed once the fault is gone."""
    always_done: bool = False
    """A change reports no failure, since the store makes good for it later."""
    synced: bool = True
    """What was acknowledged outlives a power cut."""


# --- the catalog

_ROWS = {"id": list(range(2_000)), "s": [f"text {i * 7919 % 100_003}" for i in range(2_000)]}


def _tables(catalog: Catalog) -> Any:
    found = {}
    for table in catalog.tables():
        sql = f"SELECT count(*) AS n, min(id) AS least, max(id) AS most, count(DISTINCT s) AS s FROM {table.name.sql}"
        found[table.name.display] = [table.type, read(catalog, sql) if "s" in table.schema.names else None]
    return [catalog.schemas(), found]


def _fill_catalog(catalog: Catalog) -> None:
    ingest(catalog, "t", _ROWS)
    ingest(catalog, "gone", _ROWS)
    run(catalog, "CREATE SCHEMA empty", "CREATE VIEW v AS SELECT id, s FROM t WHERE id < 10")


_CATALOG = Store(
    open=lambda folder: Catalog(LimitsConfig(), None, folder),
    close=Catalog.close,
    fill=_fill_catalog,
    state=_tables,
    changes={
        "create": lambda catalog: ingest(catalog, "u", _ROWS),
        "append": lambda catalog: ingest(catalog, "t", {"id": [5_000], "s": ["new"]}, "append"),
        "replace": lambda catalog: ingest(catalog, "t", {"id": [1], "s": ["one"]}, "replace"),
        "intervals": lambda catalog: ingest(  # which Parquet cannot hold, so that Arrow's own format is written
            catalog, "u", {"s": ["x"], "id": [1], "i": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}
        ),
        "update": lambda catalog: run(catalog, "UPDATE t SET s = concat(s, 'x'), id = id + 7"),
        "delete": lambda catalog: run(catalog, "DELETE FROM t WHERE id % 2 = 0"),
        "drop": lambda catalog: run(catalog, "DROP TABLE gone"),
        "view": lambda catalog: run(catalog, "CREATE VIEW w AS SELECT s, id FROM t"),
        "schema": lambda catalog: run(catalog, "CREATE SCHEMA more"),
        "drop_schema": lambda catalog: run(catalog, "DROP SCHEMA empty"),
    },
    then=lambda catalog: ingest(catalog, "t", {"id": [9_000, 9_001], "s": ["a", "b"]}, "append"),
)


# --- the user store

_GRANTS = [Grant("ann", "SELECT", "TABLE", "public", name) for name in ("a", "b", "c")]


def _users(store: AccessStore) -> Any:
    snapshot = store.snapshot()
    users = [(one.name, one.role, sorted(one.groups), one.password) for one in snapshot.users.values()]
    return [
        sorted(users, key=str), sorted((one.user, one.label) for one in snapshot.tokens.values()),
        sorted(map(str, snapshot.grants)), sorted(map(str, snapshot.policies)), snapshot.closed,
        store.spent("ann", "2026-01-01"),
    ]  # fmt: skip


def _fill_users(store: AccessStore) -> None:
    store.add_user(User("ann", "user", frozenset({"eu"})))
    store.add_token("ann", "laptop")
    store.grant([_GRANTS[0], Grant("eu", "SELECT", "TABLE", "public", "t")])
    store.set_policy(AccessPolicy("eu", "public", "t", "", "a = 1"))
    store.add_spent("ann", "2026-01-01", 1, 10, 0.5)


_USER_STORE = Store(
    open=lambda folder: AccessStore(folder / "access.sqlite"),
    close=AccessStore.close,
    fill=_fill_users,
    state=_users,
    changes={
        "add_user": lambda store: store.add_user(User("bob", "user")),
        "change_user": lambda store: store.change_user(User("ann", "admin")),
        "drop_user": lambda store: store.drop_user("ann"),
        "add_token": lambda store: store.add_token("ann", "phone"),
        "grant": lambda store: store.grant(_GRANTS),
        "revoke": lambda store: store.revoke([_GRANTS[0], Grant("eu", "SELECT", "TABLE", "public", "t")]),
        "set_policy": lambda store: store.set_policy(AccessPolicy("eu", "public", "t", "", "a = 2")),
        "forget": lambda store: store.forget("TABLE", [("public", "t"), ("public", "a")]),
        "add_spent": lambda store: store.add_spent("ann", "2026-01-01", 1, 10, 0.5),
    },
    then=lambda store: store.add_user(User("next", "readonly")),
)
_NEW_USERS = Store(  # the first change makes the file
    open=_USER_STORE.open,
    close=AccessStore.close,
    fill=lambda _: None,
    state=lambda store: [part for number, part in enumerate(_users(store)) if number != 2],  # the file brings grants
    changes={"first_user": lambda store: store.add_user(User("bob", "user"))},
    then=_USER_STORE.then,
)


# --- the vector indexes

_SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def _parts(first: int, count: int) -> list[IndexedRows]:
    numbers = list(range(first, first + count))
    texts = [f"apple number {number}" for number in numbers]
    vectors = np.random.default_rng(first).normal(size=(count, 8)).astype(np.float32)
    return [
        IndexedRows(
            pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(texts)], schema=_SCHEMA), vectors, pa.array(texts)
        )
    ]


def _manifest(name: str, kind: str = "flat") -> IndexManifest:
    return IndexManifest(name, ("public", "t"), "text", IndexOptions(type=kind), "fake", "1", 0, 0, 0, 0, "", "", "")


def _build(indexes: VectorIndexes, name: str, first: int = 0, kind: str = "flat") -> object:
    with indexes.changing(name):
        return indexes.build(_manifest(name, kind), _SCHEMA, _parts(first, 60))


def _extend(indexes: VectorIndexes, name: str) -> None:
    with indexes.changing(name):
        indexes.extend(_manifest(name), _SCHEMA, _parts(500, 5))


def _drop(indexes: VectorIndexes, name: str) -> None:
    with indexes.changing(name):
        indexes.drop(name)


def _indexes(indexes: VectorIndexes) -> Any:
    found = {}
    for name in indexes.names():
        index: VectorIndex = indexes.open(name)
        worded = index.search(100, "text", ["apple"], None).ids
        meant = index.search(100, "vector", None, np.ones((1, 8), np.float32)).ids
        found[name] = [index.rows["id"].to_pylist()[:3], index.rows.num_rows, len(worded), max(meant.tolist())]
    return found


_INDEX_STORE = Store(
    open=VectorIndexes,
    close=lambda _: None,
    fill=lambda indexes: [_build(indexes, name, first) for name, first in (("old", 0), ("gone", 100))],
    state=_indexes,
    changes={
        "build": lambda indexes: _build(indexes, "new"),
        "build_trained": lambda indexes: _build(indexes, "new", kind="ivf"),
        "build_again": lambda indexes: _build(indexes, "old", 200),
        "extend": lambda indexes: _extend(indexes, "old"),
        "drop": lambda indexes: _drop(indexes, "gone"),
    },
    then=lambda indexes: _build(indexes, "next", 300),
)


# --- the answer cache

_KEYS = [bytes([number]) * 16 for number in range(40)]


def _put(cache: AnswerCache, numbers: Sequence[int]) -> None:
    for number in numbers:
        cache.put(_KEYS[number], f"answer {number} " * 20)
    cache.flush()


def _again(cache: AnswerCache) -> None:
    """Let the next commit be tried now, not only after a while."""
    with cache._lock:
        cache._retry = 0.0
    _put(cache, [39])


def _reopened(cache: AnswerCache) -> None:
    """Put answers where the file has to be opened first."""
    with cache._lock:
        if cache._database is not None:
            cache._database.close()
            cache._database = None
    _put(cache, range(10, 20))


_CACHE = Store(
    open=lambda folder: AnswerCache(folder / "answers.sqlite"),
    close=AnswerCache.close,
    fill=lambda cache: _put(cache, range(10)),
    state=lambda cache: sorted(key[0] for key in cache.peek(_KEYS)),
    changes={
        "put": lambda cache: _put(cache, range(10, 20)),
        "reopened": _reopened,
    },
    then=_again,
    always_done=True,
    synced=False,
)
_EMPTIED = replace(_CACHE, changes={"clear": AnswerCache.clear}, always_done=False)
STORES = {
    "catalog": _CATALOG, "users": _USER_STORE, "new_users": _NEW_USERS, "indexes": _INDEX_STORE, "cache": _CACHE,
    "emptied": _EMPTIED,
}  # fmt: skip


class Trial:
    """One change of one store, tried with each fault at each of its calls."""

    def __init__(self, store: Store, change: str, folder: Path, every: int = 1) -> None:
        self._store, self._change = store, store.changes[change]
        self._base, self._folder, self._seen = folder / "base", folder / "store", folder / "seen"
        self._every = every
        self.faults = self.cuts = 0
        self.wrong: list[str] = []
        self.calls: list[str] = []

    def run(self) -> None:
        """Try it without a fault, with each fault at each call, and with a power cut before each call."""
        self._base.mkdir()
        self._in_process(self._base, self._store.fill)
        shutil.copytree(self._base, self._folder)
        files = [self._count()]
        found = Watch(self._folder, seconds=_SECONDS, at_message=lambda _: files.append(self._count())).run(self._work)
        if found.status or len(found.sent) != 3:
            self.wrong.append(f"without a fault: status {found.status}, {found.sent!r}")
            return
        self.calls = found.calls
        done = json.loads(found.sent[0])
        self._before, self._after = done["before"], done["state"]
        self._then = json.loads(found.sent[1])["state"]
        self._files = self._count()
        self._files_refused = files[0] + files[2] - files[1]
        for place, kind in enumerate(KINDS):
            for n in range(1 + place * self._every // len(KINDS) % self._every, _MOST, self._every):
                if not self._fault(kind, n):
                    break
        self._cut()

    def _work(self, tell: Tell) -> None:
        """Change the store under faults, tell what it holds, go on, and tell again."""
        store, opened = self._store, self._store.open(self._folder)
        said: dict[str, Any] = {"before": store.state(opened), "error": ""}
        tell(b"arm")
        try:
            self._change(opened)
        except FlightLLMError as error:
            said["error"], said["kind"] = str(error), type(error).__name__
        except BaseException as error:  # noqa: BLE001 -- whatever it is, it is reported
            said["error"], said["raw"] = str(error), repr(error)
        tell(b"disarm")
        for name, act in (("first", lambda _: None), ("then", store.then)):
            try:
                act(opened)
                said["state"] = store.state(opened)
            except BaseException as error:  # noqa: BLE001 -- see above
                said[f"{name} failed"] = repr(error)
            tell(json.dumps(said).encode())
        store.close(opened)
        tell(b'"closed"')

    def _fault(self, kind: Kind, n: int) -> bool:
        """Try one fault; return whether the change got as far as to meet it."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._base, self._folder)
        copies: list[Path] = []

        def keep(_: bytes) -> None:
            copies.append(self._seen.with_name(f"seen-{len(copies)}"))
            shutil.rmtree(copies[-1], ignore_errors=True)
            with suppress(shutil.Error):  # a file that goes meanwhile
                copied(self._folder, copies[-1])

        found = Watch(self._folder, kind, n, _SECONDS, at_message=keep).run(self._work)
        where = f"{kind} at {n} ({'; '.join(found.failed[:3])})"
        if found.hung or found.status or len(found.sent) != 3:
            self.wrong.append(f"{where}: hung {found.hung}, status {found.status}, {found.sent!r}")
            return found.reached and not found.hung
        if found.failed:
            self.faults += 1
            self._check(where, json.loads(found.sent[0]), json.loads(found.sent[1]), copies)
        return found.reached

    def _check(self, where: str, first: dict[str, Any], then: dict[str, Any], copies: Sequence[Path]) -> None:
        wrong = [f"{name}: {then[name]}" for name in ("raw", "first failed", "then failed") if name in then]
        error = first["error"]
        if str(self._folder.parent) in error or "internal error" in error or "Errno" in error:
            wrong.append(f"unclear: {error!r}")
        wrong = wrong or [*self._wrong_now(where, first, copies, then), *self._wrong_then(first, then)]
        self.wrong += [f"{where}: {one}" for one in wrong]

    def _wrong_now(
        self, where: str, first: dict[str, Any], copies: Sequence[Path], then: dict[str, Any]
    ) -> Iterator[str]:
        """Yield what is wrong with what the store held after the change and the next one, here and when reopened."""
        said, there, failed = first["error"] or "done", first["state"], bool(first["error"])
        unsure = failed and _unsure(where)
        either = unsure and self._store is _INDEX_STORE  # its manifest is read anew each time
        right = there == (self._before if failed else self._after) or (either and there == self._after)
        if not right and not (self._store.always_done and self._holds_change(there)):
            yield f"it said {said!r}, and there is {there}"
        fresh, expected = [self._reopened(copy) for copy in copies[:2]], [there, then["state"]]
        if unsure and fresh[0] == self._after:
            expected[0] = self._after
        if self._store.always_done:
            fresh, expected = fresh[1:], expected[1:]
        if fresh != expected:
            yield f"after reopening there is {fresh}, not {expected}"

    def _holds_change(self, there: Sequence[int]) -> bool:
        """Return whether a cache knows what was put, though it cannot read what its file holds until it is opened."""
        return {*self._after} - {*self._before} <= {*there} <= {*self._after}

    def _wrong_then(self, first: dict[str, Any], then: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong once the next change was made and the store closed."""
        failed = bool(first["error"])
        if (closed := self._reopened(self._folder)) != then["state"]:
            yield f"after closing there is {closed}, not {then['state']}"
        if not failed and then["state"] != self._then:
            yield f"what came next led to {then['state']}"
        if failed and then["state"] == first["state"]:
            yield "what came next did nothing"
        wanted = self._files_refused if failed else self._files
        if (files := self._count()) > max(wanted, self._files) + (2 if failed and self._store is _INDEX_STORE else 1):
            yield f"there are {files} files, not {wanted}"

    def _cut(self) -> None:
        """Cut the power before each call of the change, and after it was acknowledged."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._base, self._folder)
        durable = Durable(self._folder)
        states: list[tuple[str, Path, bool]] = []

        def before(name: str, path: str) -> None:
            keep(f"before {len(states) // 3 + 1}, {name} {path}", acknowledged=False)
            if name in {"fsync", "fdatasync"}:
                durable.synced(Path(path))

        def keep(where: str, *, acknowledged: bool) -> None:
            for kind in ("power cut", "power cut, names kept", "killed"):
                target = self._seen.with_name(f"cut-{len(states)}")
                with suppress(FileNotFoundError, shutil.Error):  # a file that goes meanwhile
                    if kind == "killed":
                        copied(self._folder, target)
                    else:
                        durable.write(target, names_kept=kind != "power cut")
                states.append((f"{kind} {where}", target, acknowledged))

        def told(text: bytes) -> None:
            if text != b'"closed"' and not any(acknowledged for _, _, acknowledged in states):
                keep("after it", acknowledged=True)

        found = Watch(self._folder, seconds=_SECONDS, at_message=told, before_call=before).run(self._work)
        durable.close()
        if found.status or len(found.sent) != 3:
            self.wrong.append(f"before a power cut: status {found.status}, {found.sent!r}")
        self._check_cuts(states)

    def _check_cuts(self, states: Sequence[tuple[str, Path, bool]]) -> None:
        """Open what each cut left: the state before or after the change, and the latter once it was acknowledged."""
        for number, (where, folder, acknowledged) in enumerate(states):
            if number // 3 % self._every and not acknowledged:
                continue
            self.cuts += 1
            there = self._reopened(folder)
            allowed = [self._after] if acknowledged else [self._before, self._after]
            if not self._store.synced:
                whole = isinstance(there, list) and set(there) <= {*self._before, *self._after}
                allowed = [there] if whole else allowed
            if there not in allowed:
                self.wrong.append(f"{where}: there is {there}")

    def _reopened(self, folder: Path) -> Any:
        """Return what another process finds in a folder."""
        return self._in_process(folder, self._store.state)

    def _in_process(self, folder: Path, work: Callable[[Any], Any]) -> Any:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                opened = self._store.open(folder)
                text = json.dumps(work(opened), default=str)
                self._store.close(opened)
            except BaseException as error:  # noqa: BLE001 -- reported
                text = json.dumps(f"cannot be opened: {error!r}")
            finally:
                with suppress(BaseException):
                    os.write(writing, text.encode())
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read().decode()
        os.waitpid(child, 0)
        return json.loads(text or '"it died"')

    def _count(self) -> int:
        """Return how many files there are, links to read through left out."""
        return sum(path.is_file() and "reading" not in path.parts for path in self._folder.rglob("*"))


def traced(store: str, change: str, folder: str, marks: str) -> None:
    """Make a change without a filter, between two calls that a tracer of the process finds: of `marks` and a word."""
    chosen = STORES[store]
    opened = chosen.open(Path(folder))
    chosen.fill(opened)
    chosen.state(opened)
    Path(f"{marks}-begin").exists()
    chosen.changes[change](opened)
    Path(f"{marks}-end").exists()
    os._exit(0)


def watched(store: str, change: str, folder: str) -> Counter[str]:
    """Make the same change under the filter, and return its calls."""
    chosen = STORES[store]

    def work(tell: Tell) -> None:
        opened = chosen.open(Path(folder))
        chosen.fill(opened)
        chosen.state(opened)
        tell(b"arm")
        chosen.changes[change](opened)
        tell(b"disarm")

    return Watch(Path(folder), seconds=_SECONDS).run(work).counted


def _unsure(where: str) -> bool:
    """Return whether a process that dies right after an error can leave the change done.

    Where the disk refuses to say that it has what was written, or fails from then on, nobody can know or undo it. Both
    states are whole; the next change that succeeds settles it.
    """
    return "once" not in where or "sync" in where


def main(store: str, change: str, every: str = "1") -> None:
    """Try one change of one store, and print what went wrong."""
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        sys.exit("this process has threads: what it forks is no fresh process")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with closing(Path(os.devnull).open("wb")) as nowhere, tempfile.TemporaryDirectory() as folder:
        os.dup2(nowhere.fileno(), 2)
        trial = Trial(STORES[store], change, Path(folder), int(every))
        trial.run()
    print(  # noqa: T201 -- a command's output
        json.dumps({"faults": trial.faults, "cuts": trial.cuts, "calls": trial.calls, "wrong": trial.wrong})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
