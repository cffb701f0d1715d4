"""WITH ROLLUP and WITH CUBE after the keys of GROUP BY have the rows of ROLLUP (…) and CUBE (…)."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, canonical

PAIRS = (
    ("note", "note WITH ROLLUP", "ROLLUP (note)"),
    ("note, flag", "note, flag WITH ROLLUP", "ROLLUP (note, flag)"),
    ("note, flag", "1, 2 WITH ROLLUP", "ROLLUP (note, flag)"),
    ("note, flag", "note, flag WITH CUBE", "CUBE (note, flag)"),
    ("note, flag", "note, flag WITH CUBE HAVING count(*) > 1", "CUBE (note, flag) HAVING count(*) > 1"),
)
"""The keys of a query, the text after GROUP BY, and the same sets in the words of the standard."""


@pytest.mark.parametrize(("keys", "after", "sets"), PAIRS)
@pytest.mark.parametrize("dialect", ["default", "spark", "databricks"])
def test_rows_of_the_sets(session: Session, keys: str, after: str, sets: str, dialect: str) -> None:
    """The words after the keys add the rows of the sets."""
    query = f"SELECT {keys}, count(*) AS n FROM people GROUP BY"
    found = ask(session, f"{query} {after}", dialect=dialect).table
    having = after.partition("HAVING")[2]
    plain = ask(session, f"{query} {keys}{having and ' HAVING'}{having}").table
    assert canonical(found) == canonical(ask(session, f"{query} {sets}").table)
    assert found.num_rows > plain.num_rows


def test_sets_after_the_keys(session: Session) -> None:
    """GROUPING SETS without a comma are all sets."""
    query = "SELECT note, flag, count(*) AS n FROM people GROUP BY"
    found = ask(session, f"{query} note, flag GROUPING SETS ((note), (flag), ())").table
    assert canonical(found) == canonical(ask(session, f"{query} GROUPING SETS ((note), (flag), ())").table)


@pytest.mark.parametrize("after", ["note WITH TOTALS", "ALL WITH ROLLUP"])
def test_other_words(session: Session, after: str) -> None:
    """Words without a meaning here are an error that names the line to write."""
    with pytest.raises(FlightLLMError, match=r"write the columns, as in GROUP BY ROLLUP \(a, b\)"):
        ask(session, f"SELECT note, count(*) FROM people GROUP BY {after}")
