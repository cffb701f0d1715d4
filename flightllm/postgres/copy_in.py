"""COPY table FROM STDIN: the client's rows become one upload, as an upload over Flight is one."""

import io
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from flightllm.common.limits import over_limit
from flightllm.common.names import TableName, is_temporary, table_name
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.flight.updates import GRACE_SECONDS
from flightllm.flight.work import CallDeadline, await_end, begin
from flightllm.observe.query_record import CancelToken
from flightllm.postgres.copy_lines import Lines
from flightllm.postgres.copy_options import CopyOptions
from flightllm.postgres.copy_out import BINARY_HEAD
from flightllm.postgres.failures import ClientGoneError, WireError
from flightllm.postgres.messages import Body, copy_response
from flightllm.postgres.parameters import value_of
from flightllm.postgres.results import Result, done
from flightllm.postgres.talk import Talk
from flightllm.postgres.types import oid_of
from flightllm.sql.names import read_parts
from flightllm.sql.tokens import Token

_BLOCK = 4 << 20
"""The bytes of lines that are read together; a line cannot be longer."""
_ROWS = 4_096
_UNESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)


def copy_in(talk: Talk, name: Sequence[Token], options: CopyOptions) -> Result:
    """Read rows from the client into a table; no row is stored unless all are.

    Raises:
        NotFoundError: there is no such table or column.
        WireError: the rows do not fit, or the client gave up.
    """
    core, call = talk.engine.core, talk.engine.call
    core.refuse_when_draining()
    session = call.session(core)
    table, schema = _target(talk, name)
    if not is_temporary(table.schema):
        talk.engine.check_writable("COPY FROM")
    for column in {*options.force_null, *options.force_not_null} - {*schema.names, "*"}:
        raise WireError("42703", f'column "{column}" of relation "{table.name}" does not exist')
    stop = CancelToken()
    place = core.admit(call, session, stop.set)
    patience = CallDeadline(call.is_cancelled, session.time_limit({}).start())
    stream = _Stream(talk, core.limits.upload_bytes, core.received.add, patience)
    try:
        talk.send(copy_response(b"G", len(schema), binary=options.format == "binary"))
        talk.link.flush()
        rows = _binary_rows(stream, schema) if options.format == "binary" else _lines(stream, schema, options)
    except BaseException:
        place.release()
        raise
    future = begin(
        lambda: session.ingest(table.name, rows, schema, "append", db_schema=table.schema, cancelled=stop), place
    )
    written = await_end(future, place, patience, stop=stop.because, grace_seconds=GRACE_SECONDS)
    talk.engine.changes += 1
    return done(f"COPY {written}")


def _target(talk: Talk, name: Sequence[Token]) -> tuple[TableName, pa.Schema]:
    """Return the table, and those of its columns that the client sends."""
    parts, after = read_parts(name, 0)
    named = table_name(parts)
    info = talk.engine.call.session(talk.engine.core).addressed(named.name, named.schema if len(parts) > 1 else "")
    found, whole = info.name, info.schema
    columns = [token.text if token.text in whole.names else token.text.lower() for token in name[after + 1 : -1 : 2]]
    for column in columns:
        if column not in whole.names:
            raise WireError("42703", f'column "{column}" of relation "{named.name}" does not exist')
    return found, pa.schema([whole.field(column) for column in columns]) if columns else whole


class _Stream(io.RawIOBase):
    """The bytes of the client's CopyData messages, as a file."""

    def __init__(self, talk: Talk, limit: int, count: Callable[[int], None], patience: CallDeadline) -> None:
        super().__init__()
        self._talk = talk
        self._limit = limit
        self._count = count
        self._patience = patience
        self._rest = memoryview(b"")
        self._received = 0
        self._over = False
        self.error: FlightLLMError | None = None

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0 bytes mean the end."""
        while not self._rest and not self._over:
            self._rest = memoryview(self._next())
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def _next(self) -> bytes:
        """Return the next message's bytes, or no bytes at the end."""
        try:
            kind, body = self._talk.link.next_message()
        except ClientGoneError as error:
            raise self._failed(CancelledError("the client left")) from error
        if kind == b"d":
            self._received += len(body)
            self._count(len(body))
            if self._received > self._limit:
                found = f"the rows have {self._received:,} bytes"
                raise self._failed(over_limit("upload_bytes", self._limit, found, "send them in parts"))
            if self._patience.deadline.over:
                raise self._failed(self._patience.deadline.error())
            return body
        if kind == b"c":
            self._over = True
        elif kind == b"f":
            text = Body(body).text()
            if self._talk.is_cancelled:
                raise self._failed(CancelledError("the client cancelled the statement"))
            raise self._failed(WireError("57014", f"COPY from stdin failed: {text}"))
        elif kind not in (b"H", b"S"):  # as in PostgreSQL, these two have no meaning here
            raise self._failed(WireError("08P01", f"unexpected message type 0x{kind.hex()} during COPY from stdin"))
        return b""

    def _failed(self, error: FlightLLMError) -> FlightLLMError:
        self.error = error
        return error


# --- text and CSV


def _lines(stream: _Stream, schema: pa.Schema, options: CopyOptions) -> Iterator[pa.RecordBatch]:
    is_csv = options.format == "csv"
    names = [str(index) for index in range(len(schema))]
    parsing = csv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote if is_csv else False,
        double_quote=is_csv,
        escape_char=False,
        newlines_in_values=is_csv,
        ignore_empty_lines=False,
    )
    skipped = int(options.header and not options.match)
    second = schema.names[1] if len(schema) > 1 else ""
    reading = csv.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names, skip_rows=skipped)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[options.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        reader = csv.open_csv(
            io.BufferedReader(Lines(stream, options, _BLOCK, second), _BLOCK), reading, parsing, converting
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return
        raise stream.error or _wrong(error) from error
    is_header = options.match
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowInvalid as error:
            raise stream.error or _wrong(error) from error
        if is_header and batch.num_rows:
            _check_header(batch.slice(0, 1), schema, options)
            batch, is_header = batch.slice(1), False
        yield _typed(_forced(batch, schema, options), schema, escaped=not is_csv)


def _check_header(line: pa.RecordBatch, schema: pa.Schema, options: CopyOptions) -> None:
    for index, (cells, name) in enumerate(zip(line.columns, schema.names, strict=True), 1):
        found = (cells if options.format == "csv" else _unescaped(cells))[0].as_py()
        if found != name:
            shown = f'null value ("{options.null}")' if found is None else f'"{found[:80]}"'
            raise WireError(
                "22P04", f'column name mismatch in header line field {index}: got {shown}, expected "{name}"'
            )


def _forced(batch: pa.RecordBatch, schema: pa.Schema, options: CopyOptions) -> pa.RecordBatch:
    """Apply FORCE_NULL and FORCE_NOT_NULL; a text of NULL that is not null here was quoted."""
    if not (options.force_null or options.force_not_null):
        return batch
    columns = []
    for cells, name in zip(batch.columns, schema.names, strict=True):
        quoted = pc.equal(cells, options.null).fill_null(False)  # noqa: FBT003 - Arrow's own
        found = cells.fill_null(options.null) if _is_named(name, options.force_not_null) else cells
        if _is_named(name, options.force_null):
            found = pc.if_else(quoted, pa.scalar(None, pa.string()), found)
        columns.append(found)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_named(column: str, names: Sequence[str]) -> bool:
    return column in names or "*" in names


def _wrong(error: pa.ArrowInvalid) -> WireError:
    said = str(error).partition(" Row:")[0].removeprefix("CSV parse error: ")
    return WireError("22P04", f"the rows of COPY cannot be read: {said}")


def _typed(batch: pa.RecordBatch, schema: pa.Schema, *, escaped: bool) -> pa.RecordBatch:
    columns = []
    for cells, field in zip(batch.columns, schema, strict=True):
        texts = _unescaped(cells) if escaped else cells
        columns.append(_cast(texts, field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _unescaped(cells: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring(cells, "\\")).as_py():
        return cells
    found = (None if cell is None else _ESCAPE.sub(_letter, cell.encode()) for cell in cells.to_pylist())
    try:
        return pa.array([None if cell is None else cell.decode() for cell in found], pa.string())
    except UnicodeDecodeError as error:
        raise WireError("22021", 'invalid byte sequence for encoding "UTF8"') from error


def _letter(found: re.Match[bytes]) -> bytes:
    if found[3] is not None:
        return _UNESCAPED.get(found[3], found[3])
    code = int(found[1], 16) if found[1] is not None else int(found[2], 8)
    return bytes([code & 0xFF])


def _cast(texts: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if pa.types.is_string(kind):
        return texts
    try:
        if (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_date(kind)
            or kind == pa.large_string()
        ):
            return texts.cast(kind)
        return _joined((_value(cell, kind) for cell in texts.to_pylist()), kind)
    except (pa.ArrowException, WireError) as error:
        raise WireError("22P02", f'invalid input for the column "{field.name}" of type {kind}: {error}') from error


def _value(cell: str | None, kind: pa.DataType) -> Any:
    data = None if cell is None else cell.encode()
    return value_of(data, oid_of(kind), binary=False, kind=kind)[0].as_py()


def _joined(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(list(values), kind)


# --- the binary form


def _binary_rows(stream: _Stream, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    file = io.BufferedReader(stream, 1 << 16)
    head = _exactly(file, len(BINARY_HEAD))
    if head[:11] != BINARY_HEAD[:11]:
        raise WireError("22P04", "COPY file signature not recognized")
    _exactly(file, struct.unpack("!I", head[15:19])[0])
    oids = [oid_of(field.type) for field in schema]
    rows: list[list[Any]] = []
    while (count := struct.unpack("!h", _exactly(file, 2))[0]) != -1:
        if count != len(schema):
            raise WireError("22P04", f"row field count is {count}, expected {len(schema)}")
        rows.append([_binary_value(file, oid) for oid in oids])
        if len(rows) == _ROWS:
            yield _batch(rows, schema)
            rows = []
    if file.read(1):
        raise WireError("22P04", "received copy data after EOF marker")
    if rows:
        yield _batch(rows, schema)


def _binary_value(file: "io.BufferedReader[Any]", oid: int) -> Any:
    size = struct.unpack("!i", _exactly(file, 4))[0]
    return None if size == -1 else value_of(_exactly(file, size), oid, binary=True)[0].as_py()


def _batch(rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    try:
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise WireError("22P03", f"the rows of COPY do not fit the table: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _exactly(file: "io.BufferedReader[Any]", size: int) -> bytes:
    data = file.read(size) if 0 <= size <= 1 << 30 else b""
    if len(data) != size:
        raise WireError("22P04", "unexpected EOF in COPY data")
    return data
