"""ORDER BY of SELECT DISTINCT can repeat an expression of the list."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize("dialect", ["default", "postgres", "snowflake"])
@pytest.mark.parametrize("item", ["upper(name)", "upper(name) AS u", "upper(name) AS name"])
def test_repeated_expression(session: Session, item: str, dialect: str) -> None:
    """The rows are those of the key by its number."""
    query = f"SELECT DISTINCT flag, {item} FROM people ORDER BY"
    found = ask(session, f"{query} (upper(name)) DESC, 1", dialect=dialect).rows
    assert found == ask(session, f"{query} 2 DESC, 1", dialect=dialect).rows


def test_hidden_column(session: Session) -> None:
    """A name in the key is the table's column, as in the list."""
    query = "SELECT DISTINCT -id AS id, id + 0 AS plus FROM people ORDER BY id + 0"
    assert [row["plus"] for row in ask(session, query).rows] == list(range(1, 10))


def test_other_keys(session: Session) -> None:
    """A key that is not in the list stays an error."""
    with pytest.raises(FlightLLMError, match="must appear in select list"):
        ask(session, "SELECT DISTINCT flag FROM people ORDER BY id + 1")
