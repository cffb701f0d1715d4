"""The check of an UNPIVOT's types notices a plan that it cannot read."""

import pytest
from datafusion import SessionContext

from flightllm.errors import InternalError, SqlError
from flightllm.sql.unpivot_types import check_types, typed_alike


def _told(columns: str, *names: str) -> str:
    sql = f"SELECT * FROM (SELECT {columns}) WHERE {typed_alike('1:1', names)}"
    return SessionContext().sql(sql).logical_plan().display_indent_schema()


def test_alike() -> None:
    """Columns of one type pass, and a text that only looks like a mark is not one."""
    check_types(lambda: _told("1 AS a, 2 AS b", "a", "b"))
    check_types(lambda: _told("""'UNPIVOT at 1:1 of "a"' AS a""", "a"))


def test_mixed() -> None:
    """Columns of texts and numbers are refused."""
    with pytest.raises(SqlError, match="the column b holds texts and a holds Int64"):
        check_types(lambda: _told("1 AS a, '2' AS b", "a", "b"))


@pytest.mark.parametrize(
    ("before", "after"),
    [("Filter:", "Where:"), ('Utf8("\ufdd2UNPIVOT', 'Text("\ufdd2UNPIVOT'), ("a:Int64, b:", "a Int64, b ")],
)
def test_another_form_of_plan(before: str, after: str) -> None:
    """A plan whose text has another form is an error; it does not pass unchecked."""
    told = _told("1 AS a, '2' AS b", "a", "b")
    assert before in told
    with pytest.raises(InternalError, match="DataFusion shows"):
        check_types(lambda: told.replace(before, after))
