"""Parameters with a cast to `uuid`: the engine keeps texts, and clients bind values of PostgreSQL's type."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from flightllm.pg_catalog.columns import TYPE_KEY
from flightllm.sql.tokens import Token, TokenKind


def with_uuids(parameters: pa.Schema, tokens: Sequence[Token]) -> pa.Schema:
    """Return parameters of which those in `$1::uuid` and `$1::uuid[]` have PostgreSQL's type in their metadata."""
    fields = list(parameters)
    for index, name in _casts(tokens):
        if index < len(fields):
            fields[index] = fields[index].with_metadata({TYPE_KEY: name})
    return pa.schema(fields)


def _casts(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    for index, token in enumerate(tokens[:-2]):
        joins, kind = tokens[index + 1 : index + 3]
        numbered = token.kind is TokenKind.PLACEHOLDER and token.text[1:].isdecimal()
        if numbered and (joins.is_symbol("::") or joins.is_word("as")) and kind.is_word("uuid"):
            after = tokens[index + 3] if index + 3 < len(tokens) else None
            yield int(token.text[1:]) - 1, "_uuid" if after is not None and after.text.startswith("[") else "uuid"
