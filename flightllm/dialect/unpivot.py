"""Rewrite UNPIVOT, which makes one row from each of some columns."""

from collections.abc import Iterator, Sequence

from flightllm.common.names import quoted
from flightllm.dialect.factors import (
    check_numbered,
    factor_before,
    listed,
    read_clauses,
    split,
    without_alias,
)
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.sql.literals import text_literal
from flightllm.sql.names import identifier
from flightllm.sql.tokens import position
from flightllm.sql.unpivot_types import typed_alike

_WRITE = "write t UNPIVOT (value FOR name IN (a, b)), or UNPIVOT t ON a, b INTO NAME name VALUE value"


def unpivot(source: Source) -> Iterator[Edit]:
    """Rewrite `t UNPIVOT (v FOR n IN (a, b))` as a query with `unnest(['a', 'b']) AS n, unnest([a, b]) AS v`.

    Rows in which v is NULL are left out, unless the statement says INCLUDE NULLS.

    Raises:
        SqlError: a part of the UNPIVOT is missing.
    """
    for index, token in enumerate(source.tokens):
        if token.is_word("unpivot"):
            found = _statement(source, index) or _factor(source, index)
            if found is not None:
                yield found


def _statement(source: Source, index: int) -> Edit | None:
    """Read the form of DuckDB's statement, which can also be in parentheses."""
    clauses = read_clauses(source, index, "into")
    if clauses is None:
        return None
    places, on = clauses.places, clauses.places["on"]
    name = _name(source, index, places.get("name"), "name") if "into" in places else "name"
    value = _name(source, index, places.get("value"), "value") if "into" in places else "value"
    nulls = source.is_word(on - 2, "include") and source.is_word(on - 1, "nulls")
    columns = split(source, *clauses.part("on"))
    table = source.text(index + 1, on - 2 if nulls else on)
    query = _query(source, index, table, columns, (name, value), nulls=nulls)
    return Edit(source.tokens[index].start, source.tokens[clauses.tail - 1].end, query)


def _name(source: Source, index: int, at: int | None, what: str) -> str:
    name = None if at is None or at + 1 >= len(source.tokens) else identifier(source.tokens[at + 1])
    if name is None:
        raise _error(source, index, f"INTO does not name the column for the {what}s: {_WRITE}")
    return name


def _factor(source: Source, index: int) -> Edit | None:
    """Read the standard's form, which follows a table."""
    opening = index + 1
    told = source.is_word(opening, "include", "exclude") and source.is_word(opening + 1, "nulls")
    nulls = told and source.is_word(opening, "include")
    opening += 2 * told
    last = source.closing.get(opening)
    if last is None or not source.is_symbol(opening, "("):
        return None
    if not source.is_word(opening + 2, "for"):
        if told or any(source.is_word(at, "for") for at in range(opening, last)):
            raise _error(source, index, f"several columns of values are not supported: {_WRITE}")
        return None  # here `unpivot` is an alias with names of columns
    value, name = (identifier(source.tokens[at]) for at in (opening + 1, opening + 3))
    lists = source.closing.get(opening + 5)
    table = factor_before(source, index)
    if value is None or name is None or lists != last - 1 or not source.is_word(opening + 4, "in") or table is None:
        raise _error(source, index, _WRITE)
    check_numbered(source, index, last)
    columns = split(source, opening + 6, lists)
    query = _query(source, index, source.text(table, index), columns, (name, value), nulls=nulls)
    return Edit(source.tokens[table].start, source.tokens[last].end, f"({query})")


def _query(
    source: Source,
    index: int,
    table: str,
    columns: Sequence[tuple[int, int]],
    names: tuple[str, str],
    *,
    nulls: bool,
) -> str:
    named = [_column(source, index, *one) for one in columns]
    name, value = map(quoted, names)
    listing = listed([column for column, _ in named])
    told = ", ".join(text_literal(alias) for _, alias in named)
    rows = f"SELECT * EXCLUDE ({listing}), unnest([{told}]) AS {name}, unnest([{listing}]) AS {value} FROM {table}"
    place = position(source.sql, source.tokens[index].start)
    told = typed_alike(place, [column for column, _ in named])
    return f"SELECT * FROM ({rows} WHERE {told})" + ("" if nulls else f" WHERE {value} IS NOT NULL")


def _column(source: Source, index: int, first: int, last: int) -> tuple[str, str]:
    """Return a column, and the name that its rows get."""
    text = source.is_word(last - 2, "as") and last - first == 3 and identifier(source.tokens[last - 1]) is None
    end, alias = (last - 2, source.tokens[last - 1].text) if text else without_alias(source, first, last)
    column = identifier(source.tokens[first]) if end == first + 1 else None
    if column is None:
        raise _error(source, index, f"one of its columns is not a plain name: {_WRITE}")
    return column, alias or column


def _error(source: Source, index: int, message: str) -> SqlError:
    return SqlError(f"UNPIVOT at {position(source.sql, source.tokens[index].start)}: {message}")
