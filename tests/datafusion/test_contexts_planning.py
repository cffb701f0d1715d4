"""Types of a query without evaluating it."""

import threading

import pyarrow as pa
import pytest
from datafusion import SessionContext

from flightllm.common.arrow_types import with_plain_types
from flightllm.datafusion.contexts import analyzed, plain_config, row_types

_CONTEXT = SessionContext(plain_config())
_OVERFLOW = "SELECT cast('x' AS INT) AS a"


def test_nothing_is_evaluated() -> None:
    """A constant that fails when it is computed has its type all the same."""
    assert row_types(_CONTEXT.sql(_OVERFLOW)) == [pa.int32()]
    with pytest.raises(Exception, match="Cannot cast"):
        _CONTEXT.sql(_OVERFLOW).optimized_logical_plan()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CASE WHEN 1 = 1 THEN 1 ELSE 2.5 END",
        "SELECT 1 UNION ALL SELECT 2.5",
        "SELECT now(), current_date, coalesce(NULL, 1, 2.5), nvl(NULL, 'a'), arrow_cast(1, 'Int8')",
        "SELECT sum(x), avg(x), count(*) OVER () FROM (VALUES (1), (2)) v(x) GROUP BY x",
        "SELECT x IN (SELECT 1), (SELECT max(y) FROM (VALUES (1.5)) w(y)) FROM (VALUES (1)) v(x)",
    ],
)
def test_types_are_the_optimized_ones(sql: str) -> None:
    """The analyzer alone gives the types that the optimized plan has."""
    frame = _CONTEXT.sql(sql)
    optimized = _CONTEXT.create_dataframe_from_logical_plan(frame.optimized_logical_plan())
    assert analyzed(_CONTEXT, frame).schema().types == optimized.schema().types
    assert row_types(frame) == list(with_plain_types(optimized.schema(), unions=True).types)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM (VALUES (1)) a(x), (VALUES (2.5)) b(x)",
        "SELECT a.x, b.x, CASE WHEN a.x = 1 THEN 1 ELSE 2.5 END AS y FROM (VALUES (1)) a(x), (VALUES (1)) b(x)",
    ],
)
def test_columns_of_one_name(sql: str) -> None:
    """A join can give two columns of one name; their types are those of the rows."""
    frame = _CONTEXT.sql(sql)
    assert row_types(frame) == [column.type for column in frame.to_arrow_table().columns]


@pytest.mark.slow
def test_other_threads_run_meanwhile() -> None:
    """DataFusion resolves the types of 900 operators in about a second, and other threads get the interpreter."""
    frame = _CONTEXT.sql("SELECT " + "+".join(["1"] * 900))
    ended, turns = threading.Event(), list[int]()

    def run() -> None:
        while not ended.wait(0.001):
            turns.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    before = len(turns)
    row_types(frame)
    meanwhile = len(turns) - before
    ended.set()
    thread.join()
    assert meanwhile > 5  # with the interpreter held, the thread has one turn or two
