"""`substr` takes whole numbers of all sizes, and refuses other values as before."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import ask

SIZES = ("tinyint", "smallint", "int", "bigint", "tinyint unsigned", "smallint unsigned", "int unsigned")


@pytest.mark.parametrize(
    ("form", "wanted"),
    [("substr(t, {})", "bcd"), ("substring(t, {0}, {0})", "bc"), ("substring(t FROM {0} FOR {0})", "bc")],
)
def test_sizes(session: Session, form: str, wanted: str) -> None:
    """Each size of whole numbers gives the value of BIGINT, under the same name."""
    items = ", ".join(f"{form.format(f'n{place}')} AS v{place}" for place in range(len(SIZES)))
    columns = ", ".join(f"CAST(2 AS {size}) AS n{place}" for place, size in enumerate(SIZES))
    found = ask(session, f"SELECT {items} FROM (SELECT 'abcd' AS t, {columns})").rows[0]
    assert set(found.values()) == {wanted}
    (unnamed,) = ask(session, "SELECT substr(t, n) FROM (SELECT 'abcd' AS t, CAST(2 AS smallint) AS n)").rows
    assert unnamed == {"substr(t, n)": "bcd"}


@pytest.mark.parametrize("value", ["1.5", "CAST(1 AS double)", "'a'", "true"])
def test_other_values(session: Session, value: str) -> None:
    """A fraction, a text and a boolean are no places."""
    with pytest.raises(SqlError, match="substr"):
        ask(session, f"SELECT substr(t, {value}) FROM (SELECT 'abcd' AS t)")
