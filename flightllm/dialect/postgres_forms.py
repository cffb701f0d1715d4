"""Rewrite PostgreSQL's clauses and operators that have another form here, in the tree that sqlglot reads."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

_TIMES: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ"})
_BIT_STRING: Final = (
    "a string of bits has no counterpart here: write its number, as in 5 for B'101', or decode('ff', 'hex') for bytes"
)
_START, _END = "least({0}, {1})", "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE greatest({0}, {1}) END"
_OVERLAPS: Final = (
    "CASE WHEN s > t THEN CASE WHEN f IS NULL THEN NULL WHEN s < f THEN TRUE WHEN e IS NULL THEN NULL ELSE FALSE END"
    " WHEN s < t THEN CASE WHEN e IS NULL THEN NULL WHEN t < e THEN TRUE WHEN f IS NULL THEN NULL ELSE FALSE END"
    " WHEN s = t AND e IS NOT NULL AND f IS NOT NULL THEN TRUE END"
)
"""Whether the time from `s` to `e` overlaps the time from `t` to `f`; an end can be NULL."""


def write_postgres_forms(tree: "exp.Expr") -> None:
    """Rewrite `FETCH FIRST n ROWS WITH TIES` by `rank()`, `@ x` as `abs(x)`, and similar forms.

    Raises:
        UnsupportedError: a form has no counterpart; the message says what to write.
    """
    for found in list(tree.walk()):
        rule = _RULES.get(type(found).__name__)
        if rule is not None:
            rule(found)


def _check_bits(found: Any) -> None:
    from sqlglot import exp

    around = found.parent
    if isinstance(found, exp.HexString) and isinstance(around, exp.Cast):
        return  # sqlglot's form of '\x12'::bytea
    raise UnsupportedError(_BIT_STRING)


def _write_ties(found: Any) -> None:
    """Write WITH TIES as a condition on the rank of a row; OFFSET skips rows of this result.

    Raises:
        UnsupportedError: the rows are those of a set operation or of DISTINCT, or have no order.
    """
    from sqlglot import exp

    options = found.args.get("limit_options")
    if options is None or not options.args.get("with_ties"):
        return
    select = found.parent
    order = select.args.get("order")
    if not isinstance(select, exp.Select) or select.args.get("distinct") or order is None:
        raise UnsupportedError(
            "WITH TIES needs a SELECT with ORDER BY and without DISTINCT or UNION: write SELECT * FROM (SELECT *,"
            " rank() OVER (ORDER BY a) AS n FROM (…) t) t WHERE n <= 3"
        )
    last = found.args.get("count") or exp.Literal.number(1)
    offset = select.args.get("offset")
    if offset is not None:
        last = exp.Add(this=exp.paren(last.copy()), expression=exp.paren(offset.expression.copy()))
    keys = [_key_of(key, select) for key in order.expressions]
    rank = exp.Window(this=exp.Anonymous(this="rank", expressions=[]), order=exp.Order(expressions=keys))
    within = exp.LTE(this=rank, expression=last.copy())
    select.set("limit", None)
    before = select.args.get("qualify")
    select.set("qualify", exp.Qualify(this=exp.and_(before.this, within) if before is not None else within))


def _key_of(key: Any, select: Any) -> Any:
    """Return a key of ORDER BY with the expression that its number or its alias means.

    Raises:
        UnsupportedError: the number is that of no column, or a star is before its column.
    """
    from sqlglot import exp

    made, value = key.copy(), key.this
    item = value
    if isinstance(value, exp.Literal) and not value.is_string:
        place = int(value.name) if value.name.isdecimal() else 0
        items = select.expressions[:place]
        if len(items) != place or not items or any(one.is_star for one in items):
            raise UnsupportedError(
                f"the key {value.name} of WITH TIES names no column after a star or outside of the list: write the"
                " column's name in ORDER BY"
            )
        item = items[-1]
    elif isinstance(value, exp.Column) and not value.table:
        named = _folded(value.this)
        aliased = [one for one in select.expressions if isinstance(one, exp.Alias)]
        item = next((one for one in aliased if _folded(one.args["alias"]) == named), value)
    made.set("this", item.unalias().copy())
    return made


def _folded(name: Any) -> str:
    """Return a name as PostgreSQL knows it: without quotes it is in lower case."""
    return str(name.name if name.quoted else name.name.lower())


def _write_overlaps(found: Any) -> None:
    """Write `(a, b) OVERLAPS (c, d)`, in which each end can be an interval after its start."""
    from sqlglot import exp, parse_one

    written: Any = parse_one(_OVERLAPS, read="duckdb")
    ends = dict(zip("setf", [*_period(found.this), *_period(found.expression)], strict=True))
    for column in list(written.find_all(exp.Column)):
        column.replace(exp.paren(ends[column.name].copy()))
    found.replace(exp.paren(written))


def _period(given: Any) -> tuple[Any, Any]:
    """Return the earlier and the later end of a period."""
    from sqlglot import exp, parse_one

    if not isinstance(given, exp.Tuple) or len(given.expressions) != 2:
        raise UnsupportedError("OVERLAPS compares two periods: write (start, stop) OVERLAPS (start, stop)")
    first, second = given.expressions
    typed = isinstance(second, exp.Cast) and second.to.this.name == "INTERVAL"
    if isinstance(second, exp.Interval) or typed:
        second = exp.paren(exp.Add(this=first.copy(), expression=second.copy()))
    ends = []
    for text in (_START, _END):
        made: Any = parse_one(text.format("a", "b"), read="duckdb")
        for column in list(made.find_all(exp.Column)):
            column.replace((first if column.name == "a" else second).copy())
        ends.append(made)
    return ends[0], ends[1]


def _write_absolute(found: Any) -> None:
    """Write `@ x` as `abs(x)`."""
    from sqlglot import exp

    if isinstance(found.this, exp.Literal):
        return  # a parameter such as $1
    _check_alone(found, "abs")
    inner = found.this
    value = exp.column(exp.to_identifier(inner.name)) if isinstance(inner, exp.Var) else inner.copy()
    found.replace(exp.Abs(this=value))


def _write_root(found: Any) -> None:
    """Write `|/ x` as `sqrt(x)`; a call of `sqrt` has another class."""
    from sqlglot import exp

    name = type(found).__name__.lower()
    _check_alone(found, name)
    found.replace(exp.Anonymous(this=name, expressions=[found.this.copy()]))


def _check_alone(found: Any, name: str) -> None:
    """Raise `UnsupportedError` beside arithmetic: in PostgreSQL it is a part of the operand."""
    from sqlglot import exp

    sums = exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.Pow
    if isinstance(found.parent, sums):
        raise UnsupportedError(f"an operator before arithmetic takes all of it in postgres: write {name}(x) + 1")


def _write_literal(found: Any) -> None:
    """Write `'epoch'::timestamp`, `'today'::date` and `'1e3'::numeric` as values.

    Raises:
        UnsupportedError: the value has no counterpart, as `infinity` and `NaN` of these types.
    """
    from sqlglot import exp

    value, kind = found.this, found.to.this.name
    if not (isinstance(value, exp.Literal) and value.is_string):
        return
    text = value.name.strip().lower()
    if kind == "DECIMAL" and re.fullmatch(r"[+-]?[\d.]+e[+-]?\d{1,3}", text):
        value.replace(exp.Literal.string(format(Decimal(text), "f")))
    elif kind == "DECIMAL" and text.lstrip("+-") in _NO_NUMBERS:
        raise UnsupportedError(f"numeric has no {value.name} here: write '{value.name}'::double precision")
    elif kind in _TIMES and text.lstrip("+-") == "infinity":
        raise UnsupportedError("times have no infinity here: write NULL, or '9999-12-31' for the last day")
    elif kind in _TIMES and text == "epoch":
        value.replace(exp.Literal.string("1970-01-01 00:00:00" if kind != "DATE" else "1970-01-01"))
    elif kind in _TIMES and text == "now":
        found.replace(exp.cast(exp.CurrentTimestamp(), found.to.copy()))
    elif kind in _TIMES and text in _DAYS:
        value.replace(exp.paren(exp.Add(this=exp.CurrentDate(), expression=exp.Literal.number(_DAYS[text]))))


def _check_change(found: Any) -> None:
    from sqlglot import exp

    if isinstance(found.this, exp.Insert | exp.Update | exp.Delete | exp.Merge):
        raise UnsupportedError(
            "a change inside of WITH is not supported: write it as a statement of its own with RETURNING, and read its"
            " rows"
        )


def _check_supposed(found: Any) -> None:
    name = str(found.this.name or type(found.this).__name__).lower().replace("_", "")
    if name in _SUPPOSED:
        raise UnsupportedError(
            "the rank of a supposed row has no counterpart here: write count(*) FILTER (WHERE x < 15) + 1"
        )


def _object(_: Any) -> None:
    """Raise `UnsupportedError` for JSON_OBJECT, whose pairs have another form."""
    raise UnsupportedError("JSON_OBJECT of postgres has no counterpart here: write json_build_object('name', value)")


def _lock(_: Any) -> None:
    """Raise `UnsupportedError` for FOR UPDATE and FOR SHARE."""
    raise UnsupportedError("a SELECT locks no rows here: write it without FOR UPDATE and FOR SHARE")


def _paths(_: Any) -> None:
    """Raise `UnsupportedError` for `@?`."""
    raise UnsupportedError("@? has no counterpart here: write (j #> '{a,0}') IS NOT NULL")


def _search(_: Any) -> None:
    """Raise `UnsupportedError` for `@@`."""
    raise UnsupportedError("@@ has no counterpart here: write text ILIKE '%word%'")


def _of_all(found: Any) -> None:
    """Leave out ONLY: no table here has the rows of others.

    Raises:
        UnsupportedError: the item is ROWS FROM.
    """
    if found.args.get("rows_from"):
        raise UnsupportedError(
            "ROWS FROM has no counterpart here: write FROM unnest(a, b) WITH ORDINALITY AS t(a, b, n), or number the"
            " rows of each function and join them"
        )
    found.set("only", None)


def _write_defaults(found: Any) -> None:
    """Write `SET a = DEFAULT`, in which sqlglot reads a column."""
    from sqlglot import exp

    for change in found.expressions:
        value: Any = change.expression if isinstance(change, exp.EQ) else None
        is_name = isinstance(value, exp.Column) and not value.table and not value.this.quoted
        if is_name and value.name.upper() == "DEFAULT":
            value.replace(exp.Var(this="DEFAULT"))


def _check_excluded(found: Any) -> None:
    excluded = found.args.get("exclude")
    if excluded is None:
        return
    if excluded.name.upper() != "NO OTHERS":
        raise UnsupportedError(
            f"EXCLUDE {excluded.name.upper()} of a window has no counterpart here: write two windows, one that ends at"
            " 1 PRECEDING and one that begins at 1 FOLLOWING, and combine their values"
        )
    found.set("exclude", None)


def _type_series(found: Any) -> None:
    """Write the types of text literals in a series of times, as PostgreSQL finds them."""
    from sqlglot import exp

    given = found.expressions
    if found.name != "GENERATE_SERIES" or len(given) != 3:
        return
    kinds = [one.to.this.name for one in given[:2] if isinstance(one, exp.Cast) and one.to.this.name in _TIMES]
    if not kinds:
        return
    kind = "TIMESTAMPTZ" if kinds[0] == "DATE" else kinds[0]
    for one, wanted in zip(given, (kind, kind, "INTERVAL"), strict=True):
        if isinstance(one, exp.Literal) and one.is_string:
            one.replace(exp.cast(one.copy(), wanted))


_NO_NUMBERS: Final = ("nan", "infinity", "inf")
_DAYS: Final = {"today": 0, "tomorrow": 1, "yesterday": -1}
_SUPPOSED: Final = ("rank", "denserank", "percentrank", "cumedist")
_RULES: Final[Mapping[str, Callable[[Any], None]]] = {
    "BitString": _check_bits,
    "CTE": _check_change,
    "Cast": _write_literal,
    "Cbrt": _write_root,
    "Fetch": _write_ties,
    "HexString": _check_bits,
    "JSONObject": _object,
    "JSONBPathExists": _paths,
    "Lock": _lock,
    "MatchAgainst": _search,
    "Overlaps": _write_overlaps,
    "Parameter": _write_absolute,
    "Sqrt": _write_root,
    "Table": _of_all,
    "Update": _write_defaults,
    "VendorCall": _type_series,
    "WithinGroup": _check_supposed,
    "WindowSpec": _check_excluded,
}
"""The rules by the names of sqlglot's classes."""
