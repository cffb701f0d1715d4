"""Aggregates that collect different values give them in order."""

from flightllm.session.session import Session
from tests.databases import rows


def test_order(session: Session) -> None:
    """The values are in order, also with FILTER; a client's own order stays."""
    sql = """SELECT array_agg(DISTINCT name) AS a, string_agg(DISTINCT note, '+') FILTER (WHERE id > 1) AS b,
        array_agg(DISTINCT name ORDER BY name DESC NULLS LAST) AS c FROM people WHERE id < 8"""
    names = ["Ann", "Bob", "Dan", "Eve"]
    wanted = {"a": [*names, None], "b": "hates rain+likes tea+owns a cat", "c": [*names[::-1], None]}
    assert rows(session, sql) == [wanted]
