"""Tell which statements may not run beside others in one process."""

import re
from collections import Counter
from functools import cache

import structlog
from datafusion import DataFrame, SessionContext

from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import with_rules_alone
from flightllm.plan.bounds.expressions import NAMES, OTHER, check_hidden, has_plain_likes, is_harmless, marks
from flightllm.plan.bounds.relations import Relations
from flightllm.plan.bounds.value import Budget, Unbounded, UnboundedError

_log = structlog.get_logger(__name__)
_SUBQUERY = "<subquery>"
_LOOKED_AT = re.compile("Values:|WindowAggr:|Unnest:|RecursiveQuery:|Extension|Join:|<subquery>")
_LONG = 8_192
"""Characters of a plan's text from which a literal in it may be large."""


def unbounded(context: SessionContext, frame: DataFrame, limits: LimitsConfig) -> Unbounded | None:
    """Return why a statement can take more than its share (memory, or time that cannot be interrupted), or None.

    Nothing is evaluated. None is certain of what expressions compute from constants, and from columns as large as the
    tables say these are on average; `context` must be that of the frame.
    """
    plan = frame.logical_plan()
    text = plan.display_indent()
    if _is_plain(text):
        return None
    try:
        if _SUBQUERY in text:
            plan = _joining_context().create_dataframe_from_logical_plan(plan).optimized_logical_plan()
        budget = Budget(limits)
        relations = Relations(context, budget)
        relations.bound(plan)
        text = plan.display_indent()
        if _SUBQUERY in text:
            check_hidden(Counter(marks(text)) - relations.shown, text)
    except UnboundedError as reason:
        return Unbounded(str(reason))
    except Exception as error:  # noqa: BLE001 - DataFusion raises bare exceptions where it cannot show a part
        _log.warning("a plan's bounds are not known", error=str(error)[:200])
        return Unbounded("its plan cannot be looked at")
    return budget.exceeded


@cache
def _joining_context() -> SessionContext:
    """Return a context that makes joins of EXISTS and IN, whose parts are given, and evaluates nothing."""
    return with_rules_alone("decorrelate_predicate_subquery")


def _is_plain(text: str) -> bool:
    """Tell whether the text of a plan names nothing whose value could be large: most do."""
    return (
        len(text) <= _LONG
        and _LOOKED_AT.search(text) is None
        and OTHER.search(text) is None
        and has_plain_likes(text)
        and all(map(is_harmless, NAMES.findall(text)))
    )
