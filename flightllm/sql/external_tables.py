"""CREATE EXTERNAL TABLE, read from its tokens."""

from collections.abc import Sequence
from types import MappingProxyType

from flightllm.errors import SqlError
from flightllm.sql.names import read_name
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Kind, Token

FORMATS = ("parquet", "csv", "json", "arrow")
_USAGE = "write CREATE EXTERNAL TABLE name STORED AS PARQUET | CSV | JSON | ARROW LOCATION '/folder/' or 's3://…'"


def read_external_table(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement where it is CREATE [OR REPLACE] EXTERNAL TABLE, else None.

    Raises:
        SqlError: a part is missing or unknown.
    """
    at = _after(tokens, 0, "create")
    or_replace = bool(at and _after(tokens, at, "or", "replace"))
    at = _after(tokens, at + 2 * or_replace, "external") if at else 0
    if not at:
        return None
    at = _needed(tokens, at, "table")
    exists_ok = bool(_after(tokens, at, "if", "not", "exists"))
    target, at = read_name(tokens, at + 3 * exists_ok)
    if at < len(tokens) and tokens[at].is_symbol("("):
        raise SqlError(f"an external table takes its columns from its files: {_USAGE}")
    at = _needed(tokens, at, "stored", "as")
    kind = tokens[at].text.lower() if at < len(tokens) else ""
    if kind not in FORMATS:
        raise SqlError(f"the files of an external table are one of {', '.join(FORMATS)}: {_USAGE}")
    at = _needed(tokens, at + 1, "location")
    if at != len(tokens) - 1 or tokens[at].kind is not Kind.STRING:
        raise SqlError(f"one location in single quotes ends the statement: {_USAGE}")
    options = MappingProxyType({"format": kind, "location": tokens[at].text})
    return Statement(
        "create_external", text, target=target, or_replace=or_replace, exists_ok=exists_ok, options=options
    )


def _after(tokens: Sequence[Token], at: int, *words: str) -> int:
    """Return the index after words that stand at an index, or 0 where others do."""
    found = tokens[at : at + len(words)]
    there = len(found) == len(words) and all(token.is_word(word) for token, word in zip(found, words, strict=True))
    return at + len(words) if there else 0


def _needed(tokens: Sequence[Token], at: int, *words: str) -> int:
    if not (after := _after(tokens, at, *words)):
        raise SqlError(f"expected {' '.join(words).upper()}: {_USAGE}")
    return after
