"""Write functions of other dialects in DataFusion's form, and refuse those without a counterpart."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

Written = Callable[[Any, Any], str]
_DAYS = {"DAY": 1, "WEEK": 7, "ISOWEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_OTHER_DAYS = ("SUNDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
"""Days on which weeks of BigQuery can begin, as sqlglot reads WEEK and WEEK(TUESDAY)."""
_UNITS = (*_DAYS, *_MONTHS, *_SECONDS)
_PLAIN = re.compile(r"[^\\.^$|?*+()\[\]{}]+")
"""A pattern without special characters, which matches only itself."""
_ELAPSED = ("spark", "databricks")
"""Dialects whose DATEDIFF counts whole elapsed units; other dialects count the unit boundaries in between."""


def check_counterparts(tree: "exp.Expr", dialect: str) -> None:
    """Prepare the functions that `counterparts` writes, by their meaning in the dialect.

    Raises:
        UnsupportedError: a function has no counterpart here; the message says what to write instead.
    """
    from sqlglot import exp

    for found in list(tree.walk()):
        said = _refused(found, dialect)
        if said is not None:
            raise UnsupportedError(said)
        if isinstance(found, exp.Order):
            _name_all(found)
        elif isinstance(found, exp.ArgMax | exp.ArgMin):
            found.set("known_only", dialect == "duckdb")


def _refused(found: "exp.Expr", dialect: str) -> str | None:
    from sqlglot import exp

    match found:
        case exp.Lambda() | exp.Comprehension():
            return (
                "a lambda such as x -> x + 1 has no counterpart: split the list by unnest(list) in a subquery,"
                " compute, and join the values by array_agg"
            )
        case exp.TableSample():
            return "a sample of a table has no counterpart: write WHERE random() < 0.1 for a tenth"
        case exp.TableFromRows() | exp.Lateral() if isinstance(found.this, exp.Explode | exp.Posexplode | exp.Inline):
            name = "FLATTEN" if dialect == "snowflake" else "LATERAL VIEW"
            return f"{name} has no counterpart in FROM: write unnest(list) in SELECT"
        case exp.DateDiff():
            return _difference_refused(found, dialect)
        case exp.LastDay() if dialect == "bigquery" and _unit(found, "MONTH") == "WEEK":
            return "weeks begin on Sundays in bigquery and on Mondays here: write LAST_DAY(day, ISOWEEK)"
        case exp.LastDay() if _unit(found, "MONTH") not in {*_MONTHS, "WEEK", "ISOWEEK"}:
            return "LAST_DAY accepts the units WEEK, MONTH, QUARTER and YEAR: write one of them"
        case exp.Split() | exp.RegexpSplit():
            return _split_refused(found)
        case exp.ArgMax() | exp.ArgMin():
            return _extreme_refused(found)
        case _:
            return None


def _difference_refused(found: "exp.DateDiff", dialect: str) -> str | None:
    unit = _unit(found, "DAY")
    if unit == "WEEK" and dialect == "bigquery":
        return "weeks begin on Sundays in bigquery and on Mondays here: write ISOWEEK in DATE_DIFF"
    if unit == "WEEK" and dialect == "duckdb":
        return "date_diff of duckdb counts weeks of seven elapsed days: write date_diff('day', a, b) // 7"
    if unit not in _UNITS:
        return f"a difference of dates accepts the units {', '.join(_UNITS)}: write one of them"
    if dialect in _ELAPSED and unit != "DAY":
        return (
            f"DATEDIFF of {dialect} by {unit} counts whole elapsed units: write the difference of days, or of"
            " to_unixtime(time) in seconds, and divide it"
        )
    return None


def _split_refused(found: "exp.Split | exp.RegexpSplit") -> str | None:
    from sqlglot import exp

    between = found.expression
    if not (isinstance(between, exp.Literal) and between.is_string and between.this):
        return "the separator of SPLIT must be a text literal that is not empty: write split(text, ',')"
    if isinstance(found, exp.RegexpSplit) and not _PLAIN.fullmatch(between.this):
        return "SPLIT by a pattern has no counterpart: write split(regexp_replace(text, pattern, ';', 'g'), ';')"
    if found.args.get("limit") is not None:
        return "SPLIT with a limit has no counterpart: leave the limit out, or write split_part(text, ',', 1)"
    return None


def _extreme_refused(found: "exp.ArgMax | exp.ArgMin") -> str | None:
    from sqlglot import exp

    name = "MAX_BY" if isinstance(found, exp.ArgMax) else "MIN_BY"
    if found.args.get("count") is not None:
        return f"{name} of several rows has no counterpart: write array_agg(a ORDER BY b) and slice the list"
    if isinstance(found.parent, exp.Window | exp.Filter):
        return f"{name} with OVER or FILTER has no counterpart: write first_value(a) OVER (… ORDER BY b), or a subquery"
    return None


def _unit(found: "exp.Expr", usual: str) -> str:
    unit = found.args.get("unit")
    if unit is None:
        return usual
    inner = str(unit.name).upper()
    return {"MONDAY": "ISOWEEK", **dict.fromkeys(_OTHER_DAYS, "WEEK")}.get(inner, inner)


def _name_all(order: "exp.Order") -> None:
    """Rewrite `SELECT a, b … ORDER BY ALL DESC` as `… ORDER BY 1 DESC, 2 DESC`.

    Raises:
        UnsupportedError: the SELECT does not list its columns.
    """
    from sqlglot import exp

    keys, select = order.expressions, order.parent
    if len(keys) != 1 or not isinstance(keys[0].this, exp.Var) or keys[0].this.name.upper() != "ALL":
        return
    if not isinstance(select, exp.Select) or select.is_star:
        raise UnsupportedError("ORDER BY ALL needs the columns in SELECT: name them, or write ORDER BY a, b")
    written = [keys[0].copy() for _ in select.expressions]
    for place, key in enumerate(written, 1):
        key.set("this", exp.Literal.number(place))
    order.set("expressions", written)


def counterparts() -> Mapping[type, Written]:
    """Return the function that writes an expression for DataFusion, by sqlglot's class of the expression."""
    from sqlglot import exp

    return {
        exp.ApproxDistinct: lambda generator, found: generator.func("APPROX_DISTINCT", found.this),
        exp.ArgMax: lambda generator, found: _extreme(generator, found, "DESC"),
        exp.ArgMin: lambda generator, found: _extreme(generator, found, "ASC"),
        exp.DateDiff: _difference,
        exp.IntDiv: _whole,
        exp.LastDay: _last_day,
        exp.RegexpLike: _matches,
        exp.RegexpSplit: _split,
        exp.Split: _split,
    }


def _extreme(generator: Any, found: Any, direction: str) -> str:
    value, key = generator.sql(found, "this"), generator.sql(found, "expression")
    known = f"{key} IS NOT NULL" + (f" AND {value} IS NOT NULL" if found.args.get("known_only") else "")
    return f"FIRST_VALUE({value} ORDER BY {key} {direction}) FILTER (WHERE {known})"


def _difference(generator: Any, found: Any) -> str:
    """Write the number of unit boundaries between two times."""
    unit = _unit(found, "DAY")
    until, since = generator.sql(found, "this"), generator.sql(found, "expression")
    if unit in _MONTHS:
        days = [f"CAST({day} AS DATE)" for day in (until, since)]
        if unit == "YEAR":
            counts = [f"DATE_PART('year', {day})" for day in days]
        else:
            each = 12 // _MONTHS[unit]
            counts = [f"({each} * DATE_PART('year', {day}) + DATE_PART('{unit.lower()}', {day}))" for day in days]
        return f"CAST({counts[0]} - {counts[1]} AS BIGINT)"
    if unit in _SECONDS:
        ends = [f"TO_UNIXTIME(DATE_TRUNC('{unit.lower()}', CAST({day} AS TIMESTAMP)))" for day in (until, since)]
        return f"(({ends[0]} - {ends[1]}) / {_SECONDS[unit]})"
    if unit == "DAY":
        return f"(CAST({until} AS DATE) - CAST({since} AS DATE))"
    weeks = [f"CAST(DATE_TRUNC('week', CAST({day} AS DATE)) AS DATE)" for day in (until, since)]
    return f"(({weeks[0]} - {weeks[1]}) / 7)"


def _whole(generator: Any, found: Any) -> str:
    return f"CAST(({generator.sql(found, 'this')}) / ({generator.sql(found, 'expression')}) AS BIGINT)"


def _last_day(generator: Any, found: Any) -> str:
    unit = _unit(found, "MONTH")
    start = f"DATE_TRUNC('{unit.lower().removeprefix('iso')}', CAST({generator.sql(found, 'this')} AS DATE))"
    length = f"{_MONTHS[unit]} months" if unit in _MONTHS else "7 days"
    return f"CAST({start} + INTERVAL '{length}' - INTERVAL '1 day' AS DATE)"


def _matches(generator: Any, found: Any) -> str:
    text, pattern, flag = found.this, generator.sql(found, "expression"), found.args.get("flag")
    if found.args.get("full_match"):
        pattern = f"'^(?:' || ({pattern}) || ')$'"
    return str(generator.func("REGEXP_LIKE", text, pattern, flag))


def _split(generator: Any, found: Any) -> str:
    """Write a list of parts: an empty text has one part, though `string_to_array` returns an empty list for it."""
    text, between = generator.sql(found, "this"), generator.sql(found, "expression")
    return f"ARRAY_POP_FRONT(STRING_TO_ARRAY({between} || ({text}), {between}))"
