"""DataFusion's errors as clients see them."""

import pytest

from flightllm.catalog import Catalog, mapped_error
from flightllm.datafusion.errors import panics_mapped, plain_text
from flightllm.errors import LimitExceededError, SqlError, UnsupportedError
from tests.catalogs import read


@pytest.mark.parametrize("call", ["sum('x')", "substr('x', 'a')", "abs('x')"])
def test_wrong_types_are_no_bug(catalog: Catalog, call: str) -> None:
    """A call with wrong types says which fit, and neither names an internal error nor asks to report one."""
    with pytest.raises(SqlError) as caught:
        read(catalog, f"SELECT {call}")
    text = str(caught.value)
    assert "No function matches" in text
    assert "Candidate functions" in text
    for noise in ("Internal error", "bug", "github", "failed to match any signature"):
        assert noise not in text


@pytest.mark.parametrize(
    ("sql", "error", "said"),
    [
        ("SELECT sum(count(*)) FROM (VALUES (1))", SqlError, r"cannot be nested, as in sum\(…\): write the inner one"),
        ("SELECT EXISTS (SELECT 1)", UnsupportedError, r"EXISTS and IN \(SELECT …\) can be in WHERE and HAVING only"),
        ("SELECT CASE WHEN 1 IN (SELECT 1) THEN 2 END", UnsupportedError, r"write \(SELECT count\(\*\) FROM"),
        ("SELECT column1 FROM (VALUES (1)) ORDER BY column1 IN (SELECT 1)", SqlError, "in WHERE and HAVING only"),
        ("SELECT 1 FROM (VALUES (1)) t(x), LATERAL (SELECT x + 1)", UnsupportedError, "in FROM cannot compute with"),
        ("SELECT 1 FROM (SELECT [1] AS x) t, UNNEST(t.x) u", UnsupportedError, r"as in SELECT id, unnest\(list\)"),
        (
            "SELECT now() > '2024-01-02 10:05'",
            SqlError,
            "'2024-01-02 10:05' has no seconds: write '2024-01-02 10:05:00'",
        ),
    ],
)
def test_what_to_write(catalog: Catalog, sql: str, error: type[Exception], said: str) -> None:
    """An error that names parts of DataFusion's plans says what to write instead."""
    with pytest.raises(error, match=said):
        read(catalog, sql)
    instead = (
        "SELECT (SELECT count(*) FROM (VALUES (1)) AS v(a) WHERE a = b) > 0 AS found FROM (VALUES (1), (2)) AS w(b)"
    )
    assert sorted(row["found"] for row in read(catalog, instead)) == [False, True]


def test_what_else_is_internal_keeps_its_words() -> None:
    """An internal error of DataFusion keeps what it says without its plea."""
    plea = "This issue was likely caused by a bug in DataFusion's code. Please help: https://x/apache/datafusion/issues"
    assert str(mapped_error(ValueError(f"Internal error: no such slot.\n{plea}"))) == "no such slot"


def test_a_list_of_fields_ends_with_one_full_stop() -> None:
    """A second full stop after a list of fields is dropped."""
    said = "Schema error: No field named x. Valid fields are c.a, c.b.."
    assert str(mapped_error(ValueError(said))) == "No field named x. Valid fields are c.a, c.b."


@pytest.mark.parametrize(
    "value",
    ["." * 2_000_000, " " * 2_000_000, "Internal error: Function 'x' failed to match any signature" * 20_000],
    ids=["dots", "blanks", "signatures"],
)
def test_long_values(value: str) -> None:
    """An error that quotes a value of megabytes is shortened, and takes no time that grows with its square."""
    text = str(
        mapped_error(ValueError(f"Arrow error: Cast error: Cannot cast string 'x{value}x' to value of Int32 type"))
    )
    assert text.startswith("Cast error: Cannot cast string 'x")
    assert text.endswith("x' to value of Int32 type")
    assert len(text) < 20_000


def test_too_deep_for_python() -> None:
    """A plan that is too deep for Python's stack is a limit of the server, and the error says to split it."""
    with pytest.raises(LimitExceededError, match="split it into several statements"), panics_mapped():
        raise RecursionError


def test_types_of_times() -> None:
    """Types of times have SQL's names."""
    error = Exception('no avg(Interval(MonthDayNano), Duration(ns)) of Timestamp(ns) and Timestamp(ns, "UTC") or "a"')
    wanted = 'no avg(interval, interval) of timestamp and timestamp with time zone or "a"'
    assert plain_text(error) == wanted
