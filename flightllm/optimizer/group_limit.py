"""Puts a `GroupLimit` over a chain of filters and AI operators, to stop asking once enough rows have passed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from substrait.algebra_pb2 import Expression, SortField, SortRel

from flightllm.functions.call import MODEL, SEARCH
from flightllm.optimizer.chain import Chain, peel
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import GroupLimit, Groups, Node, Project, Ties

Order: TypeAlias = Sequence[tuple[Expression, "SortField.SortDirection.ValueType"]]
"""Expressions and the directions in which they sort rows."""


def filtered(node: Node, functions: Functions) -> Chain | None:
    """Take apart a chain whose filters read a language model's answers; None where fewer calls would save nothing."""
    chain = asking(node, functions)
    if chain is None or all(map(chain.is_plain, (s for s in chain.steps if isinstance(s, Expression)))):
        return None
    return chain


def asking(node: Node, functions: Functions) -> Chain | None:
    """Take apart a chain of filters and AI operators; None where no language model answers, or a search does."""
    chain = peel(node, functions)
    if chain is None or chain.joins:
        return None
    backends = {call.ai.backend for step in chain.steps if isinstance(step, tuple) for call in step}
    return chain if MODEL in backends and SEARCH not in backends else None


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows that a `GroupLimit` keeps; its fields have the same names.

    `decided` is an expression over a chain's base and calls. `first` is the order of the groups, over the base.
    """

    count: int = 1
    limit: int | None = None
    decided: Expression | None = None
    first: Order = ()
    ties: Ties | None = None


def limited(chain: Chain, keys: Iterable[Expression], order: Order = (), cut: Cut | None = None) -> Node:
    """Return the node from which `chain` was made, cut to one row of each group, or as `cut` says.

    `keys` and `order` are over the chain's base. Calls with a promise ask their own model: the rows come a few at a
    time, which is too few to sample.
    """
    chain = chain.asking_all("its rows come a few at a time, until their group has enough")
    cut = cut or Cut()
    sorts = [SortField(expr=expression, direction=direction) for expression, direction in order]
    ranked = (*(expression for expression, _ in cut.first), *keys)
    groups = Groups(chain.base, ranked, SortRel(sorts=sorts) if sorts else None)
    move = chain.mover(groups, range(chain.base.width))
    top = chain.over(groups, move)
    directions = tuple(direction for _, direction in cut.first)
    place = None
    if cut.decided is not None:
        top, place = Project(top, (*map(field, range(top.width)), move(cut.decided))), top.width
    kept = GroupLimit(top, chain.base.width, cut.count, cut.limit, place, directions, cut.ties)
    return Project(kept, tuple(map(move, chain.columns)))


def plain(expressions: Iterable[Expression], chain: Chain, functions: Functions) -> bool:
    """Return whether expressions over a chain read no answer and have the same value at each evaluation of a row."""
    return all(chain.is_plain(e) and not functions.is_volatile(e) for e in expressions)


def at_most(condition: Expression, column: int, functions: Functions) -> int | None:
    """Return the largest whole number that passes `column < n`, `<= n` or `= n`; None for other conditions."""
    found = compared(condition, functions)
    if found is None or found[1] != column or found[0] not in {"lt", "lte", "equal"}:
        return None
    return found[2] - 1 if found[0] == "lt" else found[2]


def more_than(condition: Expression, column: int, functions: Functions) -> int | None:
    """Return the smallest whole number that passes `column > n` or `column >= n`; None for other conditions."""
    found = compared(condition, functions)
    if found is None or found[1] != column or found[0] not in {"gt", "gte"}:
        return None
    return found[2] + 1 if found[0] == "gt" else found[2]


_MIRRORED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte", "equal": "equal"}


def compared(condition: Expression, functions: Functions) -> tuple[str, int, int] | None:
    """Return (operator, column, number) of a comparison with a whole number; None for other conditions."""
    name = functions.name(condition)
    if name not in _MIRRORED:
        return None
    left, right = ex.arguments(condition)
    if ex.field_index(left) is None:
        left, right, name = right, left, _MIRRORED[name]
    column, number = ex.field_index(left), _whole_number(right)
    return None if column is None or number is None else (name, column, number)


def _whole_number(expression: Expression) -> int | None:
    if expression.WhichOneof("rex_type") != "literal":
        return None
    kind = expression.literal.WhichOneof("literal_type")
    return int(getattr(expression.literal, kind)) if kind in {"i8", "i16", "i32", "i64"} else None
