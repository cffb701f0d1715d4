"""Find columns in any case that only the rows of a query's own tables tell: those of files and searches in FROM."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from flightllm.common.names import table_name
from flightllm.dialect.column_spellings import column_spellings
from flightllm.dialect.source import NameContext, Source
from flightllm.dialect.text import Rewritten
from flightllm.dialect.using_spellings import using_spellings
from flightllm.errors import FlightLLMError
from flightllm.execution.context import Services
from flightllm.sql.parsed_text import ParsedText

_NOWHERE = NameContext(is_table=lambda _: False, columns_of=lambda _: {}, schemas=list)
"""All names of tables are already found."""


def with_row_spellings(text: ParsedText, tables: Mapping[str, pa.Table], services: Services) -> ParsedText:
    """Return a query in which `SELECT title FROM read_csv(…)` has the column's own spelling, as in `"Title"`.

    `tables` are the query's own tables by name.

    Raises:
        SqlError: several columns have the name without case.
    """
    capitals = any(name.casefold() != name for rows in tables.values() for name in rows.schema.names)
    if not tables or not (capitals or services.catalog.store.spellings.named_in(text)):
        return text

    def columns_of(parts: Sequence[str]) -> Mapping[str, pa.DataType]:
        rows = tables.get(".".join(parts))
        try:
            schema = services.catalog.table(table_name(parts)).schema if rows is None else rows.schema
        except FlightLLMError:
            return {}
        return dict(zip(schema.names, schema.types, strict=True))

    for rule in (using_spellings, column_spellings):
        edits = rule(Source(text, _NOWHERE), columns_of)
        text = text.replaced(Rewritten(text.sql, text.sql).with_edits(edits).text)
    return text
