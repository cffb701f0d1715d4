"""The first rows of a result as text, and as HTML for notebooks."""

from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import Any

import pyarrow as pa
from rich.console import Console

from flightllm.connection.render import as_table, fitting, put, text_of

SHOWN_ROWS = 20
"""The rows that a result shows."""
_WIDTH = 120
_CELL = 60
"""The most characters of a cell in text; a notebook shows `_HTML_CELL`."""
_HTML_CELL = 400


def text_table(schema: pa.Schema, rows: Sequence[Sequence[Any]], width: int = _WIDTH) -> str:
    """Return rows as a table of text."""
    out = StringIO()
    fits = fitting(schema, rows, width)
    put(_plain(out, width), as_table(fits.schema, fits.rows, _CELL))
    return out.getvalue().rstrip("\n")


def _plain(out: StringIO, width: int) -> Console:
    """Return a console for plain text; rich obeys FORCE_COLOR, and shows HTML in notebooks."""
    return Console(file=out, width=width, highlight=False, force_terminal=False, force_jupyter=False, color_system=None)


def html_table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as a table of HTML; all texts are escaped."""
    heads = "".join(f"<th>{escape(field.name)}<br><small>{escape(str(field.type))}</small></th>" for field in schema)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(text_of(value, _HTML_CELL))}</td>" for value in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def text_schema(schema: pa.Schema) -> str:
    """Return the columns of a result that has not run, one a line."""
    return "\n".join(f"  {field.name}: {field.type}" for field in schema)
