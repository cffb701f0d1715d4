"""Write the operators and values of DuckDB that the server has in another form."""

import re
from collections.abc import Mapping
from typing import Any, Final

from flightllm.common.names import IN_PLACE
from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.duckdb_values import as_joined, json_of
from flightllm.dialect.generator.forms import as_operand
from flightllm.dialect.generator.kept import refused
from flightllm.dialect.generator.variants import subscript
from flightllm.dialect.generator.written import SPARKS, Written
from flightllm.errors import UnsupportedError

_DUCKDB: Final = "duckdb"
_BYTE: Final = re.compile(r"\\x([0-9A-Fa-f]{2})")
_OF_TYPES: Final = {
    "TINYINT": "Int8",
    "SMALLINT": "Int16",
    "INT": "Int32",
    "BIGINT": "Int64",
    "UTINYINT": "UInt8",
    "USMALLINT": "UInt16",
    "UINT": "UInt32",
    "UBIGINT": "UInt64",
    "FLOAT": "Float32",
    "DOUBLE": "Float64",
    "BOOLEAN": "Boolean",
    "TEXT": "Utf8",
    "VARCHAR": "Utf8",
    "DATE": "Date32",
    "TIMESTAMP": "Timestamp(ns)",
}


def duckdb_forms() -> Mapping[type, Written]:
    """Return the function that writes an expression, by sqlglot's class; texts of other dialects are as before."""
    from sqlglot import exp

    return {
        exp.Bracket: _bracket,
        exp.DPipe: _joined,
        exp.Dot: _method,
        exp.Glob: _glob,
        exp.HexString: _bytes,
        exp.IgnoreNulls: _ignoring,
        exp.Map: _map,
        exp.Star: _star,
        exp.ToMap: _entries,
    }


def _bracket(generator: Any, found: Any) -> str:
    """Write a value at a place; the place in a JSON value is a path, whose first element is 0."""
    from sqlglot import exp

    value = found.this.unnest()
    if generator.read_from != _DUCKDB:
        return subscript(generator, found)
    if not _is_json(value):
        return str(generator.bracket_sql(found))
    place = found.expressions[0]
    if isinstance(place, exp.Literal) and place.is_string:
        step = '."' + place.name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    else:
        number = place.this if isinstance(place, exp.Neg) else place
        if len(found.expressions) != 1 or not (isinstance(number, exp.Literal) and number.name.isdecimal()):
            raise UnsupportedError("a place in a JSON value must be a literal: write json_extract(j, '$[' || i || ']')")
        shift = 0 if isinstance(value, exp.Cast) else 1  # the parser counts from 0 unless it knows the type
        at = int(number.name) * (-1 if isinstance(place, exp.Neg) else 1) + shift
        if at < 0:
            raise UnsupportedError("a place from the end of a JSON value has no counterpart: write the place from 0")
        step = f"[{at}]"
    return str(generator.func("json_extract", json_of(generator, value), exp.Literal.string(f"${step}")))


def _is_json(value: Any) -> bool:
    """Return whether a value is surely JSON: a cast, or a part of JSON."""
    from sqlglot import exp

    made: Any = vendor_call()
    if isinstance(value, exp.Bracket):
        return _is_json(value.this.unnest())
    called = isinstance(value, made) and str(value.this) in {"JSON_EXTRACT", "JSON_EXTRACT_PATH"}
    cast = isinstance(value, exp.Cast) and value.to.this == exp.DType.JSON
    return called or cast or isinstance(value, exp.JSONExtract)


def _joined(generator: Any, found: Any) -> str:
    """Write a join of texts or lists, which is NULL with NULL."""
    from sqlglot import exp

    if generator.read_from in SPARKS:
        return _joined_in_spark(generator, found)
    if generator.read_from in {"snowflake", "bigquery"}:
        return " || ".join(as_operand(generator, one, str(generator.sql(one))) for one in _chained(found))
    if generator.read_from != _DUCKDB:
        return str(generator.dpipe_sql(found))
    if isinstance(found.expression, exp.Null) or isinstance(found.this, exp.Null):  # a list and NULL are NULL
        known = found.this if isinstance(found.expression, exp.Null) else found.expression
        return f"(CASE WHEN false THEN {as_joined(generator, known)} END)"
    operands = _chained(found)
    if any(isinstance(one, exp.Null) for one in operands):
        return f"{as_joined(generator, found.this)} || {as_joined(generator, found.expression)}"
    return " || ".join(as_joined(generator, one) for one in operands)


def _chained(found: Any) -> list[Any]:
    """Return the operands of a chain of `||`; one call for each operator would pass Python's recursion limit."""
    operands = list[Any]()
    while type(found.this) is type(found):
        operands.append(found.expression)
        found = found.this
    return [found.this, *reversed([*operands, found.expression])]


def _bytes(generator: Any, found: Any) -> str:
    """Write `x'1F'` as bytes; a half byte begins with zero."""
    if found.args.get("is_integer"):
        return str(generator.hexstring_sql(found))
    digits = str(found.this)
    return f"decode('{'0' * (len(digits) % 2)}{digits}', 'hex')"


def _joined_in_spark(generator: Any, found: Any) -> str:
    """Write a join; DataFusion joins the other lists where one is NULL."""
    from sqlglot import exp

    text = str(generator.dpipe_sql(found))
    parts = list(found.flatten())
    if isinstance(found.parent, exp.DPipe) or not any(map(_is_list, parts)):
        return text
    nulls = " OR ".join(f"{generator.sql(one)} IS NULL" for one in parts)
    return f"(CASE WHEN {nulls} THEN NULL ELSE {text} END)"


def _is_list(value: Any) -> bool:
    """Return whether a value is surely a list: a literal, or a cast to a list."""
    from sqlglot import exp

    return isinstance(value, exp.Array) or (isinstance(value, exp.Cast) and value.to.this == exp.DType.ARRAY)


def _method(generator: Any, found: Any) -> str:
    """Write `s.upper()` as `upper(s)`."""
    from sqlglot import exp

    call = found.expression
    made: Any = vendor_call()
    is_call = isinstance(call, exp.Anonymous | made)
    schema = isinstance(found.this, exp.Dot) and isinstance(found.this.expression, exp.Identifier)
    if generator.read_from != _DUCKDB or not is_call or schema:
        return str(generator.dot_sql(found))
    name = str(call.this)
    value = exp.column(found.this.copy()) if isinstance(found.this, exp.Identifier) else found.this.copy()
    args = [value, *(one.copy() for one in call.expressions)]
    known = name.upper() in generator.table
    return str(
        generator.sql((made if known else exp.Anonymous)(this=name.upper() if known else name, expressions=args))
    )


def _star(generator: Any, found: Any) -> str:
    """Write a star; one over USING or NATURAL has a mark, because DuckDB keeps the places of merged columns."""
    from sqlglot import exp

    select = found.parent
    if generator.read_from != _DUCKDB or not (isinstance(select, exp.Select) and _merges(select)):
        return str(generator.star_sql(found))
    marked = found.copy()
    marked.set("except_", [*(found.args.get("except_") or []), exp.to_identifier(IN_PLACE, quoted=True)])
    return str(generator.star_sql(marked))


def _merges(select: Any) -> bool:
    """Return whether a join of a SELECT merges columns; tables in parentheses have joins of their own."""
    from sqlglot import exp

    joins = (join for join in select.find_all(exp.Join) if join.parent_select is select)
    whole = (join for join in joins if join.kind not in {"SEMI", "ANTI"})
    return any(join.args.get("using") or join.args.get("method") == "NATURAL" for join in whole)


def _ignoring(generator: Any, found: Any) -> str:
    """Write IGNORE NULLS after a call by its dialect's own name."""
    if generator.read_from not in (_DUCKDB, *SPARKS) or not isinstance(found.this, vendor_call()):
        return str(generator.ignorenulls_sql(found))
    return f"{generator.sql(found, 'this')} IGNORE NULLS"


def _glob(generator: Any, found: Any) -> str:
    """Write a pattern of files as a regular expression.

    Raises:
        UnsupportedError: the pattern is computed.
    """
    from sqlglot import exp

    if generator.read_from != _DUCKDB:
        return str(generator.glob_sql(found))
    pattern = found.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or set("[\\") & set(pattern.name):
        raise UnsupportedError("the pattern of GLOB must be a text literal with * and ?: write a LIKE 'b%' for others")
    text = "".join({"*": "(?s:.*)", "?": "(?s:.)"}.get(letter, re.escape(letter)) for letter in pattern.name)
    written = exp.Literal.string(f"^(?:{text})$")
    return f"regexp_like({generator.sql(found, 'this')}, {generator.sql(written)})"


def _map(generator: Any, found: Any) -> str:
    from sqlglot import exp

    if generator.read_from != _DUCKDB:
        return str(refused()[exp.Map](generator, found))
    keys, values = (found.args.get(name) for name in ("keys", "values"))
    return f"map({generator.sql(keys) or '[]'}, {generator.sql(values) or '[]'})"


def _entries(generator: Any, found: Any) -> str:
    from sqlglot import exp

    if generator.read_from != _DUCKDB:
        return str(refused()[exp.ToMap](generator, found))
    if isinstance(found.this, exp.Bracket):  # sqlglot reads `MAP {'a': 1}['a']` as a map of a value at a place
        place = found.this.copy()
        inner = place
        while isinstance(inner.this, exp.Bracket):
            inner = inner.this
        inner.set("this", exp.ToMap(this=inner.this.copy()))
        return str(generator.sql(place))
    named = found.this.expressions
    if not named:
        raise UnsupportedError("an empty map has no types here: write NULL, or a map with a key, as in MAP {'a': 1}")
    keys = ", ".join(generator.sql(one, "this") for one in named)
    values = ", ".join(generator.sql(one, "expression") for one in named)
    return f"map([{keys}], [{values}])"


def nested_cast(generator: Any, found: Any) -> str | None:
    """Write a cast to a struct, or to a list of structs; None for another type.

    Raises:
        UnsupportedError: the type has no counterpart.
    """
    from sqlglot import exp

    if generator.read_from == _DUCKDB and found.to.this in {exp.DType.VARBINARY, exp.DType.BINARY}:
        return _bytes_of_text(found.this) if isinstance(found.this, exp.Literal) and found.this.is_string else None
    if generator.read_from == _DUCKDB and found.to.this == exp.DType.BIT:
        raise UnsupportedError("BIT of duckdb has no counterpart here: write the bits of a number by & and >>")

    holds = any(one.this == exp.DType.STRUCT for one in found.to.find_all(exp.DataType))
    if generator.read_from != _DUCKDB or not holds:
        return None
    return f"arrow_cast({generator.sql(found, 'this')}, '{_arrow_type(found.to)}')"


def _bytes_of_text(literal: Any) -> str:
    r"""Write the bytes of a text literal, in which `\xAA` is a byte.

    Raises:
        UnsupportedError: a backslash begins no byte.
    """
    text = str(literal.this)
    plain = _BYTE.sub("", text)
    if "\\" in plain or not plain.isascii():
        raise UnsupportedError(
            r"the text of a BLOB has a wrong form: write each other byte as \x and two hexadecimal digits, as in '\xAA'"
        )
    parts = _BYTE.split(text)
    digits = "".join(one if place % 2 else one.encode().hex() for place, one in enumerate(parts))
    return f"CAST(X'{digits}' AS BYTEA)"


def _arrow_type(type_: Any) -> str:
    """Return the name of a type as DataFusion's `arrow_cast` reads it.

    Raises:
        UnsupportedError: a part of the type has no counterpart.
    """
    kind, inner = type_.this.name, type_.expressions
    if kind in {"ARRAY", "LIST"} and len(inner) == 1:
        return f"List({_arrow_type(inner[0])})"
    if kind == "STRUCT":
        return "Struct(" + ", ".join(f'"{one.name}": {_arrow_type(one.args["kind"])}' for one in inner) + ")"
    if kind == "DECIMAL":
        sizes = [one.name for one in inner] or ["18", "3"]
        return f"Decimal128({sizes[0]}, {sizes[1] if len(sizes) > 1 else 0})"
    if kind not in _OF_TYPES:
        raise UnsupportedError(f"a cast to a struct with {kind} has no counterpart: write VARCHAR, or cast the part")
    return _OF_TYPES[kind]
