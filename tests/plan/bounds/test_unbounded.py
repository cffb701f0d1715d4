"""Which statements are told to take more than their share: every hostile one, and no ordinary one."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from datafusion import SessionContext

from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import plain_config
from flightllm.datafusion.table_size import TableSize
from flightllm.errors import UnsupportedError
from flightllm.plan.bounds import unbounded
from flightllm.plan.bounds.functions import AGGREGATES, SCALARS, WINDOWS
from flightllm.plan.bounds.patterns import regex_states
from flightllm.sql.guard import check_bound
from flightllm.sql.parsed_text import ParsedText
from tests.benign import QUERIES, SETUP
from tests.hostile import HOSTILE, TABLES, Hostile

_ROOT = Path(__file__).parents[3]


@cache
def _tables() -> SessionContext:
    context = SessionContext(plain_config().with_information_schema(enabled=True))
    for statement in (*SETUP, *TABLES.values()):
        context.sql(statement).collect()
    return context


def _reason(sql: str) -> str | None:
    context = _tables()
    found = unbounded(context, context.sql(sql), LimitsConfig())
    return None if found is None else str(found)


_DIRECT = [
    h for h in HOSTILE if h.route in ("query", "explain", "substrait") and h.name != "a table function's argument"
]


@pytest.mark.parametrize("hostile", _DIRECT, ids=lambda hostile: hostile.name)
def test_hostile(hostile: Hostile) -> None:
    """A statement that makes large values, or takes long over one, is told by its plan."""
    assert _reason(hostile.sql) is not None


@pytest.mark.parametrize("sql", QUERIES)
def test_benign(sql: str) -> None:
    """An ordinary statement is not."""
    assert _reason(sql) is None


def test_enough() -> None:
    """There are as many statements of both sorts as were asked for, and no two hostile ones share a name."""
    assert len({h.name for h in HOSTILE}) == len(HOSTILE) >= 60
    assert len(QUERIES) >= 150


def test_functions_are_classified() -> None:
    """Every function of the installed DataFusion has its line."""
    rows = _tables().sql("SELECT DISTINCT routine_name, function_type FROM information_schema.routines").to_pylist()
    known = {"SCALAR": SCALARS, "AGGREGATE": AGGREGATES, "WINDOW": WINDOWS}
    tables = {row["routine_name"] for row in rows if row["function_type"] == "TABLE"}
    missing = [
        row["routine_name"]
        for row in rows
        if row["function_type"] in known and row["routine_name"] not in known[row["function_type"]]
    ]
    assert not missing
    assert tables == {"generate_series", "range"}


def test_views() -> None:
    """What a view computes counts for whoever reads it."""
    context = SessionContext(plain_config())
    for statement in TABLES.values():
        context.sql(statement).collect()
    context.sql("CREATE VIEW v1 AS SELECT repeat(s, 1000) AS c FROM wide").collect()
    context.sql("CREATE VIEW v2 AS SELECT c || c || c || c AS c FROM v1").collect()
    assert unbounded(context, context.sql("SELECT length(c || c) FROM v2"), LimitsConfig()) is not None


@pytest.mark.parametrize(
    ("sql", "stops"),
    [
        ("SELECT sum(a.n * b.n) FROM wide a, wide b", False),
        ("SELECT sum(a.n * b.n) FROM wide a CROSS JOIN wide b WHERE a.n < b.n", False),
        ("SELECT count(*) FROM wide a LEFT JOIN wide b ON a.n + b.n < 0", False),
        ("SELECT count(*) FROM wide a WHERE EXISTS (SELECT 1 FROM wide b WHERE b.n > a.n)", False),
        ("SELECT sum(a.n * b.n) FROM wide a, wide b WHERE a.n = b.n", True),
        ("SELECT count(*) FROM wide a LEFT JOIN wide b ON a.n = b.n AND a.n + b.n < 0", True),
        ("SELECT count(*) FROM wide a, wide b, wide c WHERE a.n = b.n AND b.n = c.n", True),
        ("SELECT count(*) FROM small a, wide b", True),
        ("SELECT count(*) FROM wide a JOIN wide b ON a.n % 2 = b.n % 2", False),
        ("SELECT count(*) FROM wide a, wide b WHERE a.n % 2 = b.n % 2 AND a.n < b.n", False),
        ("SELECT count(*) FROM wide a LEFT JOIN wide b ON (a.n > 5) = (b.n > 5) AND a.n + b.n < 0", False),
        ("SELECT count(*) FROM wide a JOIN wide b ON CASE WHEN a.n > 5 THEN 1 ELSE 2 END = b.n % 3", False),
        ("SELECT count(*) FROM (SELECT n & 1 AS k FROM wide) a JOIN (SELECT n & 1 AS k FROM wide) b USING (k)", False),
        ("SELECT count(*) FROM wide a WHERE a.n % 2 IN (SELECT b.n % 2 FROM wide b)", False),
        ("SELECT count(*) FROM (SELECT 1 AS k FROM wide) a JOIN (SELECT 1 AS k FROM wide) b USING (k)", False),
        ("SELECT count(*) FROM wide a JOIN wide b ON a.n % 2 = b.n % 2 AND a.n = b.n", True),
        ("SELECT count(*) FROM wide a JOIN wide b ON a.n % 100000 = b.n % 100000", True),
        ("SELECT count(*) FROM wide a JOIN small b ON a.n % 2 = b.n % 2", True),
        ("SELECT count(*) FROM wide a JOIN wide b ON a.n % 2 = b.n", True),
        ("SELECT count(*) FROM wide a WHERE a.n = (SELECT max(n) FROM wide b WHERE b.n % 2 = a.n % 2)", True),
        ("SELECT 1 FROM (SELECT n % 2 AS k FROM wide GROUP BY 1) a JOIN wide b ON a.k = b.n % 2", True),
    ],
)
def test_joins_that_cannot_be_stopped(sql: str, stops: bool) -> None:
    """DataFusion stops between two parts of a table: a join of all rows with all rows may take hours for one."""

    class Sized(SessionContext):
        """Knows how many rows the tables of the server's have."""

        @staticmethod
        def sizes(_: str, table: str) -> TableSize:
            return TableSize(1_000 if table == "small" else 200_000)

    context = Sized(plain_config())
    for name in TABLES:
        context.sql(f"CREATE TABLE {name} (n BIGINT, s VARCHAR)").collect()
    found = unbounded(context, context.sql(sql), LimitsConfig())
    assert (found is None) is stops
    assert found is None or not found.while_planned


def test_table_functions() -> None:
    """DataFusion evaluates the arguments of table functions as it parses: only small functions may stand there."""
    limits = LimitsConfig()
    check_bound(ParsedText("SELECT * FROM generate_series(1, 10 * 10), range(0, cast(5 AS bigint))"), limits)
    check_bound(ParsedText("SELECT range(0, length(repeat('a', 5)))"), limits)
    for text in ("FROM range(1, length(repeat('a', 5)))", "FROM t, range(1, levenshtein('a', 'b'))"):
        with pytest.raises(UnsupportedError, match="in the arguments of range"):
            check_bound(ParsedText(f"SELECT * {text}"), limits)


def test_regex_states() -> None:
    """Counted repetitions multiply what they repeat."""
    assert regex_states("abc") == 3
    assert regex_states("(ab){10}") == 20
    assert regex_states("((a{1,100}){1,100}){1,100}") == 1_000_000


_PLAN_ALL = """
import json, time
from pathlib import Path
from flightllm.datafusion.contexts import DECORRELATING_RULES, FOLDING_RULES, plain_config, row_types, unfolded
from datafusion import SessionContext
from flightllm.config import LimitsConfig
from flightllm.plan.bounds import unbounded
from tests.hostile import HOSTILE, TABLES

def context():
    made = SessionContext(plain_config())
    for statement in TABLES.values():
        made.sql(statement.replace("200000", "2000")).collect()
    return made

context().sql("SELECT 1").schema()
slow = {}
for hostile in HOSTILE:
    if hostile.route not in ("query", "explain", "substrait") or hostile.name == "a table function's argument":
        continue
    fresh = context()
    start = time.process_time()
    frame = fresh.sql(hostile.sql)
    row_types(frame)
    unbounded(fresh, frame, LimitsConfig())
    unfolded(fresh, frame, (*FOLDING_RULES, *DECORRELATING_RULES)).optimized_logical_plan()
    slow[hostile.name] = time.process_time() - start
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]  # ru_maxrss is the parent's too
print(json.dumps([slow, int(peak)]))
"""


@pytest.mark.slow
def test_planning_evaluates_nothing() -> None:
    """Planning a hostile statement takes little processor time and memory: none of it is evaluated."""
    command = ["prlimit", "--as=8589934592", sys.executable, "-c", _PLAN_ALL]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=_ROOT)
    seconds, kibibytes = json.loads(done.stdout)
    assert {name: s for name, s in seconds.items() if s > 1} == {}
    assert kibibytes < 1 << 20


@pytest.mark.parametrize(
    ("sql", "while_planned"),
    [
        ("SELECT array_agg(a.s) FROM wide a CROSS JOIN wide b", False),
        ("SELECT repeat(c, 300000000) FROM (SELECT 'ab' AS c FROM wide) AS d", True),
        ("SELECT repeat(s, 300000000), array_agg(s) OVER () FROM wide", True),
    ],
)
def test_while_planned(sql: str, while_planned: bool) -> None:
    """What a query keeps is only there when it runs; a value can become a constant as projections are merged."""
    context = _tables()
    found = unbounded(context, context.sql(sql), LimitsConfig())
    assert found is not None
    assert found.while_planned is while_planned
