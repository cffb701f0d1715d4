"""The types to which DataFusion casts a statement's parameters, because of casts, signatures and other operands."""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import pyarrow as pa
from datafusion import LogicalPlan, SessionContext, udf

from flightllm.common.arrow_types import with_plain_types

_NAME = "flightllm_parameter_"
_CAST = re.compile(rf"CAST\({_NAME}(\d+)\(\) AS ")
_OPTIMIZER_RULES = (
    *("simplify_expressions", "replace_distinct_aggregate", "eliminate_join", "decorrelate_predicate_subquery"),
    *("scalar_subquery_to_join", "decorrelate_lateral_join", "extract_equijoin_predicate"),
    *("eliminate_duplicated_expr", "eliminate_filter", "eliminate_cross_join", "eliminate_limit"),
    *("propagate_empty_relation", "filter_null_join_keys", "eliminate_outer_join", "push_down_limit"),
    *("push_down_filter", "single_distinct_aggregation_to_group_by", "eliminate_group_by_constant"),
    *("common_sub_expression_eliminate", "optimize_projections", "optimize_unions", "rewrite_set_comparison"),
    *("extract_leaf_expressions", "push_down_leaf_projections"),
)
"""All optimizer rules that run after type coercion: without them, casts stay where coercion put them."""


def parameter_call(index: int) -> str:
    """Return the call that replaces a parameter of unknown type in a statement, by index from 0."""
    return f"{_NAME}{index}()"


def register_parameters(context: SessionContext, indexes: Iterable[int]) -> None:
    """Register the functions that replace parameters: they have the type of NULL, and no value is ever computed."""
    for index in indexes:
        context.register_udf(udf(_null, [], pa.null(), "volatile", parameter_call(index).removesuffix("()")))


def cast_types(
    plan: LogicalPlan, context: SessionContext, asked: Collection[int] = (), *, deep: bool = False
) -> Mapping[int, pa.DataType]:
    """Return the types that a plan's parameters are cast to, by index from 0; parameters without a cast are left out.

    `deep` says that the plan has a long chain of operators, which takes DataFusion up to a second. The physical plan
    is then read first, because DataFusion releases the GIL while it makes one. Its text lacks the casts within
    aggregates and windows, so the logical plan is read unless all `asked` parameters are found.

    Raises DataFusion's error where the types in the plan do not fit.
    """
    for rule in _OPTIMIZER_RULES:
        context.remove_optimizer_rule(rule)
    frame = context.create_dataframe_from_logical_plan(plan)
    if deep:
        with suppress(Exception):  # a subquery has no physical plan without its rules; the logical plan tells errors
            found = _found(frame.execution_plan().display_indent(), context)
            if found.keys() >= set(asked):
                return found
    return _found(frame.optimized_logical_plan().display_indent(), context)


def _found(coerced: str, context: SessionContext) -> dict[int, pa.DataType]:
    """Return the types in the text of a plan with casts."""
    found: dict[int, pa.DataType] = {}
    known: dict[str, pa.DataType | None] = {}  # DataFusion plans a statement for each name that it reads
    for match in _CAST.finditer(coerced):
        name = _until_closed(coerced, match.end())
        if name not in known:
            known[name] = _arrow_type(name, context)
        kind = known[name]
        if kind is not None:
            found.setdefault(int(match[1]), kind)
    return found


def _null() -> pa.Array:
    return pa.nulls(1)


def _until_closed(text: str, start: int) -> str:
    """Return the text up to the parenthesis that closes the one before `start`."""
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth < 0:
            return text[start:end]
    return text[start:]


def _arrow_type(name: str, context: SessionContext) -> pa.DataType | None:
    """Return the type that DataFusion shows as `name`; None if it cannot read its own name, and for NULL's type."""
    quoted = name.replace("'", "''")
    try:
        (kind,) = with_plain_types(context.sql(f"SELECT arrow_cast(NULL, '{quoted}')").schema()).types
    except Exception:  # noqa: BLE001 - any error of DataFusion means an unknown type
        return None
    return None if kind == pa.null() else kind
