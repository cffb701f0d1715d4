"""Functions of a plan in the dialect of a source. Each writer returns None for kinds of values that it cannot write."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from flightllm.attached.pushed.typed import Typed, as_decimal, is_null
from flightllm.attached.pushed.words import Words, operand, wrapped

_COMPARED: Final = {
    "equal": exp.EQ,
    "not_equal": exp.NEQ,
    "lt": exp.LT,
    "lte": exp.LTE,
    "gt": exp.GT,
    "gte": exp.GTE,
}
_COMPUTED: Final = {"add": exp.Add, "subtract": exp.Sub, "multiply": exp.Mul}
_PARTS: Final = frozenset({"year", "month", "day", "hour", "minute"})
_NUMBERS: Final = frozenset({"int", "float", "decimal"})
_TRUTHS: Final = {
    "is_true": (True, False),
    "is_not_true": (True, True),
    "is_false": (False, False),
    "is_not_false": (False, True),
}
_HALF: Final = 18


def also_by_index(form: type[exp.Expr], value: Typed, options: Sequence[Typed], exact: exp.Expr) -> exp.Expr:
    """Add the same test without a collation: an index of the source can answer it, and can find more rows."""
    bare = isinstance(value.sql, exp.Column | exp.Cast) and all(isinstance(o.sql, exp.Literal) for o in options)
    if value.kind != "text" or not bare:
        return exp.paren(exact)
    constants = [one.sql.copy() for one in options]
    wide = (
        exp.In(this=value.sql.copy(), expressions=constants)
        if form is exp.In
        else form(this=value.sql.copy(), expression=constants[0])
    )
    return exp.paren(exp.and_(wide, exact))


@dataclass(frozen=True, slots=True)
class Given:
    """A call of a function: its arguments, and the type of its result."""

    words: Words
    name: str
    values: Sequence[Typed]
    result: Typed


def _joined(given: Given) -> Typed | None:
    if any(one.kind != "bool" for one in given.values):
        return None
    join = exp.and_ if given.name == "and" else exp.or_
    return Typed(exp.paren(join(*map(operand, given.values))), "bool")


def _negated(given: Given) -> Typed | None:
    return Typed(exp.not_(exp.paren(given.values[0].sql)), "bool") if given.values[0].kind == "bool" else None


def _nulls(given: Given) -> Typed | None:
    tested: exp.Expr = exp.Is(this=operand(given.values[0]), expression=exp.null())
    return Typed(exp.paren(tested if given.name == "is_null" else exp.not_(tested)), "bool")


def _truth(given: Given) -> Typed | None:
    if given.values[0].kind != "bool":
        return None
    side, negated = _TRUTHS[given.name]
    tested: exp.Expr = exp.Is(this=operand(given.values[0]), expression=exp.true() if side else exp.false())
    return Typed(exp.paren(exp.not_(tested) if negated else tested), "bool")


def _comparison(given: Given) -> Typed | None:
    left, right = given.values
    if left.kind != right.kind:
        return None
    exact = _COMPARED[given.name](
        this=wrapped(given.words.ordered(left)), expression=wrapped(given.words.ordered(right))
    )
    if given.name != "equal":
        return Typed(exp.paren(exact), "bool")
    if isinstance(left.sql, exp.Literal):
        left, right = right, left
    return Typed(also_by_index(exp.EQ, left, [right], exact), "bool")


def _computed(given: Given) -> Typed | None:
    left, right = given.values
    if left.kind != right.kind or left.kind not in _NUMBERS or given.result.kind != left.kind:
        return None
    operands = [operand(one) for one in given.values]
    if left.kind == "decimal" and given.words.dialect == "duckdb":
        operands = [as_decimal(one.sql, _room(one, given.result)) for one in given.values]
    return replace(given.result, sql=exp.paren(_COMPUTED[given.name](this=operands[0], expression=operands[1])))


def _divided(given: Given) -> Typed | None:
    left, right = given.values
    match left.kind, right.kind:
        case "decimal", "decimal":
            return replace(given.result, sql=given.words.quotient(left, right, given.result.digits))
        case "float", "float":
            return replace(given.result, sql=given.words.ratio(operand(left), operand(right)))
    return None


def _like(given: Given) -> Typed | None:
    value, pattern, *others = given.values
    escape = [one for one in others if not is_null(one.sql)]  # NULL: no character is named
    if any(one.kind != "text" for one in given.values) or not isinstance(pattern.sql, exp.Literal):
        return None
    if any(not isinstance(one.sql, exp.Literal) or one.sql.name in pattern.sql.name for one in escape):
        return None
    return Typed(exp.paren(exp.Like(this=wrapped(given.words.ordered(value)), expression=pattern.sql)), "bool")


def _part(given: Given) -> Typed | None:
    part, value = given.values
    if not isinstance(part.sql, exp.Literal) or part.sql.name.lower() not in _PARTS or value.kind != "date":
        return None
    extracted = exp.Extract(this=exp.var(part.sql.name.upper()), expression=operand(value))
    return replace(given.result, sql=exp.cast(extracted, exp.DataType.Type.INT))


def _substring(given: Given) -> Typed | None:
    kinds = [one.kind for one in given.values]
    if kinds != ["text", "int", "int"]:
        return None
    start, length = given.values[1].sql, given.values[2].sql
    if not all(isinstance(one, exp.Literal) and int(one.name) > 0 for one in (start, length)):
        return None
    return replace(given.result, sql=exp.Substring(this=operand(given.values[0]), start=start, length=length))


def _nullif(given: Given) -> Typed | None:
    value, other = given.values
    if value.kind != other.kind:
        return None
    return replace(value, sql=exp.Nullif(this=given.words.ordered(value), expression=other.sql))


def _coalesce(given: Given) -> Typed | None:
    if len({one.shape for one in given.values}) > 1 or given.values[0].kind == "other":
        return None
    operands = [operand(one) for one in given.values]
    return replace(given.result, sql=exp.Coalesce(this=operands[0], expressions=operands[1:]))


def _room(value: Typed, result: Typed) -> tuple[int, int]:
    """Return the digits to which an operand grows, so that a database does not end a product at 38 digits."""
    return max(value.digits[0], min(_HALF, result.digits[0])), value.digits[1]


CALLS: Final[Mapping[str, Callable[[Given], Typed | None]]] = {
    **dict.fromkeys(("and", "or"), _joined),
    "not": _negated,
    **dict.fromkeys(("is_null", "is_not_null"), _nulls),
    **dict.fromkeys(_TRUTHS, _truth),
    **dict.fromkeys(_COMPARED, _comparison),
    **dict.fromkeys(_COMPUTED, _computed),
    "divide": _divided,
    "like": _like,
    "date_part": _part,
    **dict.fromkeys(("substring", "substr"), _substring),
    "nullif": _nullif,
    "coalesce": _coalesce,
}
"""The functions that have an equal in both dialects, with the methods that write them."""
