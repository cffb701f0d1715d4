"""The generator writes only functions that the server has, and refuses the others in the words of their dialect."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError

from flightllm.dialect.functions import NAMES as RULES
from flightllm.dialect.generator.ours import write
from flightllm.dialect.json_operators import NAMES as JSON_FUNCTIONS
from flightllm.dialect.transpiling import DIALECTS, transpile
from flightllm.errors import FlightLLMError, UnsupportedError
from flightllm.sql.passes.variants import JOINED, MIXED
from tests.dialect.places import EMPTY

_CLASSES = re.compile(r"sqlglot|\b[A-Z](?:_[A-Z])+_|TS_OR_DS")
"""Names of sqlglot's classes."""
_OF_TEXT = (
    "Invalid expression",
    "a part is missing",
    "Expect",
    "a path with a wildcard",
    "does not support",
    "must be a literal: write GET",
)
"""Errors that have a position, or that are about an argument."""
_WORDS = frozenset({"and", "array", "as", "between", "by", "case", "cast", "current_date", "else"})
_WORDS |= frozenset({"exists", "extract", "filter", "from", "group", "in", "int", "interval", "is"})
_WORDS |= frozenset({"not", "null", "or", "order", "over", "overlay", "position", "select", "then"})
_WORDS |= frozenset({"timestamp", "trim", "try_cast", "varchar", "when", "where", "within"})
"""The words of SQL before an opening bracket."""
_REWRITTEN = frozenset([*RULES, *JSON_FUNCTIONS, JOINED, MIXED, "mode", "unnest", "named_struct", "typeof"])
"""Functions that rules and passes rewrite."""


def _nodes(one: Any) -> Iterator[exp.Expression]:
    """Yield an expression with the arguments that it needs, with each other argument, and with all of them."""
    needed = [key for key, is_needed in one.arg_types.items() if is_needed]
    others = [key for key in one.arg_types if key not in needed]
    for more in ([], *([key] for key in others), others):
        yield one(**{key: _value(one, key, place) for place, key in enumerate([*needed, *more])})


def _value(one: type, key: str, place: int) -> Any:
    if key == "to":
        return exp.DataType.build("INT")
    if key == "unit" or (one is exp.Extract and key == "this"):
        return exp.var("DAY")
    if key in {"expressions", "ifs"}:
        return [exp.column("x"), exp.column("y")] if key == "expressions" else [exp.If(this="x", true="y")]
    return exp.column("abcdefghijklmnop"[place])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_written_functions_exist(dialect: str, known: frozenset[str]) -> None:
    """Each function of sqlglot calls functions of the server's own list, or is refused."""
    wrong = list[str]()
    for one in set(exp.ALL_FUNCTIONS) - {exp.Anonymous}:
        for node in _nodes(one):
            try:
                text = write(exp.select(node), dialect)
            except UnsupportedError:
                continue
            except (AttributeError, KeyError, TypeError, ValueError, ParseError):
                continue  # no text has such an argument
            called = re.findall(r"([A-Za-z_]\w*)\(", re.sub(r"'(?:[^']|'')*'", "''", text))
            if strange := {name.lower() for name in called} - _WORDS - known - _REWRITTEN:
                wrong.append(f"{one.__name__}: {sorted(strange)} in {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("dialect", "text", "name"),
    [
        ("snowflake", "SELECT CURRENT_ROLE() AS x", "CURRENT_ROLE"),
        ("snowflake", "SELECT APPROX_TOP_K(a) AS x FROM t", "APPROX_TOP_K"),
        ("bigquery", "SELECT NET.HOST(a) AS x FROM t", "HOST"),
        ("bigquery", "SELECT FARM_FINGERPRINT(a) AS x FROM t", "FARM_FINGERPRINT"),
        ("databricks", "SELECT str_to_map(a, b) AS x FROM t", "STR_TO_MAP"),
        ("spark", "SELECT st_point(a, b) AS x FROM t", "ST_POINT"),
        ("snowflake", "SELECT JSON_OBJECT(a, b) AS x FROM t", "JSON_OBJECT"),
        ("bigquery", "SELECT UPPER(NET.HOST(a)) AS x FROM t", "NET.HOST"),
    ],
)
def test_refuses(dialect: str, text: str, name: str) -> None:
    """A function without a text is an error in the words of its dialect."""
    with pytest.raises(UnsupportedError, match=f"{name} of {dialect} has no counterpart here: write "):
        transpile(text, dialect, EMPTY)


@pytest.mark.parametrize(
    ("dialect", "text", "said"),
    [
        ("databricks", "UPPER(MAP(a))", "MAP of databricks has no counterpart here"),
        ("snowflake", "TRY_CONVERT(a)", "an argument of TRY_CONVERT is missing or wrong"),
        ("bigquery", "UPPER(LAST_VALUE(a, b, c))", "LAST_VALUE takes at most 1 of the 3 arguments"),
        ("bigquery", "DATE_ADD(a, b)", "at 1:8: DATE_ADD: INTERVAL expression expected"),
        ("bigquery", "DATE_ADD(a)", "an argument of DATE_ADD is missing or wrong"),
        ("bigquery", "FORMAT_DATE(a)", "FORMAT_DATE of bigquery has no counterpart here"),
        ("spark", "DATETIME(a)", "DATETIME of spark has no counterpart with these arguments"),
    ],
)
def test_missing_arguments(dialect: str, text: str, said: str) -> None:
    """A call that lacks an argument is an error with the name of its function."""
    with pytest.raises(FlightLLMError, match=said):
        transpile(f"SELECT {text} AS x FROM t", dialect, EMPTY)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_errors_name_the_function_of_the_text(dialect: str) -> None:
    """Each function that sqlglot knows works, or its error has the name in the text, and no name of a class."""
    parser: Any = Dialect.get_or_raise(dialect).parser_class
    names = {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS}
    wrong = []
    for name in sorted(one for one in names if not _CLASSES.match(one)):
        for args in ("a", "a, b", "a, b, c, d"):
            try:
                transpile(f"SELECT {name}({args}) AS x FROM t", dialect, EMPTY)
            except FlightLLMError as error:
                said = str(error)
                if _CLASSES.search(said) or (name not in said.upper() and not any(one in said for one in _OF_TEXT)):
                    wrong.append(f"{name}({args}): {said}")
    assert not wrong, "\n".join(wrong)


def test_refuses_new_functions() -> None:
    """A function that a new sqlglot brings is refused until somebody says how it is written."""
    with pytest.raises(UnsupportedError, match="HOST of snowflake has no counterpart"):
        write(exp.select(exp.Host(this=exp.column("a"))), "snowflake")


@pytest.mark.parametrize("name", ["search", "len", "trim"])
def test_leaves_own_functions_alone(name: str) -> None:
    """A function in the configuration's folders stays as it is, though the dialect has one of its name."""
    own = replace(EMPTY, own_functions=frozenset({name}))
    assert transpile(f"SELECT {name}(a, b, 3, 4) AS x FROM t", "snowflake", own).text == (
        f"SELECT {name.upper()}(a, b, 3, 4) AS x FROM t"
    )
