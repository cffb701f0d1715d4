"""Files of the page's user, as temporary tables of the user's session."""

import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from anyio import fail_after, open_file
from starlette.requests import Request

from flightllm.catalog.conversion import convert, sheet_names
from flightllm.catalog.files import is_document
from flightllm.common.limits import over_limit
from flightllm.common.names import is_temporary, quoted
from flightllm.errors import (
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    StatementTimeoutError,
    check_cancelled,
)
from flightllm.file_formats.compressed import ending
from flightllm.file_formats.conversion import Conversion
from flightllm.file_formats.documents import ENDINGS as DOCUMENTS
from flightllm.file_formats.json_values import ENDINGS as JSON
from flightllm.file_formats.options import NOTHING_SAID
from flightllm.file_formats.parts import ENDINGS as PARTS
from flightllm.file_formats.table_names import stem, table_name
from flightllm.flight.core import Core
from flightllm.flight.updates import GRACE_SECONDS
from flightllm.flight.uploads import Upload
from flightllm.observe.query_record import CancelToken
from flightllm.session.session import Session
from flightllm.web.calls import WebCall

MOST_BYTES = 256 << 20
"""The largest file; `upload_bytes` can be a lower bound, and limits the rows in any case."""
RECEIVE_SECONDS = 600.0
"""The time for a file to arrive."""
_MOST_TABLES = 50
_ROWS = 8_192
_CSV = (".csv", ".tsv", ".tab", ".dat")
_KNOWN = (*_CSV, *JSON, ".parquet", *DOCUMENTS, *PARTS)
_MOST_LETTERS = 60
"""The letters of a file's name that are kept: each can take four bytes, and a name has at most 255."""


@dataclass(frozen=True, slots=True)
class Made:
    """A temporary table that a file became, and what its reader noted."""

    name: str
    rows: int
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a file that becomes one table, and the name that the table should have."""

    wanted: str
    sheet: str = ""
    """The sheet, or the member of a zip file; empty for the whole file."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """A part as a Parquet file, and what its reader noted."""

    part: _Part
    source: Path
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Chunk:
    data: pa.RecordBatch


class _Batches(Iterator[_Chunk]):
    """A Parquet file as the chunks that `Upload` reads."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self.schema = file.schema_arrow
        self._batches = file.iter_batches(_ROWS)

    def __next__(self) -> _Chunk:
        return _Chunk(next(self._batches))


@contextmanager
def place_for(name: str) -> Iterator[Path]:
    """Give a path for a received file, with an ending that tells its format, in a folder that no other user can read.

    Raises:
        InvalidInputError: files of this format are not read.
    """
    own = _plain(name)
    if ending(own) not in _KNOWN:
        known = ", ".join(_KNOWN)
        raise InvalidInputError(f"{own.name!r} cannot be a table: the page takes files whose names end in {known}")
    with tempfile.TemporaryDirectory(prefix="flightllm-") as folder:
        yield Path(folder) / own


def _plain(name: str) -> Path:
    """Return the last part of a file's name; signs that could have a meaning in a path or a pattern become `_`."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return Path(re.sub(r"[^\w. -]", "_", last).lstrip("._ ")[-_MOST_LETTERS:])


async def receive(request: Request, target: Path, most: int) -> None:
    """Write the body of a request to a file.

    Raises:
        LimitExceededError: the body is longer than `most` bytes.
        StatementTimeoutError: the body takes too long.
    """
    try:
        with fail_after(RECEIVE_SECONDS):
            await _write(request.stream(), target, most)
    except TimeoutError as error:
        raise StatementTimeoutError(f"the file took longer than {RECEIVE_SECONDS:.0f} s to arrive") from error


async def _write(pieces: AsyncIterator[bytes], target: Path, most: int) -> None:
    received = 0
    async with await open_file(target, "wb") as file:
        async for piece in pieces:
            received += len(piece)
            if received > most:
                raise _too_large(most)
            await file.write(piece)


def _too_large(most: int) -> LimitExceededError:
    instead = "split the file, or convert it to Parquet"
    if most < MOST_BYTES:
        return over_limit("upload_bytes", most, "the file is too large", instead)
    return LimitExceededError(f"the page takes files of at most {most:,} bytes: {instead}")


def most_bytes(core: Core) -> int:
    """Return the size of the largest file that the page takes."""
    return min(MOST_BYTES, core.limits.upload_bytes)


class FileRun:
    """The work that makes temporary tables of a received file; it holds a place, as a statement does."""

    def __init__(self, core: Core, call: WebCall, file: Path, memory_bytes: int) -> None:
        self._core = core
        self._call = call
        self._file = file
        self._name = file.name
        self._memory_bytes = memory_bytes
        self._most_bytes = core.limits.upload_bytes
        self._stop = CancelToken()

    def __call__(self) -> list[Made]:
        """Return the tables.

        Raises:
            FlightLLMError: the file cannot be read, is too large, or its user can make no tables.
        """
        core = self._core
        core.refuse_when_draining()
        session: Any = self._call.session(core)
        session.rights.check_writer("make tables")
        return core.run(
            self._call, session, lambda: self._tables(session), stop=self._stop.because, grace_seconds=GRACE_SECONDS
        )

    def _tables(self, session: Session) -> list[Made]:
        """Read the whole file before the first table is made; if a table then fails, drop those before it."""
        found = [self._read(number, part) for number, part in enumerate(self._parts())]
        made = list[Made]()
        try:
            for one in found:
                made.append(self._table(session, one, [table.name for table in made]))
        except BaseException:
            for table in made:
                with suppress(FlightLLMError):  # the session has ended, and its tables with it
                    session.update(f"DROP TABLE IF EXISTS {quoted(table.name)}")
            raise
        return made

    def _parts(self) -> list[_Part]:
        own = stem(self._file)
        if not self._file.name.lower().endswith(PARTS):
            return [_Part(own)]
        sheets = sheet_names(self._file, self._memory_bytes, self._stop.is_set, self._most_bytes)
        if len(sheets) > _MOST_TABLES:
            raise InvalidInputError(f"{self._name} holds {len(sheets):,} tables; the page takes {_MOST_TABLES}")
        return [_Part(own if len(sheets) == 1 else f"{own}_{sheet}", sheet) for sheet in sheets]

    def _read(self, number: int, part: _Part) -> _Rows:
        """Return a part as a Parquet file; an error names the part."""
        check_cancelled(self._stop.is_set)
        source, notes = self._file, list[str]()
        with _named(part):
            if ending(source) != ".parquet":
                source = self._file.with_name(f"converted-{number}.parquet")
                form = "text" if is_document(self._file) else ""
                work = Conversion(self._file, NOTHING_SAID, part.sheet, source, form, self._most_bytes)
                notes = convert(work, self._memory_bytes, self._stop.is_set)
            with self._opened(source, part):
                return _Rows(part, source, notes)

    def _opened(self, source: Path, part: _Part) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(source)
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"{part.sheet or self._name} is not a valid Parquet file") from error

    def _table(self, session: Session, rows: _Rows, made: Sequence[str]) -> Made:
        name = self._free(session, table_name(rows.part.wanted), made)
        with _named(rows.part), self._opened(rows.source, rows.part) as file:
            upload = Upload(_Batches(file), self._most_bytes, count=self._core.received.add)
            count = session.ingest(name, upload, upload.declared, "replace", temporary=True, cancelled=self._stop)
        return Made(name, count, rows.notes)

    @staticmethod
    def _free(session: Session, wanted: str, made: Sequence[str]) -> str:
        """Return a name that hides no table of other sessions, and none of `made`.

        An earlier temporary table of this name is replaced.
        """
        taken = {info.name.name for info in session.catalog.tables() if not is_temporary(info.name.schema)}
        taken.update(made)
        name, number = wanted, 1
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        return name


@contextmanager
def _named(part: _Part) -> Iterator[None]:
    """Put the name of a part of the file before an error that does not have it."""
    try:
        yield
    except FlightLLMError as error:
        if part.sheet and part.sheet not in str(error):
            error.args = (f"{part.sheet}: {error}",)
        raise
