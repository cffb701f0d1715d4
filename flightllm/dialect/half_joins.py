"""Write out the side of SEMI JOIN and ANTI JOIN, which DuckDB and Spark leave out."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import UnsupportedError
from flightllm.sql.tokens import position

_ADVICE = "join on b.at = (SELECT max(c.at) FROM b AS c WHERE c.at <= a.at)"


def half_joins(source: Source) -> Iterator[Edit]:
    """Rewrite `a SEMI JOIN b` as `a LEFT SEMI JOIN b`, and ANTI JOIN likewise.

    Raises:
        UnsupportedError: the text has an ASOF JOIN.
    """
    for index, token in enumerate(source.tokens):
        if token.is_word("semi", "anti") and source.is_word(index + 1, "join"):
            if not source.is_word(index - 1, "left", "right"):
                yield Edit(token.start, token.start, "LEFT ")
        elif token.is_word("asof") and _is_joined(source, index + 1):
            place = position(source.sql, token.start)
            raise UnsupportedError(f"ASOF JOIN at {place} is not supported: {_ADVICE}")


def _is_joined(source: Source, index: int) -> bool:
    return source.is_word(index, "join") or (
        source.is_word(index, "left", "inner") and source.is_word(index + 1, "join", "outer")
    )
