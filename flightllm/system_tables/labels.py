"""`system.labels`: people's judgements about answers, kept in the data folder until somebody deletes them.

A label names a call by its function, task and fields, and not by its model. So it says what is true of all models.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from flightllm.common.atomic_files import make_private
from flightllm.common.text import check_well_formed
from flightllm.errors import InternalError, InvalidInputError, LimitExceededError

GIVEN = ("function", "task", "fields", "answer", "model", "verdict", "label", "comment")
"""The columns that a person gives; the server adds the others."""
VERDICTS = ("right", "wrong")
Fields: TypeAlias = Mapping[str, str | Sequence[str]]
"""The values of a prompt's fields by name; a field with a list has several."""
_T = TypeVar("_T")

_COLUMNS = ("label_id", "key", *GIVEN, "user", "labelled_at")
_SCHEMA = pa.schema([*((name, pa.string()) for name in _COLUMNS[:-1]), ("labelled_at", pa.timestamp("us", tz="UTC"))])
_TABLE = """
CREATE TABLE IF NOT EXISTS labels (
    label_id TEXT PRIMARY KEY, "key" TEXT NOT NULL, function TEXT NOT NULL, task TEXT NOT NULL, fields TEXT NOT NULL,
    answer TEXT, model TEXT, verdict TEXT, label TEXT, comment TEXT, user TEXT NOT NULL, labelled_at INTEGER NOT NULL)
"""
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)
_PUT = f"INSERT OR REPLACE INTO labels ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_SELECT = f"SELECT {_NAMES} FROM labels"
_MOST_TEXT = 65_536
"""The most characters of a task, of the fields together, of an answer and of a label."""
_MOST_COMMENT = 4_096
_MOST_NAME = 256
_MOST_BYTES = 256 << 20
"""The most bytes of all labels: a query of `system.labels` holds them in memory."""
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

    A label is on disk when `put` returns. The first label creates the file.
    """

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"labels": _SCHEMA})

    def __init__(self, path: Path, most_bytes: int = _MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._lock = threading.Lock()

    def put(self, labels: Iterable[Label]) -> int:
        """Keep labels, all or no one; return their number. A user's label replaces that user's one with the same key.

        Raises:
            LimitExceededError: all labels together are too large.
            InternalError: the file cannot be written.
        """
        rows = [(*(getattr(one, name) for name in _COLUMNS[:-1]), _micros(one.labelled_at)) for one in labels]

        def write(database: sqlite3.Connection) -> None:
            database.executemany(_PUT, rows)
            pages, free, size = (
                int(database.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
            if (pages - free) * size > self._most_bytes:
                raise LimitExceededError(
                    f"all labels together can take {self._most_bytes >> 20} MiB: copy some to a table by CREATE TABLE"
                    " … AS SELECT … FROM system.labels, and delete them"
                )

        if rows:
            self._writing(write)
        return len(rows)

    def remove(self, label_ids: Iterable[str]) -> int:
        """Delete labels; return how many there were.

        Raises:
            InternalError: the file cannot be written.
        """
        if not self._path.exists():
            return 0
        ids = [(one,) for one in label_ids]
        return self._writing(
            lambda database: database.executemany("DELETE FROM labels WHERE label_id = ?", ids).rowcount
        )

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
        with self._lock, self._open() as database:
            rows = database.execute(f"{_SELECT} {condition} ORDER BY labelled_at, label_id", values).fetchall()
        return [Label(*(*row[:-1], datetime.fromtimestamp(row[-1] / 1e6, UTC))) for row in rows]

    def _writing(self, write: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            if not self._path.exists():
                make_private(self._path.parent)
                self._path.touch(mode=0o600)
            with self._open() as database, database:
                return write(database)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one use: nothing stays open, so that a backup or a restore finds a whole file."""
        try:
            with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute(_TABLE)
                yield database
        except (sqlite3.Error, OSError) as error:
            raise InternalError(
                f"the labels cannot be read or written ({error}): {self._path.name} in the data folder can be restored"
                " from a backup"
            ) from error


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)
