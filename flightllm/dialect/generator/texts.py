"""Write functions over texts and patterns."""

from collections.abc import Mapping
from typing import Any, Final

from flightllm.common.array_texts import array_items
from flightllm.dialect.generator.calls import Call
from flightllm.dialect.generator.forms import substring
from flightllm.dialect.generator.written import Written
from flightllm.errors import UnsupportedError


def texts() -> Mapping[type, Written]:
    """Return the function that writes an expression over texts, by sqlglot's class."""
    from sqlglot import exp

    return {
        exp.RegexpExtract: _extracted,
        exp.RegexpILike: lambda generator, found: generator.func("REGEXP_LIKE", found.this, found.expression, "'i'"),
        exp.RegexpLike: _matches,
        exp.Escape: _escaped,
        exp.ILike: _is_like,
        exp.Like: _is_like,
        exp.SimilarTo: _is_similar,
        exp.Substring: _part,
        exp.ToChar: lambda generator, found: generator.func("TO_CHAR", found.this, found.args.get("format")),
    }


def _part(generator: Any, found: Any) -> str:
    """Write a part of a text, whose start can be negative in some dialects, or be a pattern in PostgreSQL.

    Raises:
        UnsupportedError: a pattern has an escape sign, so it is one of SIMILAR TO.
    """
    from sqlglot import exp

    args = [one for one in (found.this, found.args.get("start"), found.args.get("length")) if one is not None]
    if generator.read_from == "postgres" and any(one.is_string for one in args[2:]):
        raise UnsupportedError(
            "substring(text from pattern for escape) has no counterpart: write a regular expression, as in"
            " substring('foobar' from 'o(.)b')"
        )
    if generator.read_from == "postgres" and len(args) > 1 and args[1].is_string:
        return str(generator.func("array_element", exp.func("regexp_match", *args[:2]), exp.Literal.number(1)))
    if generator.read_from != "postgres":
        return substring(Call(generator, generator.read_from, "SUBSTRING", args))
    return str(generator.func("SUBSTRING", *args))


def _extracted(generator: Any, found: Any) -> str:
    return str(generator.func("REGEXP_EXTRACT", found.this, found.expression, found.args.get("group")))


def _matches(generator: Any, found: Any) -> str:
    text, pattern, flag = found.this, generator.sql(found, "expression"), found.args.get("flag")
    if found.args.get("full_match"):
        pattern = f"'^(?:' || ({pattern}) || ')$'"
    return str(generator.func("REGEXP_LIKE", text, pattern, flag))


_WITHOUT_ESCAPE: Final = ("duckdb", "snowflake")
"""Dialects in whose patterns of LIKE a backslash stands for itself."""


def _is_like(generator: Any, found: Any) -> str:
    """Write LIKE; a backslash of a pattern stands for itself in some dialects."""
    from sqlglot import exp

    usual = str(generator.ilike_sql(found) if isinstance(found, exp.ILike) else generator.like_sql(found))
    pattern = found.expression
    plain = isinstance(pattern, exp.Literal) and "\\" not in pattern.name
    several = isinstance(pattern, exp.Any | exp.All)
    if several and isinstance(pattern.this.unnest(), exp.Array):
        return _like_list(generator, found)
    if several and generator.read_from == "postgres" and not isinstance(pattern.this.unnest(), exp.Tuple):
        return _like_list(generator, _listed(found))
    if generator.read_from not in _WITHOUT_ESCAPE or plain or several or isinstance(found.parent, exp.Escape):
        return usual
    return f"{usual} ESCAPE ''"


def _listed(found: Any) -> Any:
    """Return LIKE ANY with the items of `'{a,b}'`, `'{a,b}'::text[]` or `ARRAY['a']::text[]` as an array.

    Raises:
        UnsupportedError: the patterns are not a literal.
    """
    from sqlglot import exp

    made = found.copy()
    given = made.expression.this.unnest()
    inner = given.this.unnest() if isinstance(given, exp.Cast) else given
    if isinstance(inner, exp.Literal) and inner.is_string:
        try:
            items = array_items(inner.name)
        except ValueError as error:
            raise UnsupportedError(
                f"{inner.name[:60]!r} after LIKE ANY cannot be read as a list: write x LIKE ANY (ARRAY['a%', 'b%'])"
            ) from error
        inner = exp.Array(expressions=[exp.null() if one is None else exp.Literal.string(str(one)) for one in items])
    if not isinstance(inner, exp.Array) or not inner.expressions:
        word = "any" if isinstance(made.expression, exp.Any) else "all"
        raise UnsupportedError(
            f"the patterns after LIKE must be written out: write x LIKE {word.upper()} (ARRAY['a%', 'b%']), or"
            f" {word}_match(list, p -> x LIKE p)"
        )
    made.expression.set("this", exp.paren(inner.copy()))
    return made


def _escaped(generator: Any, found: Any) -> str:
    """Write ESCAPE after a pattern.

    Raises:
        UnsupportedError: a list of patterns is before it.
    """
    from sqlglot import exp

    pattern = found.this.args.get("expression")
    if isinstance(pattern, exp.Any | exp.All) and isinstance(pattern.this.unnest(), exp.Array):
        raise UnsupportedError("ESCAPE after a list of patterns has no counterpart: write x LIKE a ESCAPE '!' OR …")
    return str(generator.escape_sql(found))


def _like_list(generator: Any, found: Any) -> str:
    """Write `x LIKE ANY (ARRAY[a, b])` as `x LIKE ANY (a, b)`, and ALL by its opposite."""
    from sqlglot import exp

    patterns = list[str]()
    for one in found.expression.this.unnest().expressions:
        plain = generator.read_from not in _WITHOUT_ESCAPE or (isinstance(one, exp.Literal) and "\\" not in one.name)
        text = generator.sql(one)
        patterns.append(text if plain else f"replace({text}, '\\', '\\\\')")
    negated = bool(found.args.get("negate"))
    every = isinstance(found.expression, exp.All)
    operator = "ILIKE" if isinstance(found, exp.ILike) else "LIKE"
    words = f"NOT {operator}" if negated != every else operator
    compared = f"({generator.sql(found, 'this')} {words} ANY ({', '.join(patterns)}))"
    return f"(NOT {compared})" if every else compared


def _is_similar(generator: Any, found: Any) -> str:
    """Write SIMILAR TO, whose pattern is a regular expression in DuckDB."""
    if generator.read_from != "duckdb":
        return str(generator.binary(found, "SIMILAR TO"))
    return f"regexp_like({generator.sql(found, 'this')}, '^(?:' || ({generator.sql(found, 'expression')}) || ')$')"
