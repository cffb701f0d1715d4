"""The part of FROM that a PIVOT or UNPIVOT is for, and its lists."""

from collections.abc import Sequence

from flightllm.dialect.source import Source
from flightllm.errors import UnsupportedError
from flightllm.sql.arguments import split_arguments
from flightllm.sql.names import identifier, quoted
from flightllm.sql.tokens import Kind, position

_NO_COLUMNS = (
    *(
        "distinct",
        "all",
        "case",
        "when",
        "then",
        "else",
        "end",
        "and",
        "or",
        "not",
        "null",
        "is",
        "in",
        "like",
        "ilike",
    ),
    *("between", "as", "true", "false", "interval", "cast", "try_cast", "from", "date", "timestamp"),
)


def factor_before(source: Source, index: int) -> int | None:
    """Return where the table or query in FROM begins that ends before a token; None where none stands there."""
    at = index
    opening = {end: start for start, end in source.closing.items()}
    while at > 0:
        before = source.tokens[at - 1]
        if before.is_word("on", "using", "pivot", "unpivot"):
            return None
        if before.is_word("from", "join") or before.is_symbol(",") or before.is_symbol("("):
            return at if at < index else None
        at = opening.get(at - 1, at - 1)
    return None


def split(source: Source, first: int, last: int) -> list[tuple[int, int]]:
    """Return the token ranges between the commas of a list."""
    return list(split_arguments(source.tokens, first, last, source.closing))


def without_alias(source: Source, first: int, last: int) -> tuple[int, str | None]:
    """Return where an item ends without its alias, and that alias."""
    token = source.tokens[last - 1]
    if last - first < 2 or (name := identifier(token)) is None:
        return last, None
    if source.is_word(last - 2, "as"):
        return last - 2, name
    before = source.tokens[last - 2]
    joined = before.kind is Kind.SYMBOL and not (before.is_symbol(")") or before.is_symbol("]"))
    return (last, None) if joined or token.is_word(*_NO_COLUMNS) else (last - 1, name)


def columns_in(source: Source, first: int, last: int) -> list[str]:
    """Return the columns, in lower case where they are not quoted, that an expression names."""
    found = dict[str, None]()
    for index in range(first, last):
        token = source.tokens[index]
        name = identifier(token)
        kind = source.is_word(index - 1, "as") or source.is_symbol(index - 1, "::")
        called = source.is_symbol(index + 1, "(") or source.is_symbol(index + 1, ".")
        if name is not None and not kind and not called and not token.is_word(*_NO_COLUMNS):
            found[name] = None
    return list(found)


def listed(names: Sequence[str]) -> str:
    """Return names as SQL lists them."""
    return ", ".join(map(quoted, names))


def check_numbered(source: Source, first: int, last: int) -> None:
    """Raise `UnsupportedError` where parameters without numbers would change their order or number."""
    if any(token.kind is Kind.PLACEHOLDER and token.text == "?" for token in source.tokens[first:last]):
        what = source.tokens[first].text.upper()
        place = position(source.sql, source.tokens[first].start)
        raise UnsupportedError(f"{what} at {place} changes the order of parameters: write $1, $2 in place of ?")
