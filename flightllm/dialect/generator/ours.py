"""The dialect in which sqlglot writes for DataFusion."""

from functools import cache
from typing import Any

from flightllm.dialect.generator.aggregates import aggregates
from flightllm.dialect.generator.calls import Table, TooLongError, vendor_call, write_call
from flightllm.dialect.generator.dates import dates
from flightllm.dialect.generator.duckdb_forms import duckdb_forms
from flightllm.dialect.generator.forms import own_cast
from flightllm.dialect.generator.json_texts import json_texts
from flightllm.dialect.generator.json_values import json_values
from flightllm.dialect.generator.kept import refused
from flightllm.dialect.generator.lists import lists
from flightllm.dialect.generator.numbers import numbers
from flightllm.dialect.generator.random_values import checked_once, random_calls
from flightllm.dialect.generator.reading import written_name
from flightllm.dialect.generator.tables import table_of
from flightllm.dialect.generator.texts import texts
from flightllm.dialect.generator.times import times
from flightllm.dialect.generator.variants import variants
from flightllm.errors import UnsupportedError

_MOST_PARTS, _MOST_COPIES = 50_000, 20
"""The most parts that the generator can write for a short text, and the parts for each part of a long text."""


_CUTTING = ("snowflake", "postgres")
"""Dialects whose cast to a text of some length cuts longer texts."""


def write(tree: Any, dialect: str) -> str:
    """Return a tree that was read in a dialect as a text for DataFusion.

    Raises:
        TooLongError: the text repeats its parts too often.
        UnsupportedError: a part has no counterpart.
    """
    from sqlglot import ErrorLevel

    generator = _ours().generator(unsupported_level=ErrorLevel.RAISE)
    generator.left = _MOST_PARTS + _MOST_COPIES * sum(1 for _ in tree.walk())
    generator.read_from = dialect
    generator.has_random = next(random_calls(tree), None) is not None
    generator.random_texts = {}
    generator.table = table_of(dialect)
    return str(generator.generate(tree))


def _refuse_missing(part: Any, dialect: str, error: Exception) -> None:
    """Refuse a call that sqlglot writes without a look at the number of its arguments.

    Raises:
        UnsupportedError: an argument is missing: the error comes from sqlglot's code, and not from a rule of ours.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is not None and str(last.tb_frame.f_globals.get("__name__")).startswith("sqlglot"):
        raise UnsupportedError(
            f"{written_name(part)} of {dialect} has no counterpart with these arguments: write all of its arguments"
        ) from error


def _cut_text(generator: Any, found: Any, prefix: str) -> str | None:
    """Return a cast to a text of some length as its dialect means it, or None for another cast.

    Raises:
        UnsupportedError: BigQuery would raise an error for a text over the length.
    """
    from sqlglot import exp

    dialect, length = generator.read_from, next((one.this for one in found.to.expressions), None)
    if length is None or found.to.this not in exp.DataType.TEXT_TYPES:
        return None
    value = generator.sql(found, "this")
    if dialect == "bigquery":
        raise UnsupportedError(
            f"a cast to STRING({generator.sql(length)}) of bigquery has no counterpart here:"
            f" write CAST(SUBSTR(value, 1, {generator.sql(length)}) AS STRING)"
        )
    whole = f"{prefix}CAST({value} AS VARCHAR)"
    return f"left({whole}, {generator.sql(length)})" if dialect in _CUTTING else whole


@cache
def _ours() -> Any:
    """Return the dialect, which is imported with the first text that needs it."""
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.generators.duckdb import DuckDBGenerator

    class FlightLLM(DuckDB):
        """DuckDB's syntax, with PostgreSQL's order of NULLs and division of integers."""

        NULL_ORDERING = "nulls_are_large"
        TYPED_DIVISION = True
        SAFE_DIVISION = False

        class Generator(DuckDBGenerator):
            """Writes functions by DataFusion's names, and at most `left` parts of a text read in `read_from`."""

            left = 0
            has_random = False
            random_texts: dict[int, tuple[Any, str]]
            read_from = ""
            table: Table = {}  # noqa: RUF012 - set for each text

            TRANSFORMS = {  # noqa: RUF012 - as sqlglot declares it
                **DuckDBGenerator.TRANSFORMS,
                **refused(),
                **aggregates(),
                **dates(),
                **lists(),
                **numbers(),
                **texts(),
                **times(),
                **json_texts(),
                **json_values(),
                **variants(),
                **duckdb_forms(),
                vendor_call(): write_call,
            }

            def unsupported(self, message: str) -> None:
                """Refuse a part in the words of its dialect."""
                said = message.split(" in DuckDB", maxsplit=1)[0].replace("DuckDB", "this server")
                raise UnsupportedError(
                    f"a part of the text in {self.read_from} has no counterpart here: {said}; write it in the default"
                    " dialect, after RESET flightllm.dialect"
                )

            def cast_sql(self, expression: Any, safe_prefix: str | None = None) -> str:
                """Write a cast; a length of a text cuts the text in the dialects that cut it."""
                first = own_cast(self, expression, safe_prefix or "") or _cut_text(self, expression, safe_prefix or "")
                return first or _vector(self, expression) or str(super().cast_sql(expression, safe_prefix=safe_prefix))

            def withingroup_sql(self, expression: Any) -> str:
                """Write an aggregate over an order; a call by its dialect's own name keeps its order after it."""
                if not isinstance(expression.this, vendor_call()):
                    return str(super().withingroup_sql(expression))
                order = self.sql(expression, "expression").strip()
                return f"{self.sql(expression, 'this')} WITHIN GROUP ({order})"

            def sql(self, *args: Any, **options: Any) -> str:
                """Write one part, and count it; no text repeats a random value, whichever rule writes it."""
                self.left -= 1
                if self.left < 0:
                    raise TooLongError
                try:
                    text = str(super().sql(*args, **options))
                except (AttributeError, IndexError, KeyError, TypeError) as error:
                    _refuse_missing(args[0], self.read_from, error)
                    raise
                return checked_once(self, args[0], text) if self.has_random and len(args) == 1 else text

    return FlightLLM()


def _vector(generator: Any, cast: Any) -> str:
    """Write `[1, 2]::VECTOR(FLOAT, 2)` as a list of DOUBLE, and an embedding as it is; return "" for another type.

    Raises:
        UnsupportedError: the value is another one, or the list has another length.
    """
    from sqlglot import exp

    if cast.to.this != exp.DataType.Type.VECTOR:
        return ""
    value, wanted = cast.this, cast.to.expressions[-1:]
    if isinstance(value, exp.Array) and [str(len(value.expressions))] == [one.name for one in wanted]:
        return f"CAST({generator.sql(value)} AS DOUBLE[])"
    names = [value.name, *type(value).sql_names()] if isinstance(value, exp.Func) else []
    if any("embed" in str(name).lower() for name in names):
        return str(generator.sql(value))
    raise UnsupportedError(
        f"a cast to a vector of {generator.read_from} has no counterpart here: write a list of this many"
        " numbers, or ai_embed(text)"
    )
