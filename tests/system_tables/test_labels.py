"""People's labels: their keys, what a label can say, and the file that keeps them."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flightllm.errors import InternalError, InvalidInputError, LimitExceededError
from flightllm.system_tables.labels import Label, LabelStore, fields_of, key_of, label_of

_T = TypeVar("_T")
ASKED: dict[str, object] = {"function": "ai_gen", "task": "Of `a`?", "fields": '{"a": "1"}', "answer": "one"}


def test_keys() -> None:
    """The order of fields and list elements does not count; each value, name, task and function does."""
    key = key_of("f", "t", {"a": "1", "b": ["x", "y"]})
    assert key == key_of("f", "t", {"b": ["y", "x"], "a": ["1"]})
    others = [
        key_of("g", "t", {"a": "1", "b": ["x", "y"]}),
        key_of("f", "u", {"a": "1", "b": ["x", "y"]}),
        key_of("f", "t", {"a": "1", "b": ["x"]}),
        key_of("f", "t", {"a": "1", "c": ["x", "y"]}),
        key_of("f", "t", {"a": "1b", "": ["x", "y"]}),
    ]
    assert len({key, *others}) == 6
    assert fields_of([("b", "x"), ("a", "1"), ("b", "y")]) == {"b": ["x", "y"], "a": "1"}


@pytest.mark.parametrize(
    ("given", "verdict", "label"),
    [
        ({"verdict": "right"}, "right", "one"),
        ({"verdict": "wrong"}, "wrong", None),
        ({"verdict": "wrong", "label": "two"}, "wrong", "two"),
        ({"label": "two"}, "wrong", "two"),
        ({"label": "one"}, "right", "one"),
        ({"label": "one", "answer": None}, None, "one"),
        ({"function": "ai_filter", "answer": "Yes", "label": "false"}, "wrong", "No"),
        ({"fields": {"a": 1, "b": None, "c": [True, "x"]}, "label": 2.5}, "wrong", "2.5"),
    ],
)
def test_judgements(given: dict[str, object], verdict: str | None, label: str | None) -> None:
    """Verdict and label complete each other."""
    made = label_of({**ASKED, **given}, "ann")
    assert (made.verdict, made.label) == (verdict, label)


def test_fields_of_a_struct() -> None:
    """The fields of SQL's values have the texts that SQL's casts give; a NULL is no field."""
    made = label_of({**ASKED, "fields": {"a": 1, "b": None, "c": [True, None, "x"]}, "verdict": "right"}, "ann")
    assert made.fields == '{"a": "1", "c": ["true", "x"]}'


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs a verdict"),
        ({"verdict": "fine"}, "'right' or 'wrong'"),
        ({"verdict": "right", "label": "two"}, "not the answer"),
        ({"verdict": "wrong", "label": "one"}, "is the answer"),
        ({"verdict": "right", "answer": None}, "needs the model's answer"),
        ({"label": "x", "function": ""}, "needs a function"),
        ({"label": "x", "task": None}, "needs a task"),
        ({"label": "x", "fields": "[1]"}, "JSON object"),
        ({"label": "x", "fields": "{"}, "JSON object"),
        ({"label": "x", "fields": '{"a": {"b": 1}}'}, "JSON object"),
        ({"label": "x", "fields": None}, "JSON object"),
        ({"label": "x", "fields": {"a": "\ud800"}}, "fields"),
        ({"label": "x" * 65_537}, "at most 65,536 characters"),
        ({"label": "x", "comment": "x" * 4_097}, "at most 4,096 characters"),
        ({"label": "x", "fields": {"a": "x" * 65_537}}, "at most 65,536 characters"),
        ({"label": "x", "function": "ai_filter"}, "'Yes' or 'No'"),
    ],
)
def test_refused(given: dict[str, object], message: str) -> None:
    """A label that says too little, too much or two things is refused."""
    with pytest.raises(InvalidInputError, match=message):
        label_of({**ASKED, **given}, "ann")


def _put(store: LabelStore, user: str, **given: object) -> str:
    label = label_of({**ASKED, **given}, user)
    store.put(user, [label])
    return label.label_id


def test_each_user_has_one_label(tmp_path: Path) -> None:
    """A relabel replaces that user's label alone, and the file has them after a restart."""
    store = LabelStore(tmp_path / "labels.sqlite")
    assert store.snapshot("labels").num_rows == 0
    assert not (tmp_path / "labels.sqlite").exists()
    first = _put(store, "ann", verdict="right")
    other = _put(store, "bob", verdict="wrong", comment="no")
    assert _put(store, "ann", label="two") == first
    again = LabelStore(tmp_path / "labels.sqlite")
    rows: list[dict[str, Any]] = again.snapshot("labels").to_pylist()
    assert [(row["user"], row["verdict"], row["label"], row["comment"]) for row in rows] == [
        ("bob", "wrong", None, "no"),
        ("ann", "wrong", "two", None),
    ]
    assert rows[0]["key"] == rows[1]["key"] == key_of("ai_gen", "Of `a`?", {"a": "1"})
    assert again.remove([other, "unknown"]) == 1
    assert [one.user for one in again.of(rows[0]["key"])] == ["ann"]
    assert (tmp_path / "labels.sqlite").stat().st_mode & 0o077 == 0


def test_the_whole_size_is_bounded(tmp_path: Path) -> None:
    """A label that would make all labels too large is refused, and the others stay; a replaced label does not count."""
    store = LabelStore(tmp_path / "labels.sqlite", most_bytes=100_000)
    for number in range(4):
        _put(store, f"user{number}", label="x" * 24_000)
    with pytest.raises(LimitExceededError, match=r"all labels together .* delete"):
        _put(store, "user4", label="x" * 4_000)
    _put(store, "user3", label="y" * 24_000)
    assert [row["label"][0] for row in store.snapshot("labels").to_pylist()] == ["x", "x", "x", "y"]


def _many(user: str, seen: list[int]) -> Iterator[Label]:
    """Yield labels without an end; `seen` gets their numbers."""
    for number in count():
        seen.append(number)
        yield label_of({**ASKED, "fields": {"a": str(number)}, "label": "x" * 10_000}, user)


def test_each_user_has_a_share(tmp_path: Path) -> None:
    """A user's labels take a quarter of the room. A statement is read no further, adds nothing, and others label on."""
    store = LabelStore(tmp_path / "labels.sqlite", most_bytes=40 << 20)
    _put(store, "ann", label="kept")
    seen: list[int] = []
    with pytest.raises(LimitExceededError, match="your labels together can take 10 MiB"):
        store.put("ann", _many("ann", seen))
    assert 900 < len(seen) < 1_200
    _put(store, "bob", label="his")
    assert [row["label"] for row in store.snapshot("labels").to_pylist()] == ["kept", "his"]
    assert store.put("ann", islice(_many("ann", []), 900)) == 900
    assert store.put("ann", islice(_many("ann", []), 900)) == 900
    with pytest.raises(LimitExceededError, match="your labels"):
        store.put("ann", islice(_many("ann", []), 900, 1_100))
    assert store.snapshot("labels").num_rows == 901


def test_readers_wait_for_no_writer(tmp_path: Path) -> None:
    """Labels are read, and others write, while a statement's rows come; a writer's transaction stops no reader."""
    store = LabelStore(tmp_path / "labels.sqlite")
    _put(store, "ann", label="kept")
    (key,) = store.snapshot("labels").column("key").to_pylist()

    def slow() -> Iterator[Label]:
        for number in range(300):
            yield label_of({**ASKED, "fields": {"b": str(number)}, "label": "x" * 10_000}, "ann")
            found = _within_seconds(lambda: [one.label for one in store.of(key)])
            assert found == (["kept", "his"] if number else ["kept"])
            if not number:
                _within_seconds(lambda: _put(store, "bob", label="his"))

    assert store.put("ann", slow()) == 300
    with closing(sqlite3.connect(tmp_path / "labels.sqlite", isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("DELETE FROM labels")
        assert _within_seconds(lambda: len(store.of(key))) == 2
        assert _within_seconds(lambda: store.snapshot("labels").num_rows) == 302


def _within_seconds(work: Callable[[], _T]) -> _T:
    """Return what another thread's work returns; the limit only shows what hangs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(60)


def test_a_file_without_a_log(tmp_path: Path) -> None:
    """The first writer gives a file of an earlier version its log and indexes, and its labels stay."""
    path = tmp_path / "labels.sqlite"
    _put(LabelStore(path), "ann", label="kept")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in ("PRAGMA journal_mode = DELETE", "DROP INDEX of_key", "DROP INDEX of_user"):
            database.execute(statement)
    store = LabelStore(path)
    assert store.snapshot("labels").num_rows == 1
    _put(store, "bob", label="his")
    assert [row["label"] for row in store.snapshot("labels").to_pylist()] == ["kept", "his"]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_damaged_file(tmp_path: Path) -> None:
    """The error names the file, and nothing replaces it."""
    (tmp_path / "labels.sqlite").write_bytes(b"not a database, but long enough to be taken for one" * 20)
    store = LabelStore(tmp_path / "labels.sqlite")
    with pytest.raises(InternalError, match=r"labels\.sqlite"):
        store.of("key")
    with pytest.raises(InternalError, match=r"labels\.sqlite"):
        _put(store, "ann", verdict="right")
    assert (tmp_path / "labels.sqlite").read_bytes().startswith(b"not a database")


def test_from_several_threads(tmp_path: Path) -> None:
    """Each label of several threads, and of two stores over one file, is kept."""
    stores = [LabelStore(tmp_path / "labels.sqlite") for _ in range(2)]

    def label(number: int) -> None:
        for turn in range(5):
            _put(stores[number % 2], f"user{number}", fields={"a": str(turn)}, label="x")

    threads = [threading.Thread(target=label, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert stores[0].snapshot("labels").num_rows == 20
