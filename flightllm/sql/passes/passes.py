"""List the passes in their order. Each has words and a test that tell, at little cost, whether it can change a text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flightllm.sql.alignment import replacements
from flightllm.sql.distinct_from import has_distinct_from
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.interval_arithmetic import interval_arithmetic
from flightllm.sql.passes.intervals import intervals
from flightllm.sql.passes.is_distinct_from import is_distinct_from
from flightllm.sql.passes.set_operations_all import has_all_rows, set_operations_all
from flightllm.sql.passes.time_zones import time_zones
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, parse


@dataclass(frozen=True, slots=True)
class Pass:
    """A function from a tree to a tree. A text that it can change has all of the `words` and passes the `test`.

    With `of_intervals`, a text that names a table with intervals needs no such words.
    """

    change: Callable[[Tree, TableColumns], Tree]
    words: frozenset[str]
    test: Callable[[ParsedText], bool] = lambda _: True
    of_intervals: bool = False

    def can_change(self, text: ParsedText, names_intervals: Callable[[ParsedText], bool]) -> bool:
        """Return whether the pass can change a text."""
        return (self.words <= text.words and self.test(text)) or (self.of_intervals and names_intervals(text))


def _has_time_zone(text: ParsedText) -> bool:
    """Return whether a text can have AT TIME ZONE or call timezone(…)."""
    return "zone" in text.words or "timezone" in text.words


PASSES = (
    Pass(is_distinct_from, frozenset({"is", "distinct", "from"}), has_distinct_from),
    Pass(set_operations_all, frozenset({"all"}), has_all_rows),
    Pass(time_zones, frozenset(), _has_time_zone),
    Pass(interval_arithmetic, frozenset({"interval"}), of_intervals=True),
    Pass(intervals, frozenset({"interval"}), of_intervals=True),
)


def edits(
    text: ParsedText, columns_of: TableColumns, names_intervals: Callable[[ParsedText], bool]
) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the new text of each place that a pass changes.

    A text without a construct that a pass changes is not parsed. A text that cannot be parsed has no edits.
    `names_intervals` tells quickly whether a text can name a table that has a column of intervals.

    Raises:
        FlightLLMError: a construct gives wrong rows in DataFusion, and no pass can put it right.
    """
    chosen = [one for one in PASSES if one.can_change(text, names_intervals)]
    tree = parse(text) if chosen else None
    if tree is None:
        return
    changed = tree
    for one in chosen:
        changed = one.change(changed, columns_of)
    if changed is not tree:
        yield from replacements(text, ParsedText(changed.printed()))
