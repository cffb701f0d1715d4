"""COPY (query) TO STDOUT: rows as text, CSV or in binary form, one message for each row."""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import CancelledError
from flightllm.postgres.cells import texts
from flightllm.postgres.copy_options import CopyOptions
from flightllm.postgres.messages import COPY_DONE, copy_response, message
from flightllm.postgres.results import Result, done
from flightllm.postgres.rows import framed, pieces, tuples
from flightllm.postgres.talk import Talk

BINARY_HEAD = b"PGCOPY\n\xff\r\n\0" + b"\0" * 8
_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b"), ("\f", "\\f"), ("\v", "\\v"))


def copy_out(talk: Talk, sql: str, values: pa.Table | None, options: CopyOptions) -> Result:
    """Send the rows of a query; return the result with their number."""
    result, style = talk.engine.start(sql, values), talk.settings.interval_style
    try:
        schema = result.schema if result.schema is not None else pa.schema([])
        binary = options.format == "binary"
        talk.send(copy_response(b"H", len(schema), binary=binary))
        head = BINARY_HEAD if binary else b""
        if options.header and not binary:
            names = pa.RecordBatch.from_arrays([pa.array([name]) for name in schema.names], schema.names)
            talk.send(framed([*_lines(names, options, [False] * len(schema), style)], b"d"))
        forced = [name in options.force_quote or "*" in options.force_quote for name in schema.names]
        with talk.stopping(result):
            for batch in result.read():
                for piece in pieces(batch):
                    if talk.is_cancelled:
                        raise CancelledError("the client cancelled the statement")
                    parts = tuples(piece, [1] * len(schema)) if binary else _lines(piece, options, forced, style)
                    if head:  # clients expect it in the message of the first row
                        parts.insert(0, pa.array([head, *[b""] * (piece.num_rows - 1)], pa.binary()))
                        head = b""
                    talk.send(framed(parts, b"d"))
        if binary:
            talk.send(message(b"d", head, b"\xff\xff"))
        talk.send(COPY_DONE)
        return done(f"COPY {result.rows}")
    finally:
        result.close()


def _lines(batch: pa.RecordBatch, options: CopyOptions, forced: list[bool], style: str) -> list[pa.Array]:
    """Return the parts of lines: values and what is between them; `style` is that of intervals."""
    rows = batch.num_rows
    parts: list[Any] = []
    for index, column in enumerate(batch.columns):
        cells = texts(column, style).cast(pa.string())
        written = _quoted(cells, options, always=forced[index]) if options.format == "csv" else _escaped(cells, options)
        if index:
            parts.append(pa.array([options.delimiter.encode()] * rows, pa.binary()))
        parts.append(pc.fill_null(written, options.null).cast(pa.binary()))
    return [*parts, pa.array([b"\n"] * rows, pa.binary())]


def _escaped(cells: pa.Array, options: CopyOptions) -> pa.Array:
    for found, written in _ESCAPES:
        cells = pc.replace_substring(cells, found, written)
    if options.delimiter != "\t":
        cells = pc.replace_substring(cells, options.delimiter, f"\\{options.delimiter}")
    return cells


def _quoted(cells: pa.Array, options: CopyOptions, *, always: bool) -> pa.Array:
    quote, escape = options.quote, options.escape
    special = f"[{re.escape(options.delimiter)}{re.escape(quote)}\\r\\n]|^{re.escape(options.null)}$|^\\\\\\.$"
    doubled = cells
    if escape != quote:
        doubled = pc.replace_substring(doubled, escape, escape * 2)
    doubled = pc.replace_substring(doubled, quote, escape + quote)
    quoted = pc.binary_join_element_wise(pa.scalar(quote), doubled, pa.scalar(quote), "")
    return quoted if always else pc.if_else(pc.match_substring_regex(cells, special), quoted, cells)
