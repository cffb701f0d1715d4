"""Group the operators of a tree as PostgreSQL does: sqlparser-rs, which DataFusion uses, has another precedence.

It reads `a LIKE b = c` as `a LIKE (b = c)`, `a = b IN (1)` as `(a = b) IN (1)` and `a || b * c` as `(a || b) * c`.
"""

from collections.abc import Callable, Iterator

from flightllm.errors import SqlError
from flightllm.sql.nodes import Json, Node
from flightllm.sql.operators import GROUP, Operator, is_grouped_well, operator_of, ungrouped


def regrouped(node: Node, position: Callable[[Json], str]) -> Node:
    """Return a node with its operators grouped as PostgreSQL does; its operands are already so.

    Operands of the kind `GROUP` mark each place where the grouping differs. `position` tells the place of a value.

    Raises:
        SqlError: two operators in a row have no meaning in PostgreSQL, such as `a < b < c`.
    """
    operator = operator_of(node)
    return node if operator is None or is_grouped_well(operator) else _Reader(position).read(operator)


class _Reader:
    """Reads the operators of one expression in the order of the text; each waits until its right operand is whole."""

    def __init__(self, position: Callable[[Json], str]) -> None:
        self._position = position
        self._operands: list[Json] = []
        self._waiting: list[Operator] = []

    def read(self, top: Operator) -> Node:
        for part in _in_order(top):
            if not isinstance(part, Operator):
                self._operands.append(part)
                continue
            if part.left is not None:
                self._finish_before(part)
            if part.right is not None:
                self._waiting.append(part)
            else:
                self._apply(part, 1)
        while self._waiting:
            self._finish()
        (found,) = self._operands
        node: Node = ungrouped(found)
        return node

    def _finish_before(self, operator: Operator) -> None:
        while self._waiting and self._waiting[-1].level >= operator.level:
            if self._waiting[-1].level == operator.level and not operator.chains:
                raise SqlError(
                    f"two operators in a row have no meaning at {self._position(operator.node)}, as in a < b < c:"
                    " put one of them and its operands in parentheses"
                )
            self._finish()

    def _finish(self) -> None:
        operator = self._waiting.pop()
        self._apply(operator, 1 if operator.left is None else 2)

    def _apply(self, operator: Operator, count: int) -> None:
        operands = self._operands[-count:]
        del self._operands[-count:]
        self._operands.append({GROUP: operator.with_operands(*operands)})


def _in_order(top: Operator) -> Iterator[Operator | Json]:
    """Yield the operators of an expression, and what is between them, in the order of the text."""
    todo: list[Operator | Json] = [top.node]
    while todo:
        part = todo.pop()
        if isinstance(part, Operator):
            yield part
            continue
        operator = operator_of(ungrouped(part))
        if operator is None:
            yield part
            continue
        todo += [one for one in (operator.right, operator, operator.left) if one is not None]
