"""COPY between a table and a file of the person at the command line, as `\\copy` of psql does it."""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from flightllm.cli.common import tell
from flightllm.cli.results import Output
from flightllm.cli.writers import WRITERS, Writing, form_of
from flightllm.client import Client
from flightllm.errors import InvalidInputError

_COPY: Final = re.compile(r"\bcopy\b", re.IGNORECASE)
_USAGE: Final = "write COPY (SELECT …) TO 'file.csv', COPY table TO 'file.csv' or COPY table FROM 'file.csv'"
_FORMS: Final[Mapping[str, str]] = {"jsonl": "json", "ndjson": "json", "excel": "xlsx"}
_SAME: Final[Mapping[str, str]] = {"delim": "delimiter", "sep": "delimiter", "codec": "compression"}
_COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
_CHOICES: Final = ("format", "header", "delimiter", "compression")
"""The options of COPY … TO."""


class CopyTo(NamedTuple):
    """A query, and the file for its rows."""

    sql: str
    output: Output


class CopyFrom(NamedTuple):
    """A file whose rows go into a table; without columns, the names in the file decide."""

    table: str
    """Its name as written."""
    parts: Sequence[str]
    """The parts of this name."""
    columns: str
    """The list of columns as written, without parentheses; empty for all."""
    source: str
    """A path or an address."""
    options: Sequence[tuple[str, str]]
    """Options of a CSV file."""


def read_copy(text: str) -> CopyTo | CopyFrom | None:
    r"""Read a COPY statement or a `\copy` command; return None for another text.

    The options are those of PostgreSQL and DuckDB, in parentheses or as words.

    Raises:
        SqlError: a quote is open.
        InvalidInputError: the statement is malformed, or has an option that does not exist.
    """
    if _COPY.search(text) is None:
        return None
    from flightllm.sql.tokens import tokenize  # slow to import

    plain = text.strip().removeprefix("\\").rstrip("; \n")
    tokens = tokenize(plain)
    return _Reader(plain).read() if tokens and tokens[0].is_word("copy") else None


def copy_from(client: Client, copy: CopyFrom) -> int:
    """Add the rows of a file to a table of the server; return their number.

    Raises:
        ConfigError: the file cannot be read.
        InvalidInputError: the file's columns are not those of the table.
        FlightLLMError: the server refuses the rows.
    """
    from flightllm.cli.opened import opened_server
    from flightllm.config import Config
    from flightllm.connection.sources import named_tables

    tables = named_tables([copy.source], tell, copy.options)
    if len(tables) != 1:
        raise InvalidInputError(f"{copy.source} holds {len(tables)} tables: COPY reads a file with one")
    config = Config.load(None, engine="fake", tables=dict(tables))
    wanted, rows = client.query(f"SELECT {copy.columns or '*'} FROM {copy.table} LIMIT 0")
    _ = list(rows)
    token = secrets.token_urlsafe()
    with (
        opened_server(config, "SELECT", token) as uri,
        Client(uri, {"authorization": f"Bearer {token}"}) as reading,
    ):
        schema, batches = reading.query(f"SELECT * FROM {tables[0][0]}")
        named = pa.schema(
            [field.with_name(name) for field, name in zip(schema, _names(copy, schema, wanted), strict=True)]
        )
        return client.append(copy.parts, named, _renamed(batches, named))


def _renamed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _names(copy: CopyFrom, found: pa.Schema, wanted: pa.Schema) -> Sequence[str]:
    """Return the table's column for each column of the file."""
    if copy.columns:
        if len(wanted) != len(found):
            raise InvalidInputError(
                f"{copy.source} has {len(found)} columns, and COPY {copy.table} names {len(wanted)}"
            )
        return list(wanted.names)
    by_case = {name.casefold(): name for name in wanted.names}
    names = [name if name in wanted.names else by_case.get(name.casefold(), "") for name in found.names]
    if all(names) and len({*names}) == len(names):
        return names
    raise InvalidInputError(
        f"the columns of {copy.source} ({', '.join(found.names)}) are not those of {copy.table}"
        f" ({', '.join(wanted.names)}): name the columns, as in COPY {copy.table} (a, b) FROM …"
    )


class _Reader:
    """Reads one COPY statement."""

    def __init__(self, text: str) -> None:
        from flightllm.sql.cursor import Cursor
        from flightllm.sql.tokens import tokenize

        self._text = text
        self._at = Cursor(tokenize(text), 1)

    def read(self) -> CopyTo | CopyFrom:
        """Return the statement."""
        from flightllm.sql.names import read_parts

        at = self._at
        if at.symbol("("):
            query = self._inside()
            at.need(_USAGE, "to")
            return self._to(query)
        begin = at.at
        parts, at.at = read_parts(at.tokens, begin)
        if not parts:
            raise InvalidInputError(f"a table or a query in parentheses must follow COPY: {_USAGE}")
        table = self._text[at.tokens[begin].start : at.tokens[at.at - 1].end]
        columns = self._inside() if at.symbol("(") else ""
        if at.take("from"):
            return self._from(table, parts, columns)
        at.need(_USAGE, "to")
        return self._to(f"SELECT {columns or '*'} FROM {table}")

    def _to(self, query: str) -> CopyTo:
        target = self._target("stdout")
        if target is not None and "://" in target:
            raise InvalidInputError(f"COPY writes files of this machine, and {target} is an address")
        path = None if target is None else Path(target).expanduser()
        given = self._options()
        wished = given.pop("format", "").lower()
        form = _FORMS.get(wished, wished) or ("csv" if path is None or not path.suffix else form_of(path))
        if form is None or form not in WRITERS:
            raise InvalidInputError(
                f"COPY cannot tell the format of {path or 'STDOUT'}: write (FORMAT name), one of {', '.join(WRITERS)}"
            )
        return CopyTo(query, Output(form, path, writing=_writing(given), counts=path is not None))

    def _from(self, table: str, parts: Sequence[str], columns: str) -> CopyFrom:
        source = self._target("stdin")
        if source is None:
            raise InvalidInputError("COPY … FROM STDIN is not supported: write the rows to a file")
        given = self._options()
        given.pop("format", None)  # the file shows its format
        form = form_of(Path(source))
        if given and form in WRITERS and form not in {"csv", "tsv"}:
            raise InvalidInputError(f"{min(given)}: only files of CSV have options, and {source} has another ending")
        return CopyFrom(table, parts, columns, source, tuple(given.items()))

    def _inside(self) -> str:
        """Return the text up to the parenthesis that closes the open one."""
        at, depth, begin = self._at, 1, self._at.at
        while (token := at.next()) is not None:
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth == 0:
                return self._text[at.tokens[begin].start : token.start].strip()
        raise InvalidInputError(f"a parenthesis is open: {_USAGE}")

    def _target(self, stream: str) -> str | None:
        """Return the path or address after TO or FROM, with or without quotes; None for the stream."""
        from flightllm.sql.tokens import TokenKind

        at = self._at
        if at.take(stream):
            return None
        if at.take("program"):
            raise InvalidInputError("COPY … PROGRAM is not supported: name a file")
        token = at.next()
        if token is None:
            raise InvalidInputError(f"the file is missing: {_USAGE}")
        if token.kind in {TokenKind.STRING, TokenKind.QUOTED}:
            return token.text
        end = re.compile(r"\s|\Z").search(self._text, token.start)
        last = len(self._text) if end is None else end.start()
        while at.at < len(at.tokens) and at.tokens[at.at].start < last:
            at.at += 1
        return self._text[token.start : last]

    def _options(self) -> dict[str, str]:
        """Read the rest: `WITH (name value, …)`, `(name value, …)`, or words such as `CSV HEADER DELIMITER ';'`."""
        from flightllm.sql.tokens import TokenKind

        at, found = self._at, dict[str, str]()
        at.take("with")
        listed = at.symbol("(")
        while (token := at.next()) is not None and not (listed and token.is_symbol(")")):
            name = _SAME.get(token.text.lower(), token.text.lower())
            if token.is_symbol(","):
                continue
            if name in {"csv", "binary", "text"} and not listed:
                found["format"] = name
                continue
            if token.kind not in {TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING}:
                raise InvalidInputError(f"an option of COPY is a name and a value, and not {token.text!r}")
            if name in found:
                raise InvalidInputError(f"the option {name} of COPY is given twice")
            at.symbol("=")
            if not listed:
                at.take("as")
            after = at.tokens[at.at] if at.at < len(at.tokens) else None
            flag = after is None or after.kind is TokenKind.SYMBOL or (name == "header" and not _is_truth(after.text))
            if flag or after is None:
                found[name] = "true"
            else:
                found[name] = after.text
                at.next()
        at.end(_USAGE)
        return found


def _is_truth(text: str) -> bool:
    return text.lower() in {"true", "false", "on", "off", "1", "0"}


def _writing(given: Mapping[str, str]) -> Writing:
    """Return how a file is written.

    Raises:
        InvalidInputError: an option does not exist, or has a wrong value.
    """
    for name in given:
        if name not in _CHOICES:
            raise InvalidInputError(f"COPY … TO has no option {name}: write one of {', '.join(_CHOICES)}")
    header, delimiter = given.get("header", "true").lower(), given.get("delimiter")
    compression = given.get("compression", "zstd").lower()
    if not _is_truth(header):
        raise InvalidInputError(f"HEADER is true or false, and not {header!r}")
    if delimiter is not None:
        delimiter = "\t" if delimiter == "\\t" else delimiter
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise InvalidInputError(f"DELIMITER is one ASCII character, and not {delimiter!r}")
    if compression not in _COMPRESSIONS:
        raise InvalidInputError(f"there is no compression {compression!r}: write one of {', '.join(_COMPRESSIONS)}")
    return Writing(delimiter, header in {"true", "on", "1"}, compression)
