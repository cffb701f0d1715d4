"""Write values that BigQuery spells otherwise: fields of JSON literals, hexadecimal texts and ML.DISTANCE."""

import re
from typing import TYPE_CHECKING, Any, Final

from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

_HEXADECIMAL: Final = re.compile(r"\s*[+-]?0[xX][0-9a-fA-F]{1,15}\s*")
_DISTANCES: Final = {"EUCLIDEAN": "array_distance", "COSINE": "cosine_distance"}


def write_bigquery_values(tree: "exp.Expr") -> None:
    """Rewrite `JSON '{…}'.a` as a field of the value, `CAST('0x1F' AS INT64)` as 31, and ML.DISTANCE by its measure.

    Raises:
        UnsupportedError: ML.DISTANCE has another measure.
    """
    from sqlglot import exp

    for found in list(tree.find_all(exp.ParseJSON, exp.Cast, exp.Dot)):
        if isinstance(found, exp.ParseJSON) and found.args.get("is_literal"):
            _fields_last(found)
        elif isinstance(found, exp.Cast) and found.is_type("bigint") and _is_hexadecimal(found.this):
            found.replace(exp.Literal.number(int(found.this.name, 16)))
        elif isinstance(found, exp.Dot) and found.this.name.upper() == "ML" and _is_distance(found.expression):
            found.replace(_distance(found.expression))


def _is_hexadecimal(value: Any) -> bool:
    from sqlglot import exp

    return isinstance(value, exp.Literal) and value.is_string and _HEXADECIMAL.fullmatch(value.name) is not None


def _fields_last(found: Any) -> None:
    """Read the fields after the text of a JSON literal as fields of the value."""
    from sqlglot import exp

    path = inner = found.this
    while isinstance(inner, exp.Dot | exp.Bracket):
        inner = inner.this
    if inner is path:
        return
    literal = found.copy()
    literal.set("this", inner.copy())
    inner.replace(literal)
    found.replace(path.copy())


def _is_distance(call: Any) -> bool:
    from sqlglot import exp

    return isinstance(call, exp.Anonymous) and str(call.this).upper() == "DISTANCE" and len(call.expressions) in {2, 3}


def _distance(call: Any) -> Any:
    from sqlglot import exp

    left, right, *measure = call.expressions
    name = _DISTANCES.get(measure[0].name.upper() if measure else "EUCLIDEAN")
    if name is None:
        raise UnsupportedError("ML.DISTANCE has the measures EUCLIDEAN and COSINE here: write one of them")
    return exp.Anonymous(this=name, expressions=[left.copy(), right.copy()])
