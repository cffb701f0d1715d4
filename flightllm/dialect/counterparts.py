"""Refuse parts of other dialects without a counterpart, and prepare others for the generator."""

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.reading import written_name
from flightllm.dialect.generator.variants import makes_json
from flightllm.dialect.generator.written import DAYS, MONTHS, NATIVE, SECONDS, SPARKS, unit_of
from flightllm.errors import UnsupportedError
from flightllm.functions.json_texts import JSON_LIST
from flightllm.functions.number_checks import ONLY_KNOWN
from flightllm.functions.variants import MEMBERS

if TYPE_CHECKING:
    from sqlglot import exp

_UNITS = (*DAYS, *MONTHS, *SECONDS)
_OVER_LISTS = {"FILTER": "array_filter", "TRANSFORM": "array_transform"}
"""Snowflake's functions with a lambda, and the functions with the same values here."""
_PLAIN = re.compile(r"[^\\.^$|?*+()\[\]{}]+")
"""A pattern without special characters, which matches only itself."""


def write_limits(tree: "exp.Expr") -> None:
    """Rewrite `ARRAY_AGG(a ORDER BY b LIMIT 2)` as a part of the list, and STRING_AGG as its joined texts.

    `ANY_VALUE(a HAVING MAX b)` becomes `MAX_BY(a, b)`.
    """
    from sqlglot import exp

    for one in list(tree.find_all(exp.AnyValue)):
        if isinstance(having := one.this, exp.HavingMax):
            made = exp.ArgMax if having.args.get("max") else exp.ArgMin
            one.replace(made(this=having.this, expression=having.expression))
    for found in list(tree.find_all(exp.ArrayAgg, exp.ArrayConcatAgg, exp.GroupConcat)):
        limit: exp.Expr = found.this
        if not isinstance(limit, exp.Limit):
            continue
        found.set("this", limit.this)
        whole = found.parent if isinstance(found.parent, exp.IgnoreNulls | exp.RespectNulls) else found
        if isinstance(found, exp.ArrayAgg):
            whole.replace(_first(whole.copy(), limit.expression))
            continue
        values = _values(found.this)
        known = exp.Where(this=exp.Not(this=exp.Is(this=exp.Paren(this=values.copy()), expression=exp.Null())))
        listed = _first(exp.Filter(this=exp.ArrayAgg(this=found.this.copy()), expression=known), limit.expression)
        if isinstance(found, exp.ArrayConcatAgg):
            whole.replace(exp.Anonymous(this="flatten", expressions=[listed]))
            continue
        between = found.args.get("separator") or exp.Literal.string(",")
        whole.replace(exp.Anonymous(this="array_to_string", expressions=[listed, between.copy()]))


def refuse_null_items(tree: "exp.Expr") -> None:
    """Rewrite `SELECT ARRAY_AGG(a)` as `CASE WHEN __only_known(COUNT(*), COUNT(a)) THEN ARRAY_AGG(a) END`.

    BigQuery refuses lists with NULL elements in a result, but not inside of a query. The lists of a table in WITH or
    FROM are in the result if the last query selects their names, or a star.
    """
    from sqlglot import exp

    last = tree if isinstance(tree, exp.Query) else tree.args.get("expression")
    if not isinstance(last, exp.Query):
        return
    shown = set(_shown_items(last, None))
    for found in list(tree.find_all(exp.ArrayAgg)):
        whole: exp.Expr = found
        while isinstance(whole.parent, exp.Window | exp.Filter | exp.RespectNulls) and whole.arg_key == "this":
            whole = whole.parent
        item = whole.parent if isinstance(whole.parent, exp.Alias) else whole
        is_item = isinstance(item.parent, exp.Select) and item.arg_key == "expressions"
        if isinstance(found.this, exp.Limit) or isinstance(whole.parent, exp.IgnoreNulls) or not is_item:
            continue
        if id(item) in shown:
            counts = [_counted(whole, exp.Star()), _counted(whole, _values(found.this).copy())]
            known = exp.Anonymous(this=ONLY_KNOWN, expressions=counts)
            whole.replace(exp.Case(ifs=[exp.If(this=known, true=whole.copy())]))


def _shown_items(query: "exp.Expr", wanted: "Collection[str] | None") -> "Iterator[int]":
    """Yield the identities of the items whose values are in the result of a query, also in queries of FROM and WITH.

    `wanted` are the columns of the query that are in the result; None means all.
    """
    from sqlglot import exp

    if isinstance(query, exp.SetOperation):
        yield from _shown_items(query.this, wanted)
        yield from _shown_items(query.expression, wanted)
        return
    select = query.unnest() if isinstance(query, exp.Subquery) else query
    if isinstance(select, exp.SetOperation):
        yield from _shown_items(select, wanted)
    if not isinstance(select, exp.Select):
        return
    read: set[str] | None = set()
    for item in select.expressions:
        value = item.unalias()
        if item.is_star:
            read = None if wanted is None or read is None else read | set(wanted)
        elif wanted is None or item.alias_or_name.lower() in wanted:
            yield id(item)
            if isinstance(value, exp.Subquery):
                yield from _shown_items(value, None)
            elif isinstance(value, exp.Column) and read is not None:
                read.add(value.name.lower())
    for table in _tables(select):
        yield from _shown_items(table, read)


def _tables(select: "exp.Select") -> "Iterator[exp.Expr]":
    """Yield the queries in FROM of a SELECT, and those of WITH that its FROM names."""
    from sqlglot import exp

    begin = select.args.get("from_")
    for one in [*([begin.this] if begin else []), *(join.this for join in select.args.get("joins") or [])]:
        if isinstance(one, exp.Subquery):
            yield one.this
        elif isinstance(one, exp.Table) and not one.db:
            around: exp.Expr | None = select
            while around is not None:
                names = {cte.alias.lower(): cte.this for cte in getattr(around, "ctes", ())}
                if (found := names.get(one.name.lower())) is not None and not _is_inside(select, found):
                    yield found
                    break
                around = around.parent


def _is_inside(select: "exp.Select", query: "exp.Expr") -> bool:
    """Return whether a SELECT is a part of a query, as in WITH RECURSIVE."""
    around: exp.Expr | None = select
    while around is not None and around is not query:
        around = around.parent
    return around is query


def _counted(whole: "exp.Expr", counted: "exp.Expr") -> "exp.Expr":
    """Return the aggregate as the count of the same rows."""
    from sqlglot import exp

    copied, count = whole.copy(), exp.Count(this=counted)
    inner = copied.find(exp.ArrayAgg)
    if inner is None or inner is copied:
        return count
    inner.replace(count)
    return copied


def order_any_values(tree: "exp.Expr") -> None:
    """Rewrite `ANY_VALUE(a ORDER BY b)` as the first known value; the server would leave its order out.

    Raises:
        UnsupportedError: the call is over a window.
    """
    from sqlglot import exp

    calls: list[exp.Expr] = list(tree.find_all(vendor_call()))
    for found in calls:
        order = found.expressions[0] if found.expressions else None
        if str(found.this) != "ANY_VALUE" or not isinstance(order, exp.Order):
            continue
        whole: exp.Expr = found
        known: exp.Expr = exp.Not(this=exp.Is(this=exp.Paren(this=_values(order).copy()), expression=exp.Null()))
        if isinstance(whole.parent, exp.Filter):
            whole = whole.parent
            known = exp.And(this=exp.Paren(this=whole.expression.this.copy()), expression=known)
        if isinstance(whole.parent, exp.Window):
            raise UnsupportedError("any_value with ORDER BY over a window has no counterpart: write first_value(a)")
        listed = exp.Filter(this=exp.ArrayAgg(this=order.copy()), expression=exp.Where(this=known))
        whole.replace(exp.Anonymous(this="array_element", expressions=[listed, exp.Literal.number(1)]))


def _first(values: "exp.Expr", count: "exp.Expr") -> "exp.Expr":
    """Return the first items of a list."""
    from sqlglot import exp

    return exp.Anonymous(this="array_slice", expressions=[values, exp.Literal.number(1), count.copy()])


def _values(given: "exp.Expr") -> "exp.Expr":
    """Return the value that an aggregate reads, without its order and DISTINCT."""
    from sqlglot import exp

    inner: exp.Expr = given.this if isinstance(given, exp.Order) else given
    return inner.expressions[0] if isinstance(inner, exp.Distinct) else inner


def check_counterparts(tree: "exp.Expr", dialect: str) -> None:
    """Prepare the functions that the generator writes, by their meaning in the dialect.

    Raises:
        UnsupportedError: a function has no counterpart here; the message says what to write instead.
    """
    from sqlglot import exp

    for found in list(tree.walk()):
        said = _clause_refused(found) or _refused(found, dialect)
        if said is not None:
            raise UnsupportedError(said)
        if isinstance(found, exp.ArrayFilter | exp.Transform) and dialect == "snowflake":
            _write_over_list(found)
        elif isinstance(found, exp.Order):
            _name_all(found)
        elif isinstance(found, exp.TransientProperty):  # all tables are stored alike
            found.pop()
        elif isinstance(found, exp.Window):
            _write_window(found, dialect)
        elif isinstance(found, exp.ArgMax | exp.ArgMin):
            found.set("known_only", dialect == "duckdb")
        elif isinstance(found, exp.IgnoreNulls) and isinstance(found.parent, vendor_call()):
            _ignore_outside(found)


def _write_over_list(found: "exp.ArrayFilter | exp.Transform") -> None:
    """Write FILTER and TRANSFORM of Snowflake; the elements of a JSON list are JSON, and so is a part of one.

    `FILTER(PARSE_JSON(t), x -> x > 1)` becomes a JSON list of the elements that the lambda keeps.
    """
    from sqlglot import exp

    name = _OVER_LISTS.get(written_name(found))
    if name is None:
        return
    listed, given = found.this.copy(), found.expression.copy()
    as_json = False
    if makes_json(found.this):
        listed = exp.Anonymous(this=MEMBERS, expressions=[listed])
        names = {one.name.lower() for one in given.expressions}
        for one in [one for one in given.this.find_all(exp.Identifier) if one.name.lower() in names]:
            if isinstance(one.parent, exp.JSONExtract | exp.GetExtract | exp.Column):
                continue
            whole = exp.JSONPath(expressions=[exp.JSONPathRoot()])
            one.replace(exp.JSONExtract(this=one.copy(), expression=whole, variant_extract=True))
        as_json = name == "array_filter" or makes_json(given.this)
    made = exp.Anonymous(this=name, expressions=[listed, given])
    found.replace(exp.Anonymous(this=JSON_LIST, expressions=[made]) if as_json else made)


def _ignore_outside(found: "exp.IgnoreNulls") -> None:
    """Rewrite `lag(a IGNORE NULLS)` as `lag(a) IGNORE NULLS`."""
    from sqlglot import exp

    call = found.parent
    found.replace(found.this)
    if call is not None:
        call.replace(exp.IgnoreNulls(this=call.copy()))


def _clause_refused(found: "exp.Expr") -> str | None:
    from sqlglot import exp

    match found:
        case exp.Star() if found.args.get("rename"):
            return "RENAME in a star has no counterpart: write SELECT * EXCLUDE (a), a AS b"
        case exp.MatchRecognize():
            return (
                "MATCH_RECOGNIZE has no counterpart: write lag(a) OVER (ORDER BY b) AS before in a subquery, and"
                " compare it with a outside"
            )
        case exp.Join() if found.args.get("method") == "POSITIONAL":
            return (
                "POSITIONAL JOIN has no counterpart: number the rows of both tables by row_number() OVER () AS n in"
                " subqueries, and write JOIN … USING (n)"
            )
        case exp.LimitOptions() if found.args.get("percent"):
            return "a share of the rows in LIMIT has no counterpart: write a number of rows"
        case _:
            return None


def _refused(found: "exp.Expr", dialect: str) -> str | None:
    from sqlglot import exp

    match found:
        case exp.Lambda() | exp.Comprehension() if dialect not in (*NATIVE, *SPARKS) and not _has_form(found, dialect):
            return (
                "a lambda such as x -> x + 1 has no counterpart: write unnest(list) in a subquery,"
                " compute, and join the values by array_agg"
            )
        case exp.Is():
            return _operator_refused(found, dialect)
        case exp.Connect() | exp.Star() | exp.HistoricalData() | exp.TableSample():
            return _table_refused(found)
        case exp.Inline() | exp.Stack():
            return f"{found.key.upper()} has no counterpart: write LATERAL VIEW explode(list) v AS x, and read x.a"
        case exp.DateDiff():
            return _difference_refused(found, dialect)
        case exp.LastDay():
            return _last_day_refused(found)
        case exp.Split() | exp.RegexpSplit():
            return _split_refused(found)
        case exp.GroupConcat():
            return _joined_refused(found)
        case exp.ArgMax() | exp.ArgMin():
            return _extreme_refused(found)
        case _:
            return None


def _has_form(found: "exp.Expr", dialect: str) -> bool:
    """Return whether a lambda of one parameter is in FILTER or TRANSFORM of Snowflake, which lambdas here can do."""
    from sqlglot import exp

    around, made = found.parent, isinstance(found, exp.Lambda) and len(found.expressions) == 1
    name = written_name(around) if isinstance(around, exp.Func) else ""
    return made and dialect == "snowflake" and name in _OVER_LISTS


def _calls(value: "exp.Expr", name: str) -> bool:
    from sqlglot import exp

    return isinstance(value, exp.Anonymous) and str(value.this).upper() == name and len(value.expressions) == 1


def _write_window(found: "exp.Window", dialect: str) -> None:
    """Write a window function that the server lacks; joined texts that are all NULL are an empty text in Snowflake."""
    from sqlglot import exp

    if _calls(found.this, "RATIO_TO_REPORT"):
        _write_ratio(found)
    elif _calls(found.this, "CONDITIONAL_TRUE_EVENT"):
        _count_events(found)
    elif isinstance(found.this, exp.GroupConcat) and dialect == "snowflake":
        joined = exp.Coalesce(expressions=[exp.Literal.string("")])
        found.replace(joined)
        joined.set("this", found)


def _write_ratio(found: "exp.Window") -> None:
    """Rewrite `RATIO_TO_REPORT(x) OVER (…)` as `CAST(x AS DOUBLE) / NULLIF(SUM(x) OVER (…), 0)`."""
    from sqlglot import exp

    value = found.this.expressions[0]
    total = found.copy()
    total.set("this", exp.Sum(this=value.copy()))
    part = exp.Cast(this=value.copy(), to=exp.DataType.build("DOUBLE"))
    found.replace(
        exp.Paren(this=exp.Div(this=part, expression=exp.Nullif(this=total, expression=exp.Literal.number(0))))
    )


def _count_events(found: "exp.Window") -> None:
    """Rewrite `CONDITIONAL_TRUE_EVENT(a) OVER (ORDER BY b)` as the number of true rows up to the row."""
    from sqlglot import exp

    one, none = exp.Literal.number(1), exp.Literal.number(0)
    found.set(
        "this", exp.Sum(this=exp.Case(ifs=[exp.If(this=found.this.expressions[0].copy(), true=one)], default=none))
    )
    found.set("spec", exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"))
    found.replace(exp.Cast(this=found.copy(), to=exp.DataType.build("BIGINT")))


def _tree_refused(found: "exp.Connect") -> str | None:
    """Return the error of CONNECT BY; a tree of one table by two columns becomes WITH RECURSIVE."""
    from sqlglot import exp

    select, rule = found.parent, found.args["connect"]
    sides = [rule.this, rule.expression] if isinstance(rule, exp.EQ) else []
    plain = [one.this if isinstance(one, exp.Prior) else one for one in sides]
    by_columns = bool(plain) and all(isinstance(one, exp.Column) for one in plain) and sides != plain
    source = select.args.get("from_") if isinstance(select, exp.Select) else None
    alone = source is not None and isinstance(source.this, exp.Table) and not source.this.alias
    more = isinstance(select, exp.Select) and any(select.args.get(name) for name in ("where", "joins", "laterals"))
    roots = select is not None and any(
        str(one.this).upper().startswith(("CONNECT_BY", "SYS_CONNECT")) for one in select.find_all(exp.Anonymous)
    )
    if (
        by_columns
        and alone
        and found.args.get("start") is not None
        and not (more or roots or found.args.get("nocycle"))
    ):
        return None
    return "CONNECT BY has no counterpart: write WITH RECURSIVE, whose second part joins the table with the rows so far"


def _table_refused(found: "exp.Connect | exp.Star | exp.HistoricalData | exp.TableSample") -> str | None:
    from sqlglot import exp

    if isinstance(found, exp.Connect):
        return _tree_refused(found)
    if isinstance(found, exp.TableSample):
        return "a sample of a table has no counterpart: write WHERE random() < 0.1 for a tenth"
    if isinstance(found, exp.HistoricalData):
        return "a table has no earlier states here: leave AT and BEFORE out, or write the name of a copy"
    if found.args.get("ilike") is not None:
        return "* ILIKE has no counterpart: write the names of the columns, or * EXCLUDE (a, b)"
    return None


def _last_day_refused(found: "exp.LastDay") -> str | None:
    unit = unit_of(found, "MONTH")
    if unit not in {*MONTHS, "WEEK", "ISOWEEK"}:
        return f"{written_name(found)} accepts the units WEEK, MONTH, QUARTER and YEAR: write one of them"
    return None


def _operator_refused(found: "exp.Is", dialect: str) -> str | None:
    if dialect == "duckdb" and _is_row(found.this):
        return "a row IS NULL compares the row with NULL in duckdb: write a IS NULL AND b IS NULL"
    return None


def _is_row(value: "exp.Expr") -> bool:
    from sqlglot import exp

    made = value.unnest() if isinstance(value, exp.Paren) else value
    return isinstance(made, exp.Tuple) or (isinstance(made, exp.Anonymous) and str(made.this).lower() == "row")


def _difference_refused(found: "exp.DateDiff", dialect: str) -> str | None:
    unit = unit_of(found, "DAY")
    if unit == "WEEK" and dialect == "duckdb":
        return "date_diff of duckdb counts weeks of seven elapsed days: write date_diff('day', a, b) // 7"
    if unit not in _UNITS:
        return f"{written_name(found)} accepts the units {', '.join(_UNITS)}: write one of them"
    return None


def _split_refused(found: "exp.Split | exp.RegexpSplit") -> str | None:
    from sqlglot import exp

    between, name = found.expression, written_name(found)
    if not (isinstance(between, exp.Literal) and between.is_string and between.this):
        return f"the separator of {name} must be a text literal that is not empty: write split(text, ',')"
    if isinstance(found, exp.RegexpSplit) and not _PLAIN.fullmatch(between.this):
        return f"{name} by a pattern has no counterpart: write split(regexp_replace(text, pattern, ';', 'g'), ';')"
    if found.args.get("limit") is not None:
        return f"{name} with a limit has no counterpart: leave the limit out, or write split_part(text, ',', 1)"
    return None


def _joined_refused(found: "exp.GroupConcat") -> str | None:
    from sqlglot import exp

    if isinstance(found.this, exp.Limit):
        return f"LIMIT in {written_name(found)} has no counterpart: keep the first rows by row_number() in a subquery"
    if isinstance(found.parent, exp.Window) and isinstance(found.this, exp.Order):
        return (
            "an order of joined texts beside OVER has no counterpart: join the texts in a subquery with GROUP BY, and"
            " join its rows to the others"
        )
    return None


def _extreme_refused(found: "exp.ArgMax | exp.ArgMin") -> str | None:
    from sqlglot import exp

    name = written_name(found)
    if found.args.get("count") is not None:
        return f"{name} of several rows has no counterpart: write array_agg(a ORDER BY b) and slice the list"
    if isinstance(found.parent, exp.Window | exp.Filter):
        return f"{name} with OVER or FILTER has no counterpart: write first_value(a) OVER (… ORDER BY b), or a subquery"
    return None


def _name_all(order: "exp.Order") -> None:
    """Rewrite `SELECT a, b … ORDER BY ALL DESC` as `… ORDER BY 1 DESC, 2 DESC`; a pass rewrites it after a star."""
    from sqlglot import exp

    keys, select = order.expressions, order.parent
    key = keys[0].this if len(keys) == 1 else None
    is_word = isinstance(key, exp.Var) or (isinstance(key, exp.Column) and not key.table and not key.this.quoted)
    if key is None or not is_word or key.name.upper() != "ALL":
        return
    if not isinstance(select, exp.Select) or select.is_star or select.find(exp.Columns):
        keys[0].set("this", exp.Var(this="ALL"))  # a name would be written in quotes
        return
    written = [keys[0].copy() for _ in select.expressions]
    for place, key in enumerate(written, 1):
        key.set("this", exp.Literal.number(place))
    order.set("expressions", written)
