"""`system.labels`: people's judgements about answers, kept in the data folder until somebody deletes them.

A label names a call by its function, task and fields, and not by its model. So it says what is true of all models.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from flightllm.common.atomic_files import make_private
from flightllm.common.text import check_well_formed
from flightllm.errors import InternalError, InvalidInputError, LimitExceededError

GIVEN = ("function", "task", "fields", "answer", "model", "verdict", "label", "comment")
"""The columns that a person gives; the server adds the others."""
VERDICTS = ("right", "wrong")
Fields: TypeAlias = Mapping[str, str | Sequence[str]]
"""The values of a prompt's fields by name; a field with a list has several."""

_COLUMNS = ("label_id", "key", *GIVEN, "user", "labelled_at")
_SCHEMA = pa.schema([*((name, pa.string()) for name in _COLUMNS[:-1]), ("labelled_at", pa.timestamp("us", tz="UTC"))])
_TABLE = """
CREATE TABLE IF NOT EXISTS labels (
    label_id TEXT PRIMARY KEY, "key" TEXT NOT NULL, function TEXT NOT NULL, task TEXT NOT NULL, fields TEXT NOT NULL,
    answer TEXT, model TEXT, verdict TEXT, label TEXT, comment TEXT, user TEXT NOT NULL, labelled_at INTEGER NOT NULL)
"""
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)
_ROW_BYTES = 256
"""The bytes of a label in the file beside its texts: of ids, the time and the indexes."""
_SIZE = " + ".join((str(_ROW_BYTES), *(f"ifnull(length(CAST({name} AS BLOB)), 0)" for name in (*GIVEN, "user"))))
_INDEXES = (
    'CREATE INDEX IF NOT EXISTS of_key ON labels ("key")',
    f"CREATE INDEX IF NOT EXISTS of_user ON labels (user, ({_SIZE}), label_id)",
)
_STAGED = f"""
CREATE TEMP TABLE staged ({", ".join(f'"{name}"' for name in _COLUMNS)}, size INTEGER NOT NULL, PRIMARY KEY (label_id))
"""
_STAGE = f"INSERT OR REPLACE INTO staged VALUES ({', '.join('?' * len(_COLUMNS))}, ?)"
_PUT = f"INSERT OR REPLACE INTO labels ({_NAMES}) SELECT {_NAMES} FROM staged"
_OTHERS = (
    f"SELECT ifnull(sum({_SIZE}), 0) FROM labels INDEXED BY of_user WHERE label_id NOT IN (SELECT label_id FROM staged)"
)
"""The bytes of the labels that the staged ones do not replace."""
_SELECT = f"SELECT {_NAMES} FROM labels"
_MOST_TEXT = 65_536
"""The most characters of a task, of the fields together, of an answer and of a label."""
_MOST_COMMENT = 4_096
_MOST_NAME = 256
_MOST_BYTES = 256 << 20
"""The most bytes of all labels: a query of `system.labels` holds them in memory."""
_SHARES = 4
"""A user's labels can take the most bytes divided by this number."""
_BATCH_BYTES = 1 << 20
"""The bytes of labels that `put` holds in memory."""
_BUSY_SECONDS = 5.0
_YES_NO = {"yes": "Yes", "true": "Yes", "no": "No", "false": "No"}


@dataclass(frozen=True, slots=True)
class Label:
    """One person's judgement about one answer."""

    label_id: str
    key: str
    function: str
    task: str
    fields: str
    """A JSON object."""
    answer: str | None
    """The model's answer that the person saw."""
    model: str | None
    verdict: str | None
    label: str | None
    """The right answer, if the person gave one."""
    comment: str | None
    user: str
    labelled_at: datetime

    def row(self) -> dict[str, Any]:
        """Return the row of `system.labels`."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def shown(self) -> dict[str, Any]:
        """Return what the page shows beside the answer, as JSON values."""
        told = {name: getattr(self, name) for name in ("label_id", "verdict", "label", "comment", "user")}
        return {**told, "labelled_at": self.labelled_at.isoformat(timespec="seconds")}


def key_of(function: str, task: str, fields: Fields) -> str:
    """Return the key of a call's question about some values, as 32 hexadecimal digits.

    The order of fields and of a list's elements does not count, and neither do model, layout and examples.
    """
    content = [function, task, sorted((name, sorted(_values(value))) for name, value in fields.items())]
    return blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def fields_of(pairs: Iterable[tuple[str, str]]) -> Fields:
    """Return the fields of a prompt by name; a name that repeats has a list."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def label_of(given: Mapping[str, object], user: str) -> Label:
    """Return the label that `user` gives now; `given` has values for some of `GIVEN`.

    Raises:
        InvalidInputError: a value is missing, too long or of a wrong type, or verdict, label and answer disagree.
    """
    function, task = _needed(given, "function", _MOST_NAME), _needed(given, "task", _MOST_TEXT)
    fields = _fields(given.get("fields"))
    answer, model = _text(given, "answer", _MOST_TEXT), _text(given, "model", _MOST_NAME)
    label, comment = _text(given, "label", _MOST_TEXT), _text(given, "comment", _MOST_COMMENT)
    if function == "ai_filter" and label is not None:
        label = _yes_no(label)
    verdict, label = _judged(_text(given, "verdict", _MOST_NAME), label, answer)
    key = key_of(function, task, fields)
    shown = json.dumps(fields, ensure_ascii=False)
    if len(shown) > _MOST_TEXT:
        raise InvalidInputError(f"the fields of a label have at most {_MOST_TEXT:,} characters")
    now = datetime.now(UTC)
    return Label(id_of(key, user), key, function, task, shown, answer, model, verdict, label, comment, user, now)


def id_of(key: str, user: str) -> str:
    """Return the id of a user's label with a key: each user has one label for each key."""
    return blake2b(f"{key} {user}".encode(), digest_size=8).hexdigest()


def _values(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _text(given: Mapping[str, object], name: str, most: int) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    check_well_formed(text, repr(name))
    if len(text) > most:
        raise InvalidInputError(f"the {name} of a label has at most {most:,} characters, not {len(text):,}")
    return text


def _needed(given: Mapping[str, object], name: str, most: int) -> str:
    text = _text(given, name, most)
    if not text:
        raise InvalidInputError(f"a label needs a {name}, as system.labels or the page shows it")
    return text


def _fields(value: object) -> Fields:
    """Return the fields of a JSON object, or of a struct's value; NULL stands for a field that the prompt lacks."""
    wrong = InvalidInputError(
        'the fields of a label are a JSON object of texts or lists of texts, such as {"ticket": "the text"}'
    )
    if isinstance(value, str):
        check_well_formed(value, "'fields'")
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise wrong from error
    if not isinstance(value, Mapping):
        raise wrong
    found: dict[str, str | Sequence[str]] = {}
    for name, one in value.items():
        several = one if isinstance(one, list) else [one]
        if not isinstance(name, str) or any(isinstance(each, dict | list) for each in several):
            raise wrong
        texts = [_field_text(each) for each in several if each is not None]
        if texts:
            found[name] = texts[0] if len(texts) == 1 else texts
    for text in (name_or_value for name, one in found.items() for name_or_value in (name, *_values(one))):
        check_well_formed(text, "'fields'")
    return found


def _field_text(value: object) -> str:
    """Return a value as SQL casts it to a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _yes_no(label: str) -> str:
    found = _YES_NO.get(label.strip().lower())
    if found is None:
        raise InvalidInputError(f"the label of ai_filter is 'Yes' or 'No', not {label[:40]!r}")
    return found


def _judged(verdict: str | None, label: str | None, answer: str | None) -> tuple[str | None, str | None]:
    """Return verdict and label, each completed by the other.

    Raises:
        InvalidInputError: both are missing, or they contradict the answer.
    """
    if verdict is not None and verdict not in VERDICTS:
        raise InvalidInputError(f"the verdict of a label is 'right' or 'wrong', not {verdict[:40]!r}")
    if verdict is None and label is None:
        raise InvalidInputError("a label needs a verdict, which is 'right' or 'wrong', or a label: the right answer")
    if verdict is None:
        return None if answer is None else ("right" if label == answer else "wrong"), label
    if verdict == "right":
        if answer is None and label is None:
            raise InvalidInputError("the verdict 'right' needs the model's answer, or a label: the right answer")
        if None not in {label, answer} and label != answer:
            raise InvalidInputError("the verdict is 'right', but the label is not the answer: leave one of them out")
        return verdict, answer if label is None else label
    if label is not None and label == answer:
        raise InvalidInputError("the verdict is 'wrong', but the label is the answer: leave one of them out")
    return verdict, label


class LabelStore:
    """All labels of a server, in the file `labels.sqlite`. Thread-safe; several processes can share the file.

    A label is on disk when `put` returns. The first label creates the file. Readers never wait for a writer: each has a
    connection of its own, and a writer adds to a write-ahead log. A user's labels can take a quarter of `most_bytes`.
    """

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"labels": _SCHEMA})

    def __init__(self, path: Path, most_bytes: int = _MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._writer = threading.Lock()
        """One thread writes at a time; other processes wait for SQLite's own lock."""

    def put(self, user: str, labels: Iterable[Label]) -> int:
        """Keep labels of `user`, all or no one; return their number. A label replaces the user's one with the same key.

        The labels wait in a temporary table on disk until `labels` ends. So little of them is in memory, and the file
        has no lock meanwhile. `put` stops to read at the label that exceeds a limit.

        Raises:
            LimitExceededError: the user's labels, or those of all users, are too large. The file has not changed.
            InternalError: the file cannot be written.
        """
        batches = _batches(labels)
        first = next(batches, None)
        if first is None:
            return 0
        with self._told():
            database = self._open_to_write()
        with closing(database):
            count = room = 0
            for rows in chain([first], batches):
                count += len(rows)
                room -= sum(row[-1] for row in rows)
                with self._told():
                    self._stage(database, rows)
                    if room < 0:
                        room = self._room(database, user)
            with self._told(), self._writer, database:
                database.execute("BEGIN IMMEDIATE")
                self._room(database, user)
                database.execute(_PUT)
        return count

    @staticmethod
    def _stage(database: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        with database:
            database.execute("BEGIN")
            database.executemany(_STAGE, rows)

    def _room(self, database: sqlite3.Connection, user: str) -> int:
        """Return how many bytes the user can add to the staged labels.

        Raises:
            LimitExceededError: the staged labels are too large beside those that they do not replace.
        """
        ((staged,),) = database.execute("SELECT ifnull(sum(size), 0) FROM staged")
        ((own,),) = database.execute(f"{_OTHERS} AND user = ?", (user,))
        ((all_,),) = database.execute(_OTHERS)
        share = self._most_bytes // _SHARES
        for whose, most, size in (("your labels", share, own), ("all labels", self._most_bytes, all_)):
            if size + staged > most:
                raise LimitExceededError(
                    f"{whose} together can take {most >> 20} MiB: copy some to a table by CREATE TABLE … AS SELECT …"
                    " FROM system.labels, and delete them"
                )
        return int(min(share - own, self._most_bytes - all_) - staged)

    def remove(self, label_ids: Iterable[str]) -> int:
        """Delete labels; return how many there were.

        Raises:
            InternalError: the file cannot be written.
        """
        if not self._path.exists():
            return 0
        ids = [(one,) for one in label_ids]
        with self._told(), closing(self._open_to_write()) as database, self._writer, database:
            database.execute("BEGIN IMMEDIATE")
            return database.executemany("DELETE FROM labels WHERE label_id = ?", ids).rowcount

    def get(self, label_id: str) -> Label | None:
        """Return a label, or None."""
        return next(iter(self._read("WHERE label_id = ?", label_id)), None)

    def of(self, key: str) -> list[Label]:
        """Return the labels of all users with a key, the oldest first."""
        return self._read('WHERE "key" = ?', key)

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows of `system.labels` as they are now, the oldest first."""
        return pa.Table.from_pylist([one.row() for one in self._read("")], schema=_SCHEMA)

    def _read(self, condition: str, *values: str) -> list[Label]:
        if not self._path.exists():
            return []
        with self._told(), closing(self._open()) as database:
            rows = database.execute(f"{_SELECT} {condition} ORDER BY labelled_at, label_id", values).fetchall()
        return [Label(*(*row[:-1], datetime.fromtimestamp(row[-1] / 1e6, UTC))) for row in rows]

    def _open_to_write(self) -> sqlite3.Connection:
        """Open the file, and make what it lacks: the file itself, its log, the indexes and the temporary table."""
        with self._writer:
            if not self._path.exists():
                make_private(self._path.parent)
                self._path.touch(mode=0o600)
            database = self._open()
            try:
                with suppress(sqlite3.OperationalError):  # a reader has it open: the next writer tries again
                    database.execute("PRAGMA journal_mode = WAL")
                for statement in (*_INDEXES, "PRAGMA temp_store = FILE", _STAGED):
                    database.execute(statement)
            except BaseException:
                database.close()
                raise
            return database

    def _open(self) -> sqlite3.Connection:
        """Open the file for one use: nothing stays open, so that a backup or a restore finds a whole file."""
        database = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = FULL")
            database.execute(_TABLE)
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell a failure of the file in the server's words."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise InternalError(
                f"the labels cannot be read or written ({error}): {self._path.name} in the data folder can be restored"
                " from a backup"
            ) from error


def _batches(labels: Iterable[Label]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the temporary table, some at a time: a row's last value is its size."""
    rows, size = list[tuple[Any, ...]](), 0
    for label in labels:
        given = [getattr(label, name) for name in _COLUMNS[:-1]]
        bytes_ = _ROW_BYTES + sum(len((getattr(label, name) or "").encode()) for name in (*GIVEN, "user"))
        rows.append((*given, _micros(label.labelled_at), bytes_))
        size += bytes_
        if size >= _BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)
