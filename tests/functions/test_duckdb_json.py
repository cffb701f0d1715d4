"""JSON texts have DuckDB's writing."""

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.functions.duckdb_json import duckdb_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ "a" : [ 1 , {"b": null} ] }', '{"a":[1,{"b":null}]}'),
        (
            "[1.50, 1e20, 1e21, 1E5, 0.1e-7, 1e-5, -0, -0.0]",
            "[1.5,100000000000000000000.0,1e21,100000.0,1e-8,0.00001,0,-0.0]",
        ),
        ("[123456789012345678901]", "[123456789012345678901]"),
        (r'["\u00e9\/", "a  b: 1.50"]', '["é/","a  b: 1.50"]'),
        ("{a}", "{a}"),
        (None, None),
    ],
)
def test_writing(text: str | None, expected: str | None) -> None:
    """Spaces between parts go, numbers are short, and texts stay; what is not JSON stays."""
    assert duckdb_json(pa.array([text], pa.string())).to_pylist() == [expected]


def test_a_name_twice_among_many() -> None:
    """The error says the repeated name of an inner object of many names."""
    names = ", ".join(f'"n{place}": 1' for place in range(60_000))
    with pytest.raises(SqlError, match="has the name 'last' twice"):
        duckdb_json(pa.array([f'[{{{names}, "last": 1, "last": 2}}]']))
