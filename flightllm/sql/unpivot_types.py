"""Check of the column types of an UNPIVOT, which turns several columns into one; only a plan has the types.

The check reads the text of the plan: DataFusion's Python package does not show the plans of subqueries in another way.
"""

import re
from collections.abc import Callable, Sequence

from flightllm.common.names import quoted
from flightllm.errors import InternalError, SqlError
from flightllm.sql.literals import text_literal

MARK = "\ufdd2UNPIVOT at "
"""Begins the condition. The first character is not in any text of a user, because Unicode gives it no meaning."""
_SHOWN = MARK[1:]
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
        InternalError: the text of the plan has another form than this check expects.
    """
    told = plan()
    marked = _MARKED.findall(told)
    if len(marked) != told.count(MARK):
        raise InternalError("DataFusion shows a step of UNPIVOT in an unknown form, and its types cannot be checked")
    for place, listed, step in marked:
        columns = [name[1:-1].replace('""', '"') for name in re.findall(_NAME, listed)]
        types = {column: found for column in columns if (found := _type_of(column, step)) is not None}
        if len(columns) > 1 and not types:
            raise InternalError(f"{_SHOWN}{place}: DataFusion shows no types of the columns")
        text = next((column for column, kind in types.items() if _TEXT in kind), None)
        other = next((column for column, kind in types.items() if _TEXT not in kind and kind != _NULL), None)
        if text is not None and other is not None:
            raise SqlError(
                f"{_SHOWN}{place}: the column {text} holds texts and {other} holds {types[other]}: cast one, as in"
                f" UNPIVOT (SELECT * REPLACE ({quoted(other)}::varchar AS {quoted(other)}) FROM …) ON …"
            )


def _type_of(column: str, step: str) -> str | None:
    """Return the type of a column in the text of a step, or None if the text does not show it."""
    found = re.search(rf"[\[ ]{re.escape(column)}:(\w+(?:\([^)]*\))?)", step)
    return None if found is None else found[1]
