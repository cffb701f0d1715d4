"""The variance of one value that is not finite is NaN."""

import math

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_one_value(session: Session, value: str) -> None:
    """One NaN or infinite value has no variance of 0; one finite value has."""
    given = f"(VALUES (1, CAST('{value}' AS DOUBLE)), (2, CAST(5 AS DOUBLE))) v(n, d)"
    sql = f"SELECT n, var_pop(d) AS v, stddev_pop(d) AS s, sum(d) AS t FROM {given} GROUP BY n ORDER BY n"
    one, two = rows(session, sql)
    assert math.isnan(one["v"])
    assert math.isnan(one["s"])
    assert two == {"n": 2, "v": 0, "s": 0, "t": 5}
