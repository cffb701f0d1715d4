"""Results as an Excel workbook."""

import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain, count, islice
from typing import IO, TYPE_CHECKING, Any, Final

import click
import pyarrow as pa

from flightllm.common.amounts import counted
from flightllm.common.text import json_text, plain_text
from flightllm.connection.render import rows_of
from flightllm.errors import ConfigError, InvalidInputError

if TYPE_CHECKING:
    from xlsxwriter.worksheet import Worksheet

_ROWS: Final = 1_048_576
_COLUMNS: Final = 16_384
_CHARACTERS: Final = 32_767
"""The most rows and columns of a sheet, and the most characters of a cell."""
_DIGITS: Final = 15
"""The digits of a number that Excel keeps."""
_FIRST_YEAR: Final = 1900


def write_workbook(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes], *, header: bool = True
) -> None:
    """Write a workbook with the rows of a result, on as many sheets as necessary.

    Numbers, dates and times that Excel cannot hold exactly become texts, as do lists, structs and bytes. Excel has no
    time zones, so such times become texts too. Standard error says how many texts are cut at Excel's limit.

    Raises:
        ConfigError: the package XlsxWriter is not installed.
        InvalidInputError: there are more columns than a sheet has.
    """
    try:
        import xlsxwriter
    except ImportError as error:
        raise ConfigError("writing .xlsx files needs the extra 'excel': pip install 'flightllm[excel]'") from error
    if len(schema) > _COLUMNS:
        raise InvalidInputError(f"a sheet of Excel has {_COLUMNS:,} columns, and the result has {len(schema):,}")
    # Texts that look like formulas or addresses stay texts.
    settings = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    rows, cut = rows_of(batches), 0
    with xlsxwriter.Workbook(out, settings) as book:
        bold = book.add_format({"bold": True})
        formats = {
            datetime: book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}),
            date: book.add_format({"num_format": "yyyy-mm-dd"}),
            time: book.add_format({"num_format": "hh:mm:ss"}),
        }
        for number in count():
            part = list(islice(rows, 1))
            if number and not part:
                break
            sheet = book.add_worksheet()
            if header:
                sheet.write_row(0, 0, [name[:_CHARACTERS] for name in schema.names], bold)
                sheet.freeze_panes(1, 0)
            first = int(header)
            for at, row in enumerate(chain(part, islice(rows, _ROWS - first - 1)), first):
                cut += _write_row(sheet, at, row, formats)
    if cut:
        click.echo(f"Excel keeps {_CHARACTERS:,} characters of a text: {counted(cut, 'cell')} cut", err=True)


def _write_row(sheet: "Worksheet", at: int, row: Sequence[Any], formats: dict[type, Any]) -> int:
    """Write a row; return how many of its texts are cut."""
    cut = 0
    for column, value in enumerate(row):
        if value is None:
            continue
        if isinstance(value, bool):
            sheet.write_boolean(at, column, value)
        elif _is_exact(value):
            sheet.write_number(at, column, float(value))
        elif type(value) in formats and _is_known_time(value):
            sheet.write_datetime(at, column, value, formats[type(value)])
        else:
            text = json_text(value) if isinstance(value, dict | list) else plain_text(value)
            sheet.write_string(at, column, text[:_CHARACTERS])
            cut += len(text) > _CHARACTERS
    return cut


def _is_exact(value: Any) -> bool:
    """Return whether a value is a number that Excel holds with all its digits."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int | Decimal):
        shown = Decimal(value)
        return shown.is_finite() and len(shown.normalize().as_tuple().digits) <= _DIGITS
    return False


def _is_known_time(value: Any) -> bool:
    """Return whether Excel can hold a time: none before 1900, no zone, whole milliseconds."""
    if getattr(value, "tzinfo", None) is not None or getattr(value, "microsecond", 0) % 1000:
        return False
    return isinstance(value, time) or value.year >= _FIRST_YEAR
