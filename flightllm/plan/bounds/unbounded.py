"""Finds the statements that must not run beside others in one process."""

import re
from collections import Counter
from functools import cache

import structlog
from datafusion import DataFrame, SessionContext

from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import with_rules_alone
from flightllm.errors import CancelledError
from flightllm.plan.bounds.expressions import NAMES, OTHER, check_hidden, has_plain_likes, is_harmless, marks
from flightllm.plan.bounds.relations import Relations
from flightllm.plan.bounds.value import BoundsTally, Unbounded, UnboundedError

_log = structlog.get_logger(__name__)
_SUBQUERY = "<subquery>"
_LOOKED_AT = re.compile(
    "Values:|WindowAggr:|Unnest:|RecursiveQuery:|Extension|Join:|<subquery>|GROUPING SETS|CUBE|ROLLUP"
)
_LONG = 8_192
"""From this many characters on, a plan's text can hold a large literal."""


def unbounded(context: SessionContext, frame: DataFrame, limits: LimitsConfig) -> Unbounded | None:
    """Return the reason why a statement can exceed its limits, or None if it cannot.

    The limits are memory, and time that cannot be interrupted. Nothing is evaluated. If the answer is None, the
    statement cannot exceed them. This holds for values computed from constants, and from columns that are on average as
    large as the tables' statistics say. `context` must be the context of the frame.
    """
    plan = frame.logical_plan()
    text = plan.display_indent()
    if _is_plain(text):
        return None
    try:
        if _SUBQUERY in text:
            plan = _joining_context().create_dataframe_from_logical_plan(plan).optimized_logical_plan()
        budget = BoundsTally(limits)
        relations = Relations(context, budget)
        relations.bound(plan)
        text = plan.display_indent()
        if _SUBQUERY in text:
            check_hidden(Counter(marks(text)) - relations.shown, text)
    except UnboundedError as reason:
        return Unbounded(str(reason))
    except CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - DataFusion raises bare exceptions where it cannot show a part
        _log.warning("cannot bound a plan", error=str(error)[:200])
        return Unbounded("its plan cannot be analyzed")
    return budget.exceeded


@cache
def _joining_context() -> SessionContext:
    """Return a context that only rewrites EXISTS and IN as joins, whose parts can be read; it evaluates nothing."""
    return with_rules_alone("decorrelate_predicate_subquery")


def _is_plain(text: str) -> bool:
    """Return whether a plan's text names nothing whose value can be large; most plans are like this."""
    return (
        len(text) <= _LONG
        and _LOOKED_AT.search(text) is None
        and OTHER.search(text) is None
        and has_plain_likes(text)
        and all(map(is_harmless, NAMES.findall(text)))
    )
