"""Name columns without an alias as PostgreSQL does: `count(*)` is `count`, `a::int` is `a`, and `a + 1` is `?column?`.

Drivers and their users read such columns by these names: `row["count"]`, `result.max`.
"""

from collections.abc import Iterator
from typing import Final

from flightllm.dialect.types import end_of_cast_value, type_range
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import TokenKind

UNNAMED: Final = "?column?"
_OPERATORS: Final = (
    *("and", "or", "not", "is", "isnull", "notnull", "in", "like", "ilike", "similar", "between", "overlaps"),
    *("any", "some", "all", "div", "rlike", "regexp", "glob", "escape"),
)
"""Words that make an expression with an operator."""
CONSTANTS: Final = ("null", "true", "false", "default")
"""Words that look like columns, and have no name."""
CALLED_BARE: Final = (
    *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_user"),
    *("session_user", "user", "current_role", "current_catalog", "current_schema"),
)
"""Functions without parentheses, which name their columns."""
_TYPES: Final = {
    **dict.fromkeys(("int", "integer", "signed"), "int4"),
    "bigint": "int8",
    **dict.fromkeys(("smallint", "tinyint"), "int2"),
    "real": "float4",
    **dict.fromkeys(("double", "float"), "float8"),
    **dict.fromkeys(("decimal", "dec"), "numeric"),
    **dict.fromkeys(("string", "utf8"), "text"),
    **dict.fromkeys(("char", "character"), "bpchar"),
    "boolean": "bool",
}
"""PostgreSQL's own names of types, by their first words in SQL."""
_TRIMS: Final = {"leading": "ltrim", "trailing": "rtrim"}


def postgres_name(parsed: ParsedText, first: int, last: int) -> str:
    """Return PostgreSQL's name for the column of an expression: the tokens from `first` to before `last`."""
    return _named(parsed, first, last)[0]


def _named(parsed: ParsedText, first: int, last: int) -> tuple[str, bool]:
    """Return a name, and whether the name is strong: that of a column or a function, not that of a type or CASE."""
    while parsed.is_symbol(first, "(") and parsed.closing.get(first) == last - 1:
        first, last = first + 1, last - 1
        if any(parsed.is_symbol(at, ",") for at in _top(parsed, first, last)):
            return "row", True
    if first >= last:
        return UNNAMED, False
    if parsed.is_word(first, "select", "with", "values"):
        return _of_query(parsed, first, last)
    top = list(_top(parsed, first, last))
    if (zone := _time_zone(parsed, top)) is not None:
        return zone
    if parsed.is_word(first, "case") and parsed.is_word(last - 1, "end"):
        return _of_case(parsed, first, last)
    if any(_is_operator(parsed, at, first) for at in top):
        return UNNAMED, False
    cast = next((at for at in reversed(top) if parsed.is_symbol(at, "::")), None)
    if cast is not None and cast > first:
        return _of_cast(parsed, (first, cast), cast + 1)
    collate = next((at for at in top if parsed.is_word(at, "collate")), None)
    if collate is not None and collate > first:
        return _named(parsed, first, collate)
    return _of_primary(parsed, first, last)


def _top(parsed: ParsedText, first: int, last: int) -> Iterator[int]:
    """Yield the tokens outside parentheses, brackets, types of casts and CASE."""
    at, depth = first, 0
    while at < last:
        depth += parsed.is_word(at, "case")
        if not depth:
            yield at
        depth -= parsed.is_word(at, "end") and depth > 0
        if parsed.is_symbol(at, "::"):
            at = next((after for _, after in type_range(parsed, at + 1)), at + 1)
        else:
            at = parsed.closing.get(at, at) + 1


def _is_operator(parsed: ParsedText, at: int, first: int) -> bool:
    token = parsed.tokens[at]
    if token.kind is TokenKind.WORD:
        return token.is_word(*_OPERATORS) and not (at > first and parsed.is_symbol(at - 1, "."))
    star = token.is_symbol("*") and at > first and parsed.is_symbol(at - 1, ".")
    return token.kind is TokenKind.SYMBOL and token.text not in "()[]{}.,:::" and not star


def _time_zone(parsed: ParsedText, top: list[int]) -> tuple[str, bool] | None:
    """Return the name of `… AT TIME ZONE …`, which is a call of `timezone`; None if operators of lower rank follow."""
    for place, at in enumerate(top):
        if parsed.is_word(at, "at") and parsed.is_word(at + 1, "time") and parsed.is_word(at + 2, "zone"):
            others = [*top[:place], *top[place + 3 :]]
            return ("timezone", True) if not any(_is_operator(parsed, one, top[0]) for one in others) else None
    return None


def _of_case(parsed: ParsedText, first: int, last: int) -> tuple[str, bool]:
    """Return the name of CASE: that of the ELSE, if it is a column or a function."""
    depth, at = 0, first + 1
    while at < last - 1:
        if parsed.is_word(at, "else") and not depth:
            name, strong = _named(parsed, at + 1, last - 1)
            return (name, True) if strong else ("case", False)
        depth += parsed.is_word(at, "case") - parsed.is_word(at, "end")
        at = parsed.closing.get(at, at) + 1
    return "case", False


def _of_cast(parsed: ParsedText, value: tuple[int, int], kind: int) -> tuple[str, bool]:
    """Return the name of a cast: that of its value, else that of its type, which begins at `kind`."""
    name, strong = _named(parsed, *value)
    return (name, True) if strong else (_type_name(parsed, kind), False)


def _type_name(parsed: ParsedText, at: int) -> str:
    end = next((after for _, after in type_range(parsed, at)), at + 1)
    words = [token.text.lower() for token in parsed.tokens[at:end] if token.kind is TokenKind.WORD]
    while parsed.is_symbol(at + 1, "."):
        at += 2
    first = identifier(parsed.tokens[at]) or parsed.tokens[at].text
    if parsed.tokens[at].kind is TokenKind.QUOTED:  # "char" is a type of its own
        return first
    if first in ("time", "timestamp") and "with" in words:
        return f"{first}tz"
    if first in ("char", "character", "varchar") and ("varying" in words or first == "varchar"):
        return "varchar"
    return _TYPES.get(first, first)


def _of_primary(parsed: ParsedText, first: int, last: int) -> tuple[str, bool]:
    """Return the name of a column, a call, an array or a constant."""
    if (
        parsed.is_symbol(last - 1, "]")
        and (opening := parsed.scopes.opening.get(last - 1)) is not None
        and opening > first
    ):
        return ("array", True) if parsed.is_word(opening - 1, "array") else _named(parsed, first, opening)
    if last - first > 2 and parsed.is_symbol(last - 2, ".") and identifier(parsed.tokens[last - 1]) is not None:
        return identifier(parsed.tokens[last - 1]) or UNNAMED, True
    at = first
    while parsed.is_symbol(at + 1, ".") and at + 2 < last:
        at += 2
    token = parsed.tokens[at]
    if at + 1 == last:
        if token.is_word(*CONSTANTS):
            return UNNAMED, False
        name = identifier(token)
        return (UNNAMED, False) if name is None else (name, True)
    if parsed.is_symbol(at + 1, "("):
        return _of_call(parsed, at)
    if token.is_word("interval"):
        return "interval", False
    end = next((after for _, after in type_range(parsed, at)), at)
    if end < last and parsed.tokens[end].kind is TokenKind.STRING:
        return _type_name(parsed, at), False  # date '2020-01-01'
    return UNNAMED, False


def _of_call(parsed: ParsedText, at: int) -> tuple[str, bool]:
    name = (identifier(parsed.tokens[at]) or parsed.tokens[at].text).lower()
    if name in ("cast", "try_cast"):
        end = end_of_cast_value(parsed, at + 1)
        return _of_cast(parsed, (at + 2, end), end + 1) if end else (UNNAMED, False)
    if name == "trim":
        return _TRIMS.get(parsed.tokens[at + 2].text.lower(), "btrim"), True
    return name, True


def _of_query(parsed: ParsedText, first: int, last: int) -> tuple[str, bool]:
    """Return the name of a query's only column."""
    for select in parsed.selects:
        if first <= select.start < last and select.items:
            begin, end = select.items[0]
            if end - begin > 2 and parsed.is_word(end - 2, "as"):
                return identifier(parsed.tokens[end - 1]) or UNNAMED, True
            return _named(parsed, begin, end)[0], True
    return UNNAMED, False
