"""Write clauses of Spark that have another form here: hints, GROUPING SETS after keys, and the aggregate ANY."""

from typing import TYPE_CHECKING

from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.reading import written_name
from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp


def write_clauses(tree: "exp.Expr") -> None:
    """Rewrite `GROUP BY a GROUPING SETS ((a), ())` without its keys, and `any(x > 3)` as `bool_or(x > 3)`.

    A hint says only how Spark runs a query, so it is left out.

    Raises:
        UnsupportedError: a part of bytes would be a text.
    """
    from sqlglot import exp

    for value in tree.find_all(exp.HexString, vendor_call()):
        around = value.parent
        made = isinstance(value, exp.HexString) or value.name.upper() in {"ENCODE", "UNHEX"}
        name = written_name(around) if isinstance(around, exp.Func) else ""
        if made and name in {"LEFT", "OVERLAY", "RIGHT"}:
            raise UnsupportedError(f"{name} of bytes gives a text here: write {name.lower()} over decode(x, 'UTF-8')")
    for found in list(tree.find_all(exp.Any, exp.Group, exp.Hint)):
        if isinstance(found, exp.Hint):
            found.pop()
        elif isinstance(found, exp.Group):
            if found.args.get("grouping_sets"):  # the keys before the sets only name the columns of the sets
                found.set("expressions", [])
        elif not isinstance(found.this.unnest(), exp.Query) and not _is_compared(found):
            found.replace(exp.LogicalOr(this=found.this.unnest()))


def _is_compared(found: "exp.Expr") -> bool:
    """Return whether ANY stands after an operator, as in `x LIKE ANY ('a%', 'b%')`."""
    from sqlglot import exp

    return isinstance(found.parent, exp.Like | exp.ILike) and found.arg_key == "expression"
