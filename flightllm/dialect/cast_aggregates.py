"""Tell aggregates apart that differ only in casts: DataFusion leaves casts out of names, and rejects equal names."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from flightllm.dialect.output_names import folded, without_casts
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.aggregates import AGGREGATES
from flightllm.sql.arguments import split_arguments
from flightllm.sql.parsed_text import ParsedText

_NAMES = AGGREGATES | {"lag", "lead"}
_Form = tuple[object, ...]


def calls_aggregate(text: ParsedText) -> bool:
    """Return whether a text can call an aggregate or a window function that this rule tells apart."""
    return not _NAMES.isdisjoint(text.words)


def cast_aggregates(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT sum(a), sum(CAST(a AS INT)) FROM t` as `SELECT sum(a), sum(coalesce(CAST(a AS INT))) FROM t`.

    `coalesce` of one value is this value, and the optimizer removes the call. An aggregate that occurs again, as in
    HAVING, is written in the same way each time.
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
    """Return tokens without the qualifiers of columns, in a form that is equal for equal spelling."""
    kept = (at for at in places if not source.is_symbol(at, ".") and not source.is_symbol(at + 1, "."))
    return folded([source.tokens[at] for at in kept])


def _renamed(source: Source, index: int, number: int) -> Iterator[Edit]:
    """Put each argument with a cast into a number of calls of `coalesce`; ORDER BY and IGNORE NULLS stay outside."""
    tokens = source.tokens
    for first, last in split_arguments(tokens, index + 2, source.closing[index + 1], source.closing):
        begin = end = first + source.is_word(first, "distinct", "all")
        while end < last and not source.is_word(end, "order", "ignore", "respect"):
            end = source.closing.get(end, end) + 1
        if any(source.is_word(at, "cast", "try_cast") or source.is_symbol(at, "::") for at in range(begin, end)):
            yield Edit(tokens[begin].start, tokens[begin].start, "coalesce(" * number)
            yield Edit(tokens[end - 1].end, tokens[end - 1].end, ")" * number)
