"""The tables that views read: used to plan views in order, to measure them, and to find the readers of a table."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from flightllm.catalog.entries import Entry
from flightllm.catalog.view_reads import Reads, Weight
from flightllm.common.limits import over_limit
from flightllm.common.names import TableName
from flightllm.config import LimitsConfig
from flightllm.errors import LimitExceededError, SqlError
from flightllm.sql.complexity import measure
from flightllm.sql.expanding import expanded
from flightllm.sql.guard import NESTED_QUERIES
from flightllm.sql.parsed_text import ParsedText, mentions
from flightllm.sql.tokens import Token, tokenize

_VIEW_DEPTH = 8
"""The terms that a view adds to the depth of a query. A WITH query adds as many."""
_PART_TERMS = 16
"""The number of terms that count as one part of a plan; a query is a part too."""
_WORD = re.compile(r"\w+")
_INSTEAD = "store the rows of one of the views in a table with CREATE TABLE … AS"

Entries = Mapping[TableName, Entry]


def read_by(view: Entry) -> Reads:
    """Return the tables that a view's text reads."""
    if view.plan.reads is None:
        view.plan.reads = _read(tokenize(view.query))
    return view.plan.reads


def _read(tokens: Sequence[Token]) -> Reads:
    complexity, found = measure(tokens), expanded(tokens)
    parts = found.parts + complexity.total // _PART_TERMS
    return Reads(Weight(complexity.deepest, parts, found.nested), found.tables, found.levels)


def ordered(view: Entry, below: Callable[[Entry], Iterable[Entry]]) -> list[Entry]:
    """Return a view and the views that it reads, directly or indirectly. Each view follows the views that it reads.

    Raises:
        SqlError: some views read each other.
    """
    order: dict[TableName, Entry] = {}
    path: dict[TableName, tuple[Entry, Iterator[Entry]]] = {view.name: (view, iter(below(view)))}
    while path:
        entry, others = next(reversed(path.values()))
        other = next(others, None)
        if other is None:
            order[entry.name] = path.pop(entry.name)[0]
        elif other.name in path:
            raise _circular(entry, other)
        elif other.name not in order:
            path[other.name] = (other, iter(below(other)))
    return list(order.values())


def _circular(entry: Entry, other: Entry) -> SqlError:
    if entry.name == other.name:
        return SqlError(f"the view {entry.name.display!r} cannot read from itself")
    return SqlError(
        f"the views {other.name.display!r} and {entry.name.display!r} cannot read from each other: let one of them read"
        " tables only"
    )


def views_below(entry: Entry, entries: Entries) -> list[Entry]:
    """Return the plain views that a view names, or [] if the view is already planned."""
    return [] if entry.plan.planned is not None else _views(read_by(entry), entries)


def _views(reads: Reads, entries: Entries) -> list[Entry]:
    found = (entries.get(name) for name in reads.tables)
    return [entry for entry in found if entry is not None and entry.kind == "view"]


def to_plan(view: Entry, entries: Entries, limits: LimitsConfig) -> list[Entry]:
    """Return the views to plan for a view, in order; the view itself comes last.

    Raises:
        LimitExceededError: the view is too large together with those that it reads.
        SqlError: some views read each other.
    """
    order = ordered(view, partial(views_below, entries=entries))
    _check(_weighed(order, entries), f"the view {view.name.display!r}", limits, _VIEW_DEPTH)
    return order


def check_query(text: ParsedText, entries: Entries, limits: LimitsConfig) -> None:
    """Check that a query is not too large together with the plain views that it reads.

    Raises:
        LimitExceededError: the query and its views are too large.
        SqlError: some views read each other.
    """
    if not any(entry.kind == "view" and _longest_word(entry.name) in text.mentions for entry in entries.values()):
        return
    reads = _read(text.tokens)
    for view in _views(reads, entries):
        if view.plan.weight is None:
            _weighed(ordered(view, partial(views_below, entries=entries)), entries)
    weight = _sum(reads, entries)
    if weight != reads.own:
        _check(weight, "the query", limits)


def _check(weight: Weight, what: str, limits: LimitsConfig, room: int = 0) -> None:
    """Refuse a text that is too large together with the views it reads; `room` is reserved for the reading query."""
    if weight.nested > NESTED_QUERIES:
        raise LimitExceededError(
            f"{what} and the views it reads nest queries in expressions {weight.nested:,} levels deep, but at most"
            f" {NESTED_QUERIES} levels are allowed: {_INSTEAD}"
        )
    if weight.depth + room > limits.sql_terms or weight.parts > limits.sql_terms:
        found = f"{what} and the views it reads are {weight.depth:,} terms deep and have {weight.parts:,} parts"
        raise over_limit("sql_terms", limits.sql_terms, found, _INSTEAD)


def _weighed(order: list[Entry], entries: Entries) -> Weight:
    """Compute the complexity of views, each after the views that it reads; return that of the last view."""
    for view in order:
        if view.plan.weight is None:
            view.plan.weight = _sum(read_by(view), entries)
    return order[-1].plan.weight or Weight(0, 0, 0)


def _sum(reads: Reads, entries: Entries) -> Weight:
    """Return the complexity of a query with the views it reads, whose own complexity is known."""
    depth, parts, nested = 0, reads.own.parts, reads.own.nested
    for name, times in reads.tables.items():
        weight = entries[name].plan.weight if name in entries else None
        if weight is not None:
            depth = max(depth, weight.depth + _VIEW_DEPTH)
            parts += times * weight.parts
            nested = max(nested, reads.levels.get(name, 0) + weight.nested)
    return Weight(reads.own.depth + depth, parts, nested)


def readers_of(tables: Collection[TableName], entries: Entries) -> set[TableName]:
    """Return the plain views among `tables`, and the views that can read them directly or indirectly.

    Any mention of a name in a view's text counts, so the set can have too many views.
    """
    views = [entry for entry in entries.values() if entry.kind == "view"]
    asked = {_longest_word(name) for name in {*tables, *(view.name for view in views)}}
    by_word: dict[str, list[TableName]] = {}
    for view in views:
        if view.plan.words is None:
            view.plan.words = mentions(view.query)
        for word in view.plan.words & asked:
            by_word.setdefault(word, []).append(view.name)
    found = {view.name for view in views if view.name in tables}
    waiting = list(tables)
    while waiting:
        for reader in by_word.get(_longest_word(waiting.pop()), ()):
            if reader not in found:
                found.add(reader)
                waiting.append(reader)
    return found


def _longest_word(name: TableName) -> str:
    """Return the longest word of a name, or "" (which every text mentions) for a name without words."""
    return max(_WORD.findall(name.name.lower()), key=len, default="")


def named_in(words: frozenset[str], entries: Entries) -> list[Entry]:
    """Return the tables that a text with these words can name, and those that the views among them read in turn.

    Any mention of a name counts, so the list can have too many tables.
    """
    found = dict[TableName, Entry]()
    waiting = [words]
    by_word: dict[str, list[Entry]] = {}
    for entry in entries.values():
        by_word.setdefault(_longest_word(entry.name), []).append(entry)
    while waiting:
        for word in waiting.pop() & by_word.keys():
            for entry in by_word[word]:
                if entry.name not in found:
                    found[entry.name] = entry
                    if entry.query:
                        waiting.append(mentions(entry.query))
    return list(found.values())
