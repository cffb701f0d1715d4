"""Read files in FROM, for admins: `read_csv('/data/x.csv', delim => ';')` and `FROM '/data/x.csv'` become tables."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.catalog.converted import converted_format, converted_table
from flightllm.catalog.files import files_revision
from flightllm.catalog.memory import plain_schema
from flightllm.common.limits import over_limit
from flightllm.common.names import quoted
from flightllm.errors import InvalidInputError, SqlError, UnsupportedError
from flightllm.execution.cancel_token import stopped
from flightllm.execution.context import Services
from flightllm.file_formats.options import CsvOptions
from flightllm.file_formats.origins import Origin, origins_of
from flightllm.file_formats.paths import base_of, files_of
from flightllm.sql.arguments import split_arguments
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.scopes import NO_ALIAS, Scopes
from flightllm.sql.tokens import Token, TokenKind, position

_FUNCTIONS = {
    "read_csv": "csv",
    "read_csv_auto": "csv",
    "read_json": "json",
    "read_json_auto": "json",
    "read_ndjson": "json",
    "read_parquet": "parquet",
    "parquet_scan": "parquet",
    "read_text": "text",
}
"""The functions, with the formats that they read, whatever the files are called."""
MAY_BE_FILE = re.compile(
    # The first letter is before the test of a word's begin, because the search is then four times as quick.
    r"r(?<!\wr)ead_(?:csv|json|ndjson|parquet|text)|p(?<!\wp)arquet_scan|f(?<!\wf)rom\s*'|j(?<!\wj)oin\s*'|,\s*'[^']*\.(?:csv|tsv|txt|json|jsonl|ndjson|parquet)",
    re.IGNORECASE,
)
_EXAMPLE = "write read_csv('/folder/file.csv', delim => ';', header => true)"
_BATCH_ROWS = 1_024
"""Rows per batch; after each batch its bytes are counted."""


def replace_files(text: ParsedText, services: Services, keep: Callable[[pa.Table], str]) -> ParsedText:
    """Return SQL with each file in FROM replaced by a name that `keep` returns; other text stays as it is.

    Raises:
        PermissionDeniedError: the user is not an admin, or the configuration does not list the folder.
        SqlError: an argument is unknown or is not a constant.
        InvalidInputError: the file cannot be read.
        LimitExceededError: the file is too large to be read for one query.
    """
    sql, tokens, scopes = text.sql, text.tokens, text.scopes
    parts, start = [], 0
    for index, token in enumerate(tokens):
        if not scopes.names_table[index] or token.start < start:
            continue
        found = _call(sql, tokens, index, scopes)
        if found is None:
            continue
        last, location, options = found
        form = _FUNCTIONS.get(token.text.lower(), "") if token.kind is not TokenKind.STRING else ""
        table = keep(_rows(location, form, CsvOptions.of(options, form or "csv"), services))
        alias = "" if _has_alias(tokens, last + 1) else f" AS {quoted(_alias(location))}"
        parts += [sql[start : token.start], table, alias]
        start = tokens[last].end
    return text.replaced("".join([*parts, sql[start:]]))


def _call(sql: str, tokens: Sequence[Token], index: int, scopes: Scopes) -> tuple[int, str, Mapping[str, str]] | None:
    """Return the last token of a file in FROM, its location and its options; None if the token is not a file."""
    token = tokens[index]
    if token.kind is TokenKind.STRING:
        return index, token.text, {}
    closing = scopes.closing.get(index + 1)
    if not token.is_word(*_FUNCTIONS) or closing is None:
        return None
    where = f"{token.text} at {position(sql, token.start)}"
    location, options = "", dict[str, str]()
    for place, (first, last) in enumerate(split_arguments(tokens, index + 2, closing, scopes.closing)):
        given = tokens[first:last]
        if place == 0:
            if len(given) != 1 or given[0].kind is not TokenKind.STRING:
                raise SqlError(f"{where}: its first argument must be a path in single quotes: {_EXAMPLE}")
            location = given[0].text
            continue
        name = identifier(given[0]) if len(given) > 2 and given[1].is_symbol("=>") else None
        name = identifier(given[0]) if len(given) > 2 and given[1].is_symbol("=") else name
        values = [one.text for one in given[2:] if one.kind in {TokenKind.STRING, TokenKind.WORD, TokenKind.NUMBER}]
        if name is None or not values:
            raise SqlError(f"{where}: an option must have a name and a constant: {_EXAMPLE}")
        options[name] = ",".join(values)
    if not location:
        raise SqlError(f"{where}: its path is missing: {_EXAMPLE}")
    return closing, location, options


def _rows(location: str, wanted: str, csv: CsvOptions, services: Services) -> pa.Table:
    services.rights.check_admin("reading a file in FROM")
    store = services.catalog.store
    place = store.places.checked(location)
    if not isinstance(place, Path):
        raise UnsupportedError(
            "FROM can read only files on the server's disk: write CREATE EXTERNAL TABLE for other locations"
        )
    named = converted_format(place)
    form = wanted or named
    if form == "parquet" or form is None:
        files = files_of(place, any_name=wanted == "parquet")
        if not wanted and (not files or any(file.suffix.lower() != ".parquet" or not file.is_file() for file in files)):
            raise InvalidInputError(
                "FROM can read only existing CSV, JSON and Parquet files: write CREATE EXTERNAL TABLE for others"
            )
        return _read(files, place.name, services, (base_of(place), csv))
    other = wanted if wanted and named != wanted else ""
    kept = services.files.find(place, csv, f"{other}{files_revision(place, any_name=bool(other))}")
    if kept is not None:
        return kept
    found = converted_table(place, csv, "", store.folder, store.limits.memory_bytes, stopped, form=other)
    try:
        if form == "csv":
            found.check_separator(csv)
        rows = _read([found.copy], place.name, services)
        services.files.keep(place, csv, f"{other}{found.source.revision}", rows)
        return rows
    finally:
        store.folder.readers.retire(found.copy.parent)


def _read(
    files: Sequence[Path], name: str, services: Services, places: tuple[Path, CsvOptions] | None = None
) -> pa.Table:
    """Return the rows of Parquet files with the same columns; refuse more rows than an upload can have.

    `places` has the folder of the files, and options: the files' places below it can give columns.
    The bytes are counted while rows are read, because a small file can hold one large value for many rows.
    """
    most, size, batches = services.config.limits.upload_bytes, 0, list[pa.RecordBatch]()
    schema: pa.Schema | None = None
    origins = list[Origin]()
    for place, file in enumerate(files):
        try:
            with pq.ParquetFile(file) as opened:
                if schema is None:
                    schema = plain_schema(opened.schema_arrow)
                    origins = origins_of(files, *places, schema.names) if places else []
                for coded in opened.iter_batches(_BATCH_ROWS):
                    batch = coded if coded.schema.types == schema.types else coded.cast(schema)
                    for one in origins:
                        batch = batch.append_column(one.name, one.repeated(place, len(batch)))
                    size += batch.nbytes
                    if size > most:
                        found = f"the rows of {name} take more than {most:,} bytes"
                        raise over_limit("upload_bytes", most, found, "use CREATE EXTERNAL TABLE")
                    batches.append(batch)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InvalidInputError(f"{file.name} is not a readable Parquet file: {error}") from error
    if schema is None:
        raise InvalidInputError(f"there is no file {name}")
    for one in origins:
        schema = schema.append(pa.field(one.name, one.type))
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema)


def _alias(location: str) -> str:
    return Path(location.rstrip("/")).name.partition(".")[0] or "file"


def _has_alias(tokens: Sequence[Token], index: int) -> bool:
    if index >= len(tokens):
        return False
    token = tokens[index]
    return token.kind in {TokenKind.QUOTED, TokenKind.WORD} and not token.is_word(*NO_ALIAS)
