"""Write the paths of Snowflake and Databricks into JSON values: as JSON, text, number or truth value."""

from collections.abc import Mapping, Sequence
from typing import Any

from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.duckdb_values import json_of
from flightllm.dialect.generator.written import SPARKS, Written
from flightllm.errors import UnsupportedError
from flightllm.functions.json_texts import JSON_LIST
from flightllm.functions.json_values import Step, written_path
from flightllm.functions.number_checks import OFFSET_PLACE
from flightllm.functions.variant_objects import GOT, PLAIN, RAW, SAME
from flightllm.functions.variants import ELEMENTS, VARIANT_JSON, VARIANT_TEXT
from flightllm.sql.literals import text_literal
from flightllm.sql.passes.spark_values import SUBSCRIPT
from flightllm.sql.passes.variants import MIXED, QUOTED

_OF_JSON = ("VARIANT", "OBJECT", "ARRAY", "JSON", "JSONB", "STRUCT", "MAP", "LIST")

_OF_VALUES = ("TYPEOF", "TO_JSON")
"""Functions that read a value with its kind; so do those that begin with one of the next words."""
_OF_KINDS = ("IS_", "AS_", "OBJECT_")
_OF_LISTS = (
    *("ARRAY_SIZE", "ARRAY_CONTAINS", "ARRAY_TO_STRING", "ARRAY_DISTINCT", "ARRAY_SLICE", "ARRAY_CAT"),
    *("ARRAY_APPEND", "ARRAY_COMPACT", "ARRAY_EXCEPT", "ARRAY_FLATTEN", "ARRAY_INSERT", "ARRAY_INTERSECTION"),
    *("ARRAY_MAX", "ARRAY_MIN", "ARRAY_POSITION", "ARRAY_PREPEND", "ARRAY_REMOVE", "ARRAY_REVERSE", "ARRAY_SORT"),
    "SIZE",
    "LIST_COUNT",
)
"""Functions of lists: a JSON list becomes one for them."""
_ORDERING = ("GREATEST", "LEAST", "GREATEST_IGNORE_NULLS", "LEAST_IGNORE_NULLS")
"""Functions that compare their values."""
_MAKING_JSON = (
    *("OBJECT_CONSTRUCT", "OBJECT_CONSTRUCT_KEEP_NULL", "OBJECT_AGG", "OBJECT_INSERT", "OBJECT_PICK", "OBJECT_DELETE"),
    JSON_LIST.upper(),
)
"""Functions of Snowflake whose values are JSON."""


def variants() -> Mapping[type, Written]:
    """Return the function that writes a path, by sqlglot's class."""
    from sqlglot import exp

    return {exp.JSONExtract: _extracted, exp.GetExtract: _got, exp.Array: _array}


def makes_json(value: Any) -> bool:
    """Return whether a value of Snowflake is surely JSON: an object, a parsed text, or a part of one."""
    from sqlglot import exp

    while isinstance(value, exp.Paren | exp.Order | exp.Distinct):
        value = value.expressions[0] if isinstance(value, exp.Distinct) else value.this
    if isinstance(value, exp.ParseJSON | exp.JSONExtract | exp.GetExtract):
        return True
    if isinstance(value, exp.Array):
        return any(map(makes_json, value.expressions))
    return isinstance(value, exp.Func) and str(value.args.get("this")).upper() in _MAKING_JSON


def _can_mix(value: Any) -> bool:
    """Return whether a value is an array whose elements are not all texts, and not all numbers, as written.

    The labels of a call can have several keys, and stay as written: the call reads them itself.
    """
    from sqlglot import exp

    around = value.parent.parent if isinstance(value.parent, exp.Kwarg) else value.parent
    if around is not None and str(around.args.get("this")).lower() == "ai_classify":
        return False
    kinds = {one.is_string if isinstance(one, exp.Literal) else None for one in value.expressions}
    return isinstance(value, exp.Array) and (len(kinds) > 1 or None in kinds)


def _array(generator: Any, found: Any) -> str:
    """Write `ARRAY_CONSTRUCT(1, 'a')` of Snowflake, whose elements can have several types, as a list or as JSON."""
    from sqlglot import exp
    from sqlglot.generators.duckdb import DuckDBGenerator

    if generator.read_from != "snowflake" or not _can_mix(found):
        return str(DuckDBGenerator.TRANSFORMS[exp.Array](generator, found))
    values = [generator.sql(one) for one in found.expressions]
    if makes_json(found):
        return f"{JSON_LIST}(make_array({', '.join(f'{QUOTED}({one})' for one in values)}))"
    return f"{MIXED}({', '.join(values)})"


def _extracted(generator: Any, found: Any) -> str:
    """Write `d:brand` of Snowflake and Databricks; other dialects have the arrow of DuckDB."""
    if not found.args.get("variant_extract") and generator.read_from != "snowflake":
        return _arrow(generator, found)
    return _read(generator, found, found.this, _steps(found.expression))


def _got(generator: Any, found: Any) -> str:
    """Write `GET(j, 'labels')` of Snowflake."""
    from sqlglot import exp

    if not isinstance(found.expression, exp.Literal):
        return _computed(generator, found)
    return _read(generator, found, found.this, _steps(found.expression))


def _computed(generator: Any, found: Any) -> str:
    """Write `GET(a, k - 1)`: an element of a list or of a JSON text, as JSON or as text in a cast."""
    from sqlglot import exp

    value, key = generator.sql(found, "this"), generator.sql(found, "expression")
    if isinstance(found.this, exp.Array | exp.Split) or "ARRAY" in str(found.this.args.get("this")).upper():
        return f"{GOT}({value}, ({key}))"
    got = f"{GOT}({value}, CAST(({key}) AS VARCHAR))"
    around = found.parent
    of_json = isinstance(around, exp.Cast) and around.to.this.name in _OF_JSON
    return got if of_json or _is_shown(found) else f"{VARIANT_TEXT}({got}, '$')"


def _arrow(generator: Any, found: Any) -> str:
    """Write a path of DuckDB.

    Raises:
        UnsupportedError: a call has several paths.
    """
    from sqlglot.generators.duckdb import DuckDBGenerator

    if found.args.get("expressions"):
        raise UnsupportedError(
            f"JSON_EXTRACT with several paths of {generator.read_from} has no counterpart here: write one call for each"
        )
    usual = DuckDBGenerator.TRANSFORMS[type(found)]
    first = found
    while isinstance(first.this, type(found)):  # sqlglot writes a chain of arrows at once
        first = first.this
    first.set("this", json_of(generator, first.this))
    return str(usual(generator, found))


def subscript(generator: Any, found: Any) -> str:
    """Write `j['labels'][0]` of Snowflake, and a place in a list of Spark and BigQuery."""
    from sqlglot import exp

    if generator.read_from == "bigquery" and found.args.get("offset") is not None and not found.args.get("safe"):
        value, place = generator.sql(found, "this"), generator.sql(found.expressions[0])
        size = f"CASE WHEN {value} IS NOT NULL THEN coalesce(CAST(array_length({value}) AS BIGINT), 0) END"
        place = f"{OFFSET_PLACE}(CAST({place} AS BIGINT), {size}, {found.args['offset']})"
        if found.this.find(exp.ArrayAgg):  # DataFusion reads array_agg(a)[n] as nth_value(a, n), whose n is a constant
            return f"array_element({value}, {place})"
        return f"{value}[{place}]"
    keys: list[Step] = []
    inner = found
    while isinstance(inner, exp.Bracket) and len(inner.expressions) == 1:
        step = _key(inner.expressions[0])
        if step is None:
            break
        keys.insert(0, step)
        inner = inner.this
    reads = isinstance(inner, exp.Column | exp.JSONExtract | exp.GetExtract | exp.ParseJSON) or _can_mix(inner)
    if generator.read_from in SPARKS and len(found.expressions) == 1 and not _is_name(found.expressions[0]):
        return f"{SUBSCRIPT}({generator.sql(found, 'this')}, {generator.sql(found.expressions[0])})"
    if generator.read_from != "snowflake" or not keys or not reads:
        return str(generator.bracket_sql(found))
    before = list(_steps(inner.expression)) if isinstance(inner, exp.JSONExtract | exp.GetExtract) else []
    return _read(generator, found, inner.this if before else inner, [*before, *keys])


def _is_name(key: Any) -> bool:
    """Return whether a subscript is a name or a part of a list, and no place in a list."""
    from sqlglot import exp

    return isinstance(key, exp.Slice) or (isinstance(key, exp.Literal) and bool(key.is_string))


def _key(key: Any) -> Step | None:
    from sqlglot import exp

    if not isinstance(key, exp.Literal):
        return None
    return str(key.this) if key.is_string else int(key.this)


def _steps(path: Any) -> Sequence[Step]:
    """Return the steps of a path.

    Raises:
        UnsupportedError: the path has a wildcard or a filter.
    """
    from sqlglot import exp

    if isinstance(path, exp.Literal):
        return [str(path.this)] if path.is_string else [int(path.this)]
    steps: list[Step] = []
    for one in path.expressions if isinstance(path, exp.JSONPath) else [None]:
        if isinstance(one, exp.JSONPathRoot):
            continue
        step = one.this if isinstance(one, exp.JSONPathKey | exp.JSONPathSubscript) else None
        if not isinstance(step, str | int):
            raise UnsupportedError(
                "a path with a wildcard or a computed step has no counterpart: make rows of the list in FROM, and"
                " read each element"
            )
        steps.append(step)
    return steps


def _read(generator: Any, found: Any, value: Any, steps: Sequence[Step]) -> str:
    """Write the value at a path: as JSON where JSON is asked for, else as text, a number or a truth value."""
    from sqlglot import exp

    path = text_literal(written_path(tuple(steps)))
    json, text = (f"{name}({generator.sql(value)}, {path})" for name in (VARIANT_JSON, VARIANT_TEXT))
    around: Any = found.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    by_name = {vendor_call().__name__.lower(), "anonymous"}
    called = str(around.args["this"]).upper() if around is not None and around.key in by_name else ""
    if generator.read_from == "snowflake" and (called in _OF_VALUES or called.startswith(_OF_KINDS)):
        return f"{RAW}({generator.sql(value)}, {path})"
    if called in _OF_LISTS:
        return f"{ELEMENTS}({json})"
    if generator.read_from == "snowflake" and called in _ORDERING:
        raise _order_error(called, f"{called}(d:price::NUMBER, 0)")
    if generator.read_from == "snowflake" and _is_collected(around):
        return f"{RAW}({generator.sql(value)}, {path})"
    if isinstance(around, exp.Cast):
        return json if around.to.this.name in _OF_JSON else text
    if isinstance(
        around, (exp.Explode, exp.Posexplode, exp.Unnest, exp.ArraySize, exp.ArrayContains, exp.ArrayToString)
    ):
        return f"{ELEMENTS}({json})"
    if (written := _as_scalar(generator, around, text)) is not None:
        return written
    shown = generator.read_from == "snowflake" and _is_shown(found)
    return f"{RAW}({generator.sql(value)}, {path})" if shown else text


def whole_value(generator: Any, found: Any, json: str) -> str:
    """Write the value of PARSE_JSON of Snowflake: a plain text in casts and comparisons, one text to group by."""
    from sqlglot import exp

    around: Any = found.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    item = around.parent if isinstance(around, exp.Alias) else around
    if isinstance(item, exp.Group | exp.Distinct):
        return f"{SAME}({json})"
    if isinstance(item, exp.Select) and any(item.args.get(name) for name in ("group", "distinct")):
        return f"{SAME}({json})"
    plain = f"{PLAIN}({json})"
    if isinstance(around, exp.Cast):
        return json if around.to.this.name in _OF_JSON else plain
    if isinstance(around, exp.Binary | exp.Neg | exp.Between | exp.In) and not isinstance(around, exp.Is | exp.Dot):
        return _as_scalar(generator, around, plain) or json
    return json


def equal_values(generator: Any, found: Any) -> str:
    """Write `PARSE_JSON(a) = v` of Snowflake, where both sides are JSON, as a comparison of values, not of texts."""
    from sqlglot import exp

    sides = [found.this.unnest(), found.expression.unnest()]
    is_json = generator.read_from == "snowflake" and any(isinstance(one, exp.ParseJSON) for one in sides)
    if not is_json or not all(map(_can_be_json, sides)):
        return str(generator.binary(found, "=" if isinstance(found, exp.EQ) else "<>"))
    left, right = (generator.sql(exp.Cast(this=one.copy(), to=exp.DataType.build("VARIANT"))) for one in sides)
    return f"{SAME}({left}) {'=' if isinstance(found, exp.EQ) else '<>'} {SAME}({right})"


def _can_be_json(value: Any) -> bool:
    from sqlglot import exp

    if isinstance(value, exp.Cast):
        return value.to.this.name in _OF_JSON
    return isinstance(value, exp.Column | exp.Bracket | exp.ToVariant) or makes_json(value)


def _is_collected(around: Any) -> bool:
    """Return whether a value becomes an element of an array."""
    from sqlglot import exp

    while isinstance(around, exp.Distinct | exp.Order):
        around = around.parent
    transforms = (
        isinstance(around, exp.Lambda) and around.parent is not None and around.parent.name == "array_transform"
    )
    return transforms or isinstance(around, exp.Array | exp.ArrayAgg)


def _as_scalar(generator: Any, around: Any, text: str) -> str | None:
    """Return a number or a truth value where the operation around a path asks for one; None elsewhere.

    Raises:
        UnsupportedError: an aggregate would order values by their kinds.
    """
    from sqlglot import exp

    number, truth = f"TRY_CAST({text} AS DOUBLE)", f"TRY_CAST({text} AS BOOLEAN)"
    untyped = generator.read_from == "snowflake"
    match around:
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.Neg() | exp.Sum() | exp.Avg():
            return number
        case exp.Lambda() if around.parent is not None and around.parent.name == "array_filter":
            return truth
        case exp.Where() | exp.And() | exp.Or() | exp.Not() | exp.Join():
            return truth
        case exp.Is() if isinstance(around.expression, exp.Boolean):
            return truth
        case exp.Is() if untyped:  # null of JSON is not NULL in Snowflake
            return text.replace(VARIANT_TEXT, RAW, 1)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.Between() | exp.In():
            if untyped and isinstance(around, exp.LT | exp.LTE | exp.GT | exp.GTE) and _are_paths(around):
                raise _order_error("a comparison", "d:price::NUMBER > d:cost::NUMBER")
            return _compared(around, text, number, truth)
        case exp.Min() | exp.Max() if untyped:
            raise _order_error(around.key.upper(), "MAX(d:price::NUMBER)")
        case exp.Ordered() if untyped:
            return f"{number}{' DESC NULLS FIRST' if around.args.get('desc') else ' NULLS LAST'}, {text}"
        case _:
            return None


def _order_error(what: str, line: str) -> UnsupportedError:
    """Return the error of an operation that would order values by their kinds."""
    return UnsupportedError(
        f"{what} of a value without a type orders it by its kind: write a type after the path, as in {line}"
    )


def _are_paths(around: Any) -> bool:
    """Return whether both sides of a comparison are paths."""
    from sqlglot import exp

    return all(isinstance(one.unnest(), exp.JSONExtract | exp.GetExtract) for one in around.iter_expressions())


def _compared(around: Any, text: str, number: str, truth: str) -> str:
    """Return what a comparison reads: a number beside a number, and a truth value beside one."""
    from sqlglot import exp

    others = [one for one in around.iter_expressions() if not isinstance(one, exp.JSONExtract | exp.Bracket)]
    plain = [one.this if isinstance(one, exp.Neg) else one for one in others]
    if any(isinstance(one, exp.Boolean) for one in plain):
        return truth
    numbers = [one for one in plain if isinstance(one, exp.Literal) and not one.is_string]
    return number if numbers or any(isinstance(one, exp.Binary) for one in plain) else text


def _is_shown(found: Any) -> bool:
    """Return whether a path is an item of the statement's own SELECT, which shows a value as JSON."""
    from sqlglot import exp

    item = found.parent if isinstance(found.parent, exp.Alias) else found
    select: Any = item.parent
    shown = isinstance(select, exp.Select) and item.arg_key == "expressions" and select.parent is None
    return shown and not any(select.args.get(name) for name in ("group", "distinct"))
