"""What holds for all passes together."""

import pyarrow as pa
import pytest

from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import passed


def test_a_query_inside_another_statement() -> None:
    """The parser does not read each statement of the server; the passes then read its query."""
    text = ParsedText("SUMMARIZE -- all\nSELECT a IS DISTINCT FROM 1 AND b AS c FROM t -- end")
    assert passed(text, lambda _: {}).sql == "SUMMARIZE -- all\nSELECT (a IS DISTINCT FROM 1) AND b AS c FROM t -- end"


def test_parameters_keep_their_numbers() -> None:
    """A pass can move or copy a parameter, so each one gets its number where a pass changes the text."""
    moved = ParsedText("SELECT -x AS x FROM t WHERE y > ? ORDER BY x + ?")
    assert passed(moved, lambda _: {"x": pa.int64(), "y": pa.int64()}).sql == (
        'SELECT "column 1" AS x FROM (SELECT -x AS "column 1", x + $2 AS "key 1" FROM t WHERE y > $1) AS "rows"'
        ' ORDER BY "key 1"'
    )
    same = "SELECT a FROM t WHERE b > ? AND c IN (?)"
    assert passed(ParsedText(same), lambda _: {}).sql == same


def test_two_signs_begin_no_comment() -> None:
    """The parser's printer writes two signs without a space between them."""
    assert passed(ParsedText("SELECT 2 ^ 3 AS a, - - b AS c"), lambda _: {}).sql.endswith("AS a, - (- b) AS c")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT d FROM generate_series(current_date - interval '2 days', current_date, interval '1 day') AS s (d)",
        "SELECT t.g AS k, max(t.x) AS x FROM t GROUP BY k ORDER BY max(t.x), k",
        "SELECT {'a': id} AS rec, x || '!' AS a FROM t ORDER BY rec.a",
    ],
)
def test_texts_that_stay(sql: str) -> None:
    """These have the rows of PostgreSQL without a pass, and not with it."""
    assert passed(ParsedText(sql), lambda _: {"a": pa.int64(), "g": pa.string(), "x": pa.string()}).sql == sql
