"""Whole statements of BigQuery have the rows of its documentation."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask
from tests.dialect.functions.bigquery_statements import STATEMENTS
from tests.dialect.functions.tables import is_same


@pytest.mark.slow
def test_rows(session: Session) -> None:
    """No statement has other rows, at least 90 of 100 run, and others say what to write."""
    wrong, refused = list[str](), list[str]()
    for text, expected in STATEMENTS:
        try:
            rows = ask(session, text, dialect="bigquery").rows
        except FlightLLMError as error:
            refused.append(f"{text}: {error}")
            continue
        if not is_same(rows, expected):
            wrong.append(f"{text}: {rows}, and BigQuery has {expected}")
    assert not wrong, "\n".join(wrong)
    unhelpful = [one for one in refused if "write" not in one]
    assert not unhelpful, "\n".join(unhelpful)
    assert len(refused) <= len(STATEMENTS) * 0.1, "\n".join(refused)
