"""CREATE EXTERNAL TABLE as text: its parts, and what is wrong with others."""

import pytest

from flightllm.common.names import TableName
from flightllm.errors import SqlError
from flightllm.sql.classify import classify
from flightllm.sql.parsed_text import ParsedText


def test_parts() -> None:
    """Name, format, location and what to do with one that exists; comments and letter case do not matter."""
    read = classify(ParsedText("CREATE EXTERNAL TABLE Logs STORED AS parquet LOCATION '/data/it''s/';"))
    assert (read.kind, read.target, read.is_update) == ("create_external", TableName("public", "logs"), True)
    assert dict(read.options) == {"format": "parquet", "location": "/data/it's/"}
    told = classify(
        ParsedText("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x' OPTIONS ('Delimiter' ';', header = true)")
    )
    assert dict(told.options) == {
        "format": "csv",
        "location": "x",
        "option delimiter": ";",
        "option header": "true",
    }
    replacing = classify(
        ParsedText("/* x */ create or replace -- y\n external table a.\"B\" stored as CSV location 'x'")
    )
    assert (replacing.target, replacing.or_replace, replacing.exists_ok) == (TableName("a", "B"), True, False)
    assert classify(ParsedText("CREATE EXTERNAL TABLE IF NOT EXISTS t STORED AS JSON LOCATION 's3://b/'")).exists_ok


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("t (a INT) STORED AS CSV LOCATION 'x'", "takes its columns from its files"),
        ("t STORED AS AVRO LOCATION 'x'", "one of parquet, csv, json, arrow"),
        ("t LOCATION 'x'", "STORED AS was expected: .*; found 'LOCATION'"),
        ("t STORED AS CSV", "LOCATION was expected: .*; found the end of the statement"),
        ("t STORED CSV", "STORED AS was expected: .*; found 'CSV'"),
        ("t STORED AS CSV LOCATION x", "in single quotes"),
        ("t STORED AS CSV LOCATION 'x' PARTITIONED BY (a)", "nothing can follow"),
        ("t STORED AS", "one of parquet"),
    ],
)
def test_mistakes(rest: str, message: str) -> None:
    """What is missing, unknown or too much is named, with how to write it."""
    with pytest.raises(SqlError, match=message) as raised:
        classify(ParsedText(f"CREATE EXTERNAL TABLE {rest}"))
    assert "CREATE EXTERNAL TABLE name STORED AS" in str(raised.value)
