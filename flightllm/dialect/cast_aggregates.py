"""Tell aggregates apart that differ only in casts: DataFusion leaves casts out of names, and rejects equal names."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from flightllm.dialect.output_names import folded, without_casts
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.types import end_of_cast_value
from flightllm.sql.aggregates import AGGREGATES
from flightllm.sql.arguments import split_arguments
from flightllm.sql.model_calls import asks_model
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText

_NAMES = (AGGREGATES - {"grouping"}) | {"lag", "lead"}
"""The calls to tell apart; `grouping` takes only columns, and no call of `coalesce`."""
_NESTED = 16
"""The most calls of `coalesce` around one value."""
_Form = tuple[object, ...]


def calls_aggregate(text: ParsedText) -> bool:
    """Return whether a text can call an aggregate or a window function that this rule tells apart."""
    return not _NAMES.isdisjoint(text.words)


def cast_aggregates(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT sum(a), sum(CAST(a AS INT)) FROM t` as `SELECT sum(a), sum(coalesce(CAST(a AS INT))) FROM t`.

    `coalesce` of one value is this value, and the optimizer removes the call. The third form of an aggregate becomes
    `sum(coalesce(coalesce(…)))`; see `_calls_of`. An aggregate that occurs again,
    as in HAVING, is written in the same way each time. An argument whose cast encloses a call stays as it is, because
    an AI call answers with numbers only as a whole argument.
    """
    calls = defaultdict[tuple[int, str], list[int]](list)
    for index, token in enumerate(source.tokens):
        name = token.text.lower()
        if name in _NAMES and source.called(index) is not None:
            calls[id(source.scopes.of[index]), name].append(index)
    for together in calls.values():
        if len(together) > 1:
            yield from _apart(source, together)


def _apart(source: Source, calls: Sequence[int]) -> Iterator[Edit]:
    """Write the calls of one function in one SELECT so that those with the same casts have the same name."""
    named = defaultdict[_Form, defaultdict[_Form, list[int]]](lambda: defaultdict(list))
    for index in calls:
        last = source.closing[index + 1] + 1
        plain = _form(source, without_casts(source, index, last))
        named[plain][_form(source, range(index, last))].append(index)
    for plain, forms in named.items():
        for number, form in enumerate(sorted(forms, key=lambda one: one != plain)):
            for index in forms[form] if number else ():
                yield from _renamed(source, index, number)


def _form(source: Source, places: Iterator[int] | range) -> _Form:
    """Return tokens in a form that is equal for equal spelling.

    The form leaves out qualifiers of columns and grouping parentheses, as DataFusion's names do.
    """
    kept = (at for at in places if not source.is_symbol(at, ".") and not source.is_symbol(at + 1, "."))
    return folded([source.tokens[at] for at in kept if not _groups(source, at)])


def _groups(source: Source, at: int) -> bool:
    """Return whether a token is a parenthesis around a part of an expression, not around arguments or a query."""
    opening = source.scopes.opening.get(at, at)
    query = source.is_word(opening + 1, "select", "with")
    return source.is_symbol(opening, "(") and not query and source.begins_expression(opening)


def _renamed(source: Source, index: int, number: int) -> Iterator[Edit]:
    """Put each argument with a cast into calls of `coalesce`; ORDER BY and IGNORE NULLS stay outside."""
    before, after = _calls_of(number)
    tokens, end = source.tokens, index + 2
    while end < source.closing[index + 1] and not _ends_arguments(source, end):
        end = source.closing.get(end, end) + 1
    for first, last in split_arguments(tokens, index + 2, end, source.closing):
        begin = first + source.is_word(first, "distinct", "all")
        if _has_plain_cast(source, begin, last):
            yield Edit(tokens[begin].start, tokens[begin].start, before)
            yield Edit(tokens[last - 1].end, tokens[last - 1].end, after)


def _calls_of(number: int) -> tuple[str, str]:
    """Return the text before and after a value for the calls that stand for a number from 1 on.

    Up to `_NESTED`, the calls of one value count. A larger number has few calls, about 10 for 2,000: each is a digit,
    1 without and 2 with NULL, and a last call with NULL tells these numbers from the small ones.
    """
    if number <= _NESTED:  # NULL is left out where possible: DataFusion's `coalesce` of binary values rejects it
        return "coalesce(" * number, ")" * number
    before = after = ""
    while number:
        number, with_null = divmod(number - 1, 2)
        before, after = "coalesce(" + before, after + (", NULL)" if with_null else ")")
    return "coalesce(" + before, after + ", NULL)"


def _ends_arguments(source: Source, at: int) -> bool:
    """Return whether ORDER BY, IGNORE NULLS or RESPECT NULLS begins at a token."""
    nulls = source.is_word(at, "ignore", "respect") and source.is_word(at + 1, "nulls")
    return nulls or (source.is_word(at, "order") and source.is_word(at + 1, "by"))


def _has_plain_cast(source: Source, first: int, last: int) -> bool:
    """Return whether an argument has a cast, and neither is an AI call nor has a cast of a value with a call."""
    if _calls(source, first) and source.closing[first + 1] == last - 1 and _is_ai(source, first):
        return False
    values = list[range]()
    for at in range(first, last):
        if source.is_word(at, "cast", "try_cast") and source.is_symbol(at + 1, "("):
            values.append(range(at + 2, end_of_cast_value(source, at + 1)))
        elif source.is_symbol(at, "::"):
            values.append(range(_before_cast(source, first, at), at))
    return bool(values) and not any(_calls(source, at) for value in values for at in value)


def _before_cast(source: Source, first: int, at: int) -> int:
    """Return the first token of the value before a `::`: a name with its fields, a literal, a call or brackets."""
    at = source.scopes.opening.get(at - 1, at - 1)
    while at > first and not source.begins_expression(at):
        at = source.scopes.opening.get(at - 1, at - 1)
    return at


def _calls(source: Source, at: int) -> bool:
    """Return whether a token is the name of a function before its arguments, not a keyword or a type."""
    name = identifier(source.tokens[at]) is not None and not source.is_word(at, "cast", "try_cast")
    called = name and source.is_symbol(at + 1, "(") and not source.begins_expression(at + 1)
    return called and not source.is_symbol(at - 1, "::") and not source.is_word(at - 1, "as")


def _is_ai(source: Source, at: int) -> bool:
    """Return whether the name at a token can be that of an AI function."""
    name = source.tokens[at].text.lower()
    return asks_model(name, source.place.own_functions)
