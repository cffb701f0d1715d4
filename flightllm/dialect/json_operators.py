"""Rewrite PostgreSQL's operators on JSON, and other names of the functions that read JSON."""

from collections.abc import Iterator, Mapping

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.functions.json_values import Step, read_path, written_path
from flightllm.sql.arguments import read_constant, split_arguments
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind, position

_JSON, _TEXT = "json_extract", "json_extract_string"
_OPERATORS = {"->": _JSON, "->>": _TEXT}
_NAMES: Mapping[str, str] = {
    "json_get": _JSON,
    "json_get_json": _JSON,
    "json_extract_path": _JSON,
    "json_query": _JSON,
    "json_as_text": _TEXT,
    "json_extract_path_text": _TEXT,
    "get_json_object": _TEXT,
    "json_extract_scalar": "json_value",
    "json_length": "json_array_length",
    "json_object_keys": "json_keys",
    **{
        name: name
        for name in (_JSON, _TEXT, "json_value", "json_get_str", "json_get_int", "json_get_float", "json_get_bool")
    },
}
NAMES = frozenset(_NAMES)
OPERATORS = frozenset(_OPERATORS)
_BY_PATH = (_JSON, _TEXT, "json_value", "json_query", "get_json_object", "json_extract_scalar")
"""The functions whose second argument is a path, not a name."""
_LITERAL_TYPES = ("date", "time", "timestamp", "interval", "json", "text", "varchar", "string")
"""Types that can precede the text of a literal."""
_OPERANDS = (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING, TokenKind.PLACEHOLDER)


def json_operators(source: Source) -> Iterator[Edit]:
    """Rewrite `j -> 'a' ->> 0` as `json_extract_string(j, '$."a"[0]')`, and `json_get(j, 'a', 0)` likewise.

    The operators bind as tightly as `::`, and more tightly than `||` and `=`.

    Raises:
        SqlError: a path cannot be read.
    """
    yield from _operators(source)
    yield from _functions(source)


def _operators(source: Source) -> Iterator[Edit]:
    opening = source.scopes.opening
    index = 0
    while index < len(source.tokens):
        start = _operand(source, opening, index - 1) if _is_operator(source, index) else None
        if start is None:
            index += 1
            continue
        functions: list[str] = []
        while _is_operator(source, index):
            function, steps, after = _run(source, index)
            path = text_literal(written_path(tuple(steps)))
            yield Edit(source.tokens[index].start, source.tokens[after - 1].end, f", {path})")
            functions.append(function)
            index = after
        place = source.tokens[start].start
        yield Edit(place, place, "".join(f"{function}(" for function in reversed(functions)))


def _is_operator(source: Source, index: int) -> bool:
    """Return whether a token is an operator with a literal key; the arrow of a lambda has no literal key."""
    arrow = any(source.is_symbol(index, operator) for operator in _OPERATORS)
    return arrow and _key(source, index + 1) is not None


def _key(source: Source, index: int) -> tuple[Step, int] | None:
    """Return the literal key at a token, a text or an integer, and the token after it; otherwise None."""
    for after in (index + 1, index + 2):
        constant = read_constant(source.tokens[index:after])
        value = None if constant is None else constant.value
        if isinstance(value, str | int) and not isinstance(value, bool):
            return value, after
    return None


def _run(source: Source, index: int) -> tuple[str, list[Step], int]:
    """Read `-> 'a' -> 'b' ->> 'c'` from an operator on: return the function, the keys and the token after them."""
    steps: list[Step] = []
    function = _JSON
    while function == _JSON and _is_operator(source, index):
        function = _OPERATORS[source.tokens[index].text]
        found = _key(source, index + 1)
        if found is None:
            break
        steps += _read(found[0])
        index = found[1]
    return function, steps, index


def _read(key: Step) -> tuple[Step, ...]:
    """Return the steps of a key; `'$.a'` is a path, as in DuckDB."""
    return read_path(key) if isinstance(key, str) and key.startswith(("$.", "$[")) else (key,)


def operand(source: Source, last: int) -> int | None:
    """Return the first token of the operand of an operator that ends at a token; None for another text."""
    return _operand(source, source.scopes.opening, last)


def _operand(source: Source, opening: Mapping[int, int], last: int) -> int | None:
    """Return the first token of the operand that ends at a token.

    An operand is a name, literal, call, CASE or brackets, with casts after it. FILTER and OVER can follow a call, and
    a type can precede a literal.
    """
    at = last
    while at >= 0:
        token = source.tokens[at]
        if token.is_word("end") and not source.is_symbol(at - 1, "."):
            return _case(source, at)
        if (called := _call_before(source, opening, at)) is not None:
            at = called
            continue
        if at in opening:
            start = opening[at]
            before = source.tokens[start - 1] if start else None
            named = before is not None and before.kind in {TokenKind.WORD, TokenKind.QUOTED}
            named = named and not (before and before.is_word(*EXPRESSION_FOLLOWS))
            if token.is_symbol("]") and before is not None and (named or start - 1 in opening):
                at = start - 1  # the brackets are a subscript
                continue
            start -= token.is_symbol(")") and named
        elif token.kind in _OPERANDS and not token.is_word("end", *EXPRESSION_FOLLOWS):
            start = at
        else:
            return None
        if source.is_symbol(start - 1, ".") or source.is_symbol(start - 1, "::"):
            at = start - 2
            continue
        typed = token.kind is TokenKind.STRING and source.is_word(start - 1, *_LITERAL_TYPES)
        return start - 1 if typed else start
    return None


def _case(source: Source, end: int) -> int | None:
    """Return the CASE that ends at a token, or None."""
    open_ends = 0
    for index in range(end, -1, -1):
        open_ends += source.is_word(index, "end") - source.is_word(index, "case")
        if not open_ends:
            return index
    return None


def _call_before(source: Source, opening: Mapping[int, int], at: int) -> int | None:
    """Return the last token before an OVER or FILTER that ends at a token, or None."""
    word = opening[at] - 1 if at in opening else at - 1
    if source.is_word(word, "over") and (at in opening or source.tokens[at].kind in {TokenKind.WORD, TokenKind.QUOTED}):
        return word - 1
    if at in opening and source.is_word(word, "filter") and source.is_symbol(word - 1, ")"):
        return word - 1
    return None


def _functions(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text.lower() not in _NAMES or (called := source.called(index)) is None:
            continue
        name, closing = _NAMES[called], source.closing[index + 1]
        ranges = list(split_arguments(source.tokens, index + 2, closing, source.closing))
        keys = [_key(source, first) for first, _ in ranges[1:]]
        literal = all(key is not None and key[1] == last for key, (_, last) in zip(keys, ranges[1:], strict=True))
        if token.text.lower() != name:
            yield Edit(token.start, token.end, name)
        steps = [key[0] for key in keys if key is not None]
        if not literal or not steps:
            continue
        _check(source, index, steps)
        if token.text.lower() in _BY_PATH and isinstance(steps[0], str):
            continue
        if len(steps) > 1 or isinstance(steps[0], int) or (name in {_JSON, _TEXT} and steps[0].startswith(("$", "/"))):
            path = text_literal(written_path(tuple(steps)))
            yield Edit(source.tokens[ranges[1][0]].start, source.tokens[ranges[-1][1] - 1].end, path)


def _check(source: Source, index: int, steps: list[Step]) -> None:
    """Check the keys of a call.

    Raises:
        SqlError: a path cannot be read, or a key is ambiguous. A quoted number can be a name or a list position, and a
            text can be a name or a path.
    """
    name = source.tokens[index].text
    place = f"{name} at {position(source.sql, source.tokens[index].start)}"
    if name.lower() in _BY_PATH and isinstance(steps[0], str):
        try:
            read_path(steps[0])
        except SqlError as error:
            raise SqlError(f"{place}: {error}") from error
    single = steps[0] if len(steps) == 1 and name.lower() == "json_extract_path_text" else None
    if isinstance(single, str) and any(one in single for one in ".["):
        raise SqlError(
            f"{place}: '{single}' can be a name or a path: write ->> '{single}' for the name, or"
            f" json_extract_string(text, '$.{single.removeprefix('$.')}') for the path"
        )
    number = next((step for step in steps if isinstance(step, str) and step.isdecimal()), None)
    if number is not None and name.lower().startswith("json_extract_path"):
        raise SqlError(f"{place}: '{number}' can be a name or a list position: write -> '{number}' or -> {number}")
