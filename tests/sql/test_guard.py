"""The guard lets ordinary SQL through and refuses what would kill or stall the planner."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from flightllm.config import LimitsConfig
from flightllm.errors import FlightLLMError, LimitExceededError, UnsupportedError
from flightllm.sql.guard import check_bound, check_sql
from flightllm.sql.parsed_text import ParsedText

LIMITS = LimitsConfig()

SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "plus": (lambda n: "SELECT " + "+".join(["a"] * n) + " FROM t", 1_001),
    "or": (lambda n: "SELECT a FROM t WHERE " + " OR ".join(f"a={i}" for i in range(n)), 500),
    "concat": (lambda n: "SELECT " + "||".join(["s"] * n) + " FROM t", 1_001),
    "cast": (lambda n: "SELECT a" + "::int" * n + " FROM t", 1_000),
    "union": (lambda n: " UNION ALL ".join(["SELECT a FROM t"] * n), 251),
    "intersect": (lambda n: " INTERSECT ".join(["SELECT a FROM t"] * n), 126),
    "with": (
        lambda n: (
            "WITH c0 AS (SELECT a FROM t)"
            + "".join(f", c{i} AS (SELECT a FROM c{i - 1})" for i in range(1, n))
            + f" SELECT * FROM c{n - 1}"
        ),
        249,
    ),
    "cross": (lambda n: "SELECT 1 FROM " + ", ".join(f"t t{i}" for i in range(n)), 126),
    "window": (
        lambda n: "SELECT " + ",".join(f"sum(a) OVER (ORDER BY b) c{i}" for i in range(n)) + " FROM t",
        249,
    ),
    "pipe": (lambda n: "SELECT a FROM t " + "|> WHERE a>1 " * n, 200),
}

_DOUBLED = [
    "w0 AS (SELECT 1 AS a)",
    *(f"w{i} AS (SELECT * FROM w{i - 1} UNION ALL SELECT * FROM w{i - 1})" for i in range(1, 16)),
]

_RUN = """
import sys, threading, datafusion, pyarrow as pa
def run():
    context = datafusion.SessionContext()
    batch = pa.record_batch({"a": [1], "b": [1], "s": ["x"]})
    context.register_record_batches("t", [[batch]])
    for sql in sys.stdin.read().split(";"):
        context.sql(sql).collect()
    print("survived")
threading.stack_size(2 << 20)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_largest_allowed_passes_and_far_larger_is_refused(shape: str) -> None:
    """Each deep shape passes at its limit; ten times that is refused with the limit's key in the message."""
    build, most = SHAPES[shape]
    check_sql(ParsedText(build(most)), LIMITS)
    with pytest.raises(LimitExceededError, match="sql_terms = 2,000"):
        check_sql(ParsedText(build(most * 10)), LIMITS)


def test_largest_allowed_survives_planning_on_a_small_stack() -> None:
    """DataFusion runs every shape at the guard's limit on a 2 MiB stack, a quarter of a server thread's."""
    sql = ";".join(build(most) for build, most in SHAPES.values())
    done = subprocess.run([sys.executable, "-c", _RUN], input=sql, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "survived", (done.returncode, done.stderr[-500:])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t WHERE a IN (" + ",".join(f"-{i}" for i in range(5_000)) + ")",
        "INSERT INTO t VALUES " + ",".join(f"({i}, -{i}, 'x')" for i in range(5_000)),
        "SELECT CASE " + " ".join(f"WHEN a = {i} THEN '{i}'" for i in range(2_000)) + " END FROM t",
        "SELECT " + ", ".join(f"a + {i} AS c{i}" for i in range(2_000)) + " FROM t",
        "SELECT '" + "+ OR UNION " * 5_000 + "' -- " + "OR " * 5_000,
        "SELECT a IS DISTINCT FROM 1, 2, 3 FROM t",
    ],
    ids=["in-list", "values", "case", "columns", "text and comment", "distinct from"],
)
def test_wide_but_flat_sql_passes(sql: str) -> None:
    """Long lists of literals, rows, branches and columns are no depth, and text is no SQL."""
    check_sql(ParsedText(sql), LIMITS)


def test_message_names_limit_count_and_key() -> None:
    """10,000 OR terms are refused with their number, the limit and what to write instead."""
    with pytest.raises(LimitExceededError, match=r"19,999 operators.*\[limits\] sql_terms = 2,000.*IN \(…\)"):
        check_sql(ParsedText(SHAPES["or"][0](10_000)), LIMITS)


def test_too_many_bytes_are_refused() -> None:
    """The size in UTF-8 bytes counts, and the message names its key."""
    with pytest.raises(LimitExceededError, match=r"23 bytes; \[limits\] sql_bytes = 20"):
        check_sql(ParsedText("SELECT 'äöüßäöü'"), LimitsConfig(sql_bytes=20))


def test_with_queries_that_double_are_refused() -> None:
    """WITH queries that each use the one before twice make a plan of 2ⁿ parts from n lines."""
    parts = ", ".join(f"c{i} AS (SELECT x.a FROM c{i - 1} x, c{i - 1} y)" for i in range(1, 20))
    with pytest.raises(LimitExceededError, match="use each other so often"):
        check_sql(ParsedText(f"WITH c0 AS (SELECT 1 AS a), {parts} SELECT * FROM c19"), LIMITS)


def test_cube_of_many_columns_is_refused() -> None:
    """CUBE of n columns makes 2ⁿ groupings."""
    check_sql(ParsedText("SELECT 1 FROM t GROUP BY CUBE (" + ", ".join(f"c{i}" for i in range(12)) + ")"), LIMITS)
    with pytest.raises(LimitExceededError, match="CUBE has 13 columns"):
        check_sql(ParsedText("SELECT 1 FROM t GROUP BY CUBE (" + ", ".join(f"c{i}" for i in range(13)) + ")"), LIMITS)


def test_depth_adds_up_through_nesting() -> None:
    """Chains inside parentheses and subqueries count with the chain around them."""
    inner = " OR ".join(f"a = {i}" for i in range(300))
    check_sql(ParsedText(f"SELECT a FROM t WHERE ({inner}), ({inner})"), LIMITS)
    with pytest.raises(LimitExceededError):
        check_sql(ParsedText(f"SELECT a FROM (SELECT a FROM t WHERE {inner}) WHERE {inner}"), LIMITS)


@pytest.mark.parametrize(
    ("build", "most", "said"),
    [
        (lambda n: "SELECT " + "CAST(" * n + "a" + " AS int)" * n, 45, "parentheses and CASE are nested 46 levels"),
        (
            lambda n: "SELECT a FROM t" + " WHERE a IN (SELECT a FROM t" * (n - 1) + ")" * (n - 1),
            16,
            "queries are nested 17",
        ),
        (lambda n: "WITH c AS (" * (n - 1) + "SELECT 1" + ") SELECT 2" * (n - 1), 16, "queries are nested 17 levels"),
        (lambda n: "SELECT " + "CASE WHEN " * n + "a" + " THEN b ELSE c END" * n, 8, "conditions of CASE 9 levels"),
        (lambda n: "SELECT a FROM t ORDER BY " + ", ".join(["a"] * n), 2_000, "list has 2,001 columns or keys"),
        (lambda n: "INSERT INTO t VALUES (" + ", ".join(["1"] * n) + ")", 2_000, "list has 2,001 columns or keys"),
        (
            lambda n: "SELECT 1 FROM t GROUP BY GROUPING SETS (" + ", ".join(["(a)"] * n) + ")",
            2_000,
            "list has 2,001 columns or keys",
        ),
    ],
    ids=["parentheses", "IN", "WITH", "CASE", "ORDER BY", "VALUES", "GROUPING SETS"],
)
def test_what_stalls_the_planner_is_refused(build: Callable[[int], str], most: int, said: str) -> None:
    """Nesting and lists for which the planner takes minutes are refused, just beyond their limits."""
    check_sql(ParsedText(build(most)), LIMITS)
    with pytest.raises(LimitExceededError, match=said):
        check_sql(ParsedText(build(most + 1)), LIMITS)


def test_deep_but_harmless() -> None:
    """CASE nested in the branches of CASE, and many small queries side by side, are no such nesting."""
    check_sql(ParsedText("SELECT " + "CASE WHEN a THEN 1 ELSE " * 40 + "2" + " END" * 40 + " FROM t"), LIMITS)
    check_sql(ParsedText("SELECT " + ", ".join(["(SELECT max(a) FROM t)"] * 100)), LIMITS)


@pytest.mark.parametrize("sql", ["", ")))", "((((", "CASE CASE END ) END", "WITH (", "AS (", ") AS ( FROM ,"])
def test_broken_sql_does_not_break_the_guard(sql: str) -> None:
    """Unbalanced text is left for the parser to report."""
    check_sql(ParsedText(sql), LIMITS)


def test_tablesample_is_refused() -> None:
    """DataFusion would parse it and return every row, so that a sample costs as much as the whole table."""
    with pytest.raises(UnsupportedError, match=r"TABLESAMPLE at 1:17.*random\(\)"):
        check_sql(ParsedText("SELECT * FROM t TABLESAMPLE SYSTEM (10)"), LimitsConfig())
    check_sql(ParsedText('SELECT t.tablesample, "tablesample" FROM t'), LimitsConfig())


@pytest.mark.parametrize("size", ["5", "(10 ROWS)", "( 1 )", "BERNOULLI (5)", "SYSTEM (5)"])
@pytest.mark.parametrize("table", ["t", '"t"', "t AS u", "(SELECT 1)"])
def test_sample_is_refused(table: str, size: str) -> None:
    """SAMPLE is refused wherever a table ends: DataFusion ignores it, and random() of snowflake is a whole number."""
    with pytest.raises(UnsupportedError, match=r"SAMPLE at 1:\d+.*random\(\) <.*abs\(random\(\)\) < 0.1 \* power"):
        check_sql(ParsedText(f"SELECT * FROM {table} SAMPLE {size}"), LimitsConfig())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sample, t.sample FROM t ORDER BY sample",
        "SELECT sample(5), 1 + sample(5), max(n) sample FROM t WHERE sample(5) > 1",
        "WITH sample(a) AS (SELECT 1) SELECT a FROM sample",
        "SELECT * FROM t sample(a, b) JOIN sample ON sample.a = 5",
    ],
)
def test_other_samples_pass(sql: str) -> None:
    """A column, function, alias or query of that name is no sample."""
    check_sql(ParsedText(sql), LimitsConfig())


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("repeat('x', 2000000000)", 2_000_000_000),
        ("REPEAT ( 'ten bytes!', 30000000 )", 300_000_000),
        ("lpad(concat('a', 'b'), 2000000000, 'y')", 2_000_000_000),
        ("rpad(name, 300000000)", 300_000_000),
        (f"rpad(name, {'9' * 5000})", 10**18 - 1),
        ("array_repeat('xxxxxxxx', 1000000000)", 8_000_000_000),
        ("array_resize([1, 2], 1000000000, 2)", 8_000_000_000),
    ],
)
def test_a_value_beyond_the_memory_is_refused(call: str, size: int) -> None:
    """A number that says by itself how large a value gets is refused before anything is computed."""
    said = rf"makes a value of {size:,} bytes.*can take 268,435,456 .*\[limits\] memory_bytes = 2,147,483,648"
    with pytest.raises(LimitExceededError, match=said):
        check_sql(ParsedText(f"SELECT 1, length({call}) FROM t"), LIMITS)
    check_sql(ParsedText(f"SELECT 1, length({call}) FROM t"), LimitsConfig(memory_bytes=8 * size))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT repeat('x', 2000000000)", "makes a value of"),
        (f"SELECT arrow_cast(1, '{'List(' * 60}Int64{')' * 60}')", "levels deep"),
        (f"WITH {', '.join(_DOUBLED)} SELECT * FROM 'w15'", "parts"),
        ("SELECT input_file_name()", "not supported"),
    ],
)
def test_values_are_checked_in_their_places(sql: str, message: str) -> None:
    """What a value for a parameter can do where it stands is refused as what is written there is."""
    with pytest.raises(FlightLLMError, match=message):
        check_bound(ParsedText(sql), LIMITS)


@pytest.mark.parametrize(
    "call",
    [
        "repeat('x', 268435456)",
        "lpad('two', 268435456)",
        "array_repeat([1, 3000000000, 2], 3)",
        "repeat('x', n, 3000000000)",
        "repeat('x')",
        "repeat(",
        "repeat('x',",
        "repeat FROM (VALUES (1), (3000000000))",
        "substr('x', 3000000000)",
    ],
)
def test_other_numbers_are_no_sizes(call: str) -> None:
    """What is small, computed, or no size at all passes."""
    check_sql(ParsedText(f"SELECT {call}"), LIMITS)


def test_names_of_many_parts() -> None:
    """A name of more parts than DataFusion reads is refused at once; many short names pass."""
    with pytest.raises(LimitExceededError, match="the name that ends at 1:109 has more than 50 parts"):
        check_sql(ParsedText("SELECT " + ".".join(["a"] * 400_000)), LIMITS)
    with pytest.raises(LimitExceededError, match="more than 50 parts"):
        check_sql(ParsedText("SELECT 1 FROM " + " . ".join(['"a"'] * 60)), LIMITS)
    check_sql(ParsedText("SELECT 1 IN (" + ", ".join(["t.a"] * 500) + ")"), LIMITS)
