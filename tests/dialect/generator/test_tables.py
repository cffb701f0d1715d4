"""The tables of functions write only functions that the server has."""

import re
from collections.abc import Iterator

import pytest
from sqlglot import exp

from flightllm.dialect.generator import ours
from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.ours import write
from flightllm.dialect.generator.reading import read
from flightllm.dialect.generator.tables import table_of
from flightllm.errors import UnsupportedError
from flightllm.functions import FunctionRegistry
from flightllm.sql.passes.typed_calls import TYPED
from flightllm.sql.passes.variants import JOINED, LISTED, MIXED, QUOTED, VALUE

_SYNTAX = frozenset({"cast", "try_cast", "in", "when", "then", "else", "case", "or", "and", "null", "is", "not"})
_SYNTAX |= frozenset({"int", "from", "interval", "by", "where", "filter", "decimal", "timestamp"})


@pytest.fixture(scope="module")
def written(known: frozenset[str]) -> frozenset[str]:
    """Return the functions that the server has, those that its passes rewrite, and the model's."""
    own = {LISTED, QUOTED, VALUE, MIXED, JOINED, *TYPED}
    own |= {"strptime", "percentile_disc"}  # a rule and a pass write these
    own |= {"array_filter", "array_transform"}  # DataFusion lists no functions that take a lambda
    return known | own | {name for function in FunctionRegistry.load() for name in function.names}


def _calls(name: str) -> Iterator[exp.Expression]:
    """Yield a call with each number of arguments: columns, and literals where a function needs them."""
    column = [exp.column(one) for one in ("a", "b", "c", "d", "e", "f", "g")]
    unit, number, text = exp.Literal.string("day"), exp.Literal.number(2), exp.Literal.string("%Y-%m-%d")
    for count in range(8):
        for given in (column, [unit, *column], [column[0], unit, number], [column[0], number, unit], [text, *column]):
            yield vendor_call()(this=name, expressions=[one.copy() for one in given[:count]])


def test_missing_arguments() -> None:
    """An argument that sqlglot's writer misses is a user's error; a fault of our own rule stays one."""
    with pytest.raises(UnsupportedError, match="DATETIME of spark has no counterpart with these arguments"):
        write(read("SELECT DATETIME('2024-01-01')", "spark")[0], "spark")
    generator = ours._ours().generator()
    generator.left, generator.read_from, generator.table = 100, "spark", {"BAD": lambda _: {"": ""}["no such key"]}
    with pytest.raises(KeyError, match="no such key"):
        generator.generate(exp.select(vendor_call()(this="BAD", expressions=[])))


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "databricks"])
def test_functions_exist(dialect: str, written: frozenset[str]) -> None:
    """Each text of a table calls functions of the server's own list, and each function has a text or advice."""
    for name in table_of(dialect):
        said = False
        for call in _calls(name):
            try:
                text = re.sub(r"'(?:[^']|'')*'", "''", write(exp.select(call), dialect))
            except UnsupportedError as error:
                said = said or str(error).startswith(name)
                continue
            said = True
            called = {one.lower() for one in re.findall(r"([A-Za-z_]\w*)\(", text)} - _SYNTAX
            assert called <= written, (name, text)
        assert said, name
