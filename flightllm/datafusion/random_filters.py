"""Keeps conditions with random values where they are: DataFusion moves these as if they were the same for all rows."""

import re
from typing import Final

from datafusion import DataFrame, SessionContext

NAMES: Final = ("random", "uuid")
"""The functions of DataFusion whose values differ from row to row."""
_CONDITION: Final = re.compile(rf"^(?! *(?:Projection|Sort): ).*\b(?:{'|'.join(NAMES)})\(\)", re.MULTILINE)
"""A line of a plan with such a call outside of a list of columns; a literal can spread a condition over lines."""
_PASSED: Final = re.compile(
    r"^ *(?:Aggregate|WindowAggr|Unnest|Distinct|DistinctOn|(?:\w+ )?Join|Cross Join):", re.MULTILINE
)
"""The operators below which a condition would be decided for other rows, or once for several."""


def with_random_filters(context: SessionContext, frame: DataFrame) -> DataFrame:
    """Return a frame over the same plan in which each condition with a random value is decided for its own rows.

    DataFusion's rule moves such a condition below an aggregate, a window, an unnested list or one side of a join. The
    rule is removed from the context permanently.
    """
    plan = frame.logical_plan().display_indent()
    if _CONDITION.search(plan) is None or _PASSED.search(plan) is None:
        return frame
    context.remove_optimizer_rule("push_down_filter")
    return context.create_dataframe_from_logical_plan(frame.logical_plan())
