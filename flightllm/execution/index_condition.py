"""Find the rows of a vector index that satisfy an SQL condition."""

from itertools import accumulate

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, SessionContext
from numpy.typing import NDArray

from flightllm.catalog import QUERY_ONLY
from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import plain_config, planned_text
from flightllm.datafusion.errors import mapped_error
from flightllm.errors import SqlError, UnsupportedError
from flightllm.functions.internal import INTERNAL
from flightllm.plan.bounds import unbounded
from flightllm.sql.guard import check_sql
from flightllm.sql.own_calls import check_no_own_calls
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import passed
from flightllm.sql.tokens import tokenize
from flightllm.vector.index import VectorIndex


def matching(index: VectorIndex, condition: str, limits: LimitsConfig) -> NDArray[np.bool_]:
    """Return for each row of an index whether an SQL condition over its columns is true.

    Raises:
        SqlError: the text is not a condition over these columns.
    """
    try:
        found = rows_where(index, condition, limits).collect()
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        raise mapped_error(error) from error
    within = np.zeros(len(index.rows), np.bool_)
    for batch in found:
        within[batch.column(0).to_numpy()] = True
    return within


def _check_condition(condition: str, limits: LimitsConfig) -> None:
    """Check that a text is a single expression, so that SQL can have it in parentheses."""
    tokens = tokenize(condition)
    depth = list(accumulate(token.is_symbol("(") - token.is_symbol(")") for token in tokens))
    if min(depth, default=0) < 0 or any(token.is_word("select") or token.is_symbol(";") for token in tokens):
        raise SqlError(f"filter => {condition!r} must be a condition over the index's columns, as in 'price < 10'")
    whole = ParsedText(f"SELECT 1 WHERE ({condition})")
    check_no_own_calls(whole)
    check_sql(whole, limits)


def rows_where(index: VectorIndex, condition: str, limits: LimitsConfig) -> DataFrame:
    """Plan a query for the numbers of the rows that satisfy a condition.

    Raises:
        SqlError: the text is more than a condition, or not a condition over the index's columns.
        LimitExceededError: the condition is too long.
    """
    _check_condition(condition, limits)
    context = SessionContext(plain_config())
    for function in INTERNAL:
        context.register_udf(function.registered())
    rows = index.rows.append_column("__row", pa.array(np.arange(len(index.rows))))
    context.register_record_batches("rows", [rows.to_batches()])
    text = ParsedText(f"SELECT __row FROM rows WHERE ({condition}\n)")
    columns = dict(zip(rows.column_names, rows.schema.types, strict=True))
    try:
        frame = planned_text(context, passed(text, lambda _: columns).sql, QUERY_ONLY)
    except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
        said = str(mapped_error(error)).replace("rows.", "").replace(", __row", "")
        raise SqlError(
            f"filter => {condition!r} is not a condition over the columns of the index {index.manifest.name!r}: {said}"
        ) from error
    if reason := unbounded(context, frame, limits):
        raise UnsupportedError(
            f"filter => {condition!r} has no bound ({reason}): search for more rows, and put the condition after WHERE"
        )
    return frame
