"""Addition of NULLS LAST to ORDER BY … DESC over answers, if the query does not say where NULL goes.

`ORDER BY ai_score('…', text) DESC LIMIT 3`  →  `ORDER BY ai_score('…', text) DESC NULLS LAST LIMIT 3`

By SQL's rule, NULL comes first; other keys keep this rule. An answer is NULL if its row gives no input or if the model
failed, so these rows must not rank best. An alias or a position of a call in the same SELECT counts as the call.
So does a name that a subquery or a WITH query of the statement gives to a call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from flightllm.sql.tokens import Token, TokenKind

ADDED = " NULLS LAST"
_ENDS = ("limit", "offset", "fetch", "for", "union", "intersect", "except", "rows", "range", "groups")
_ENDS_OF_LIST = ("from", "union", "intersect", "except")


def ends_of_answers(
    tokens: Sequence[Token], closing: Mapping[int, int], is_call: Callable[[int], bool]
) -> frozenset[int]:
    """Return the indexes of each DESC that `ADDED` must follow.

    `closing` maps each opening bracket to its closing bracket. `is_call` tells whether an AI call begins at an index.
    """
    found: set[int] = set()
    for place in range(len(tokens) - 1):
        if tokens[place].is_word("order") and tokens[place + 1].is_word("by"):
            for first, last in _parts(tokens, closing, place + 2, len(tokens), _ENDS):
                if last - first > 1 and tokens[last - 1].is_word("desc"):
                    key = range(first, last - 1)
                    if any(map(is_call, key)) or _names_call(tokens, closing, is_call, place, key):
                        found.add(last - 1)
    return frozenset(found)


def _names_call(
    tokens: Sequence[Token], closing: Mapping[int, int], is_call: Callable[[int], bool], order: int, key: range
) -> bool:
    """Return whether a key, as in `s`, `q.s` or `2`, names a call: in the SELECT of an ORDER BY, or in a subquery."""
    text = tokens[key[-1]].text
    if len(key) != 1 and not (len(key) == 3 and tokens[key[1]].is_symbol(".")):
        return False
    items = list(_selected(tokens, closing, order))
    if text.isdigit():
        items = items[int(text) - 1 : int(text)] if int(text) else []
    else:
        named = [(a, b) for a, b in items if _is_named(tokens, a, b, text)]
        items = named or [(a, b) for a, b in _all_selected(tokens, closing) if _is_named(tokens, a, b, text)]
    return any(is_call(i) for a, b in items for i in range(a, b))


def _is_named(tokens: Sequence[Token], first: int, end: int, name: str) -> bool:
    """Return whether an item of a SELECT list has an alias."""
    return end - first > 1 and tokens[end - 1].text.lower() == name.lower() and not tokens[end - 2].is_symbol(".")


def _all_selected(tokens: Sequence[Token], closing: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the token range of each item of all SELECT lists."""
    for place, token in enumerate(tokens):
        if token.is_word("select"):
            yield from _parts(tokens, closing, place + 1, len(tokens), _ENDS_OF_LIST)


def _selected(tokens: Sequence[Token], closing: Mapping[int, int], order: int) -> Iterator[tuple[int, int]]:
    """Yield the token range of each item in the SELECT list before an ORDER BY."""
    place = max((o + 1 for o, end in closing.items() if o < order < end), default=0)
    select = None
    while place < order:
        if tokens[place].is_word("select"):
            select = place
        place = closing.get(place, place) + 1
    if select is not None:
        yield from _parts(tokens, closing, select + 1, order, _ENDS_OF_LIST)


def _parts(
    tokens: Sequence[Token], closing: Mapping[int, int], first: int, end: int, words: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yield the parts between commas outside brackets, up to one of `words` or a closing bracket."""
    place = first
    while place < end:
        token = tokens[place]
        if token.is_word(*words) or (token.kind is TokenKind.SYMBOL and token.text in {")", "]", ";"}):
            break
        if token.is_symbol(","):
            yield first, place
            first = place + 1
        place = closing.get(place, place) + 1
    yield first, min(place, end)
