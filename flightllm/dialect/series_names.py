"""Write the series of FROM in lower case: DataFusion knows a function that makes rows only so."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.element_rows import SERIES
from flightllm.sql.tokens import TokenKind


def series_names(source: Source) -> Iterator[Edit]:
    """Rewrite `FROM RANGE(0, 3)` as `FROM range(0, 3)`."""
    for index, token in enumerate(source.tokens):
        name = token.text.lower()
        if name in SERIES and name != token.text and token.kind is TokenKind.WORD and source.scopes.names_table[index]:
            yield Edit(token.start, token.end, name)
