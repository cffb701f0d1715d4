"""Check of the column types of an UNPIVOT, which turns several columns into one; only a plan has the types."""

import re
from collections.abc import Callable, Sequence

from flightllm.common.names import quoted
from flightllm.errors import SqlError
from flightllm.sql.literals import text_literal

MARK = "UNPIVOT at "
_NAME = r'"(?:[^"]|"")*"'
_MARKED = re.compile(rf'Filter: Utf8\("{MARK}(\d+:\d+) of ({_NAME}(?:, {_NAME})*)"\) IS NOT NULL(.*)')
"""The pattern for a plan's line with a condition of `typed_alike`; the columns of the step are at its end."""
_TEXT = "Utf8"
_NULL = "Null"


def typed_alike(place: str, columns: Sequence[str]) -> str:
    """Return a condition that is always true, and that marks an UNPIVOT's columns in a plan for `check_types`."""
    listed = ", ".join(map(quoted, columns))
    return f"{text_literal(f'{MARK}{place} of {listed}')} IS NOT NULL"


def check_types(plan: Callable[[], str]) -> None:
    """Raise an error if an UNPIVOT mixes columns of texts with columns of other types.

    A list of both types would turn the text '007' into 7. `plan` returns the text of the plan with the columns of each
    step. Unlike the steps themselves, the text includes subqueries.

    Raises:
        SqlError: an UNPIVOT mixes the types. The error names one column of each kind.
    """
    for place, listed, step in _MARKED.findall(plan()):
        columns = (name[1:-1].replace('""', '"') for name in re.findall(_NAME, listed))
        types = {column: _type_of(column, step) for column in columns}
        text = next((column for column, kind in types.items() if _TEXT in kind), None)
        other = next((column for column, kind in types.items() if _TEXT not in kind and kind != _NULL), None)
        if text is not None and other is not None:
            raise SqlError(
                f"{MARK}{place}: the column {text} holds texts and {other} holds {types[other]}: cast one, as in"
                f" UNPIVOT (SELECT * REPLACE ({quoted(other)}::varchar AS {quoted(other)}) FROM …) ON …"
            )


def _type_of(column: str, step: str) -> str:
    """Return the type of a column in the text of a step, or `Null` if the text does not show it."""
    found = re.search(rf"[\[ ]{re.escape(column)}:(\w+(?:\([^)]*\))?)", step)
    return _NULL if found is None else found[1]
