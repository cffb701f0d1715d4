"""The types of the columns that an UNPIVOT makes one column of, which only a plan tells."""

import re
from collections.abc import Callable, Sequence

from flightllm.common.names import quoted
from flightllm.errors import SqlError
from flightllm.sql.literals import text_literal

MARK = "UNPIVOT at "
_NAME = r'"(?:[^"]|"")*"'
_MARKED = re.compile(rf'Filter: Utf8\("{MARK}(\d+:\d+) of ({_NAME}(?:, {_NAME})*)"\) IS NOT NULL(.*)')
"""A line of a plan's text that shows a condition of `typed_alike`, with the columns that its step has at the end."""
_TEXT = "Utf8"
_NULL = "Null"


def typed_alike(place: str, columns: Sequence[str]) -> str:
    """Return a condition that is always true, by which `check_types` finds in a plan what an UNPIVOT is of."""
    listed = ", ".join(map(quoted, columns))
    return f"{text_literal(f'{MARK}{place} of {listed}')} IS NOT NULL"


def check_types(plan: Callable[[], str]) -> None:
    """Raise an error where an UNPIVOT in a text is of texts and others: a list of both would make 7 of the text '007'.

    `plan` returns the text of the plan with the columns of each step: unlike the steps themselves, it has subqueries.

    Raises:
        SqlError: the columns differ so; it names one of either kind.
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
    """Return the type of a column of a step, as a plan's text shows it."""
    found = re.search(rf"[\[ ]{re.escape(column)}:(\w+(?:\([^)]*\))?)", step)
    return _NULL if found is None else found[1]
