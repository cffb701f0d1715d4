"""What holds for all passes together."""

from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import passed


def test_a_query_inside_another_statement() -> None:
    """The parser does not read each statement of the server; the passes then read its query."""
    text = ParsedText("SUMMARIZE -- all\nSELECT a IS DISTINCT FROM 1 AND b AS c FROM t -- end")
    assert passed(text, lambda _: {}).sql == "SUMMARIZE -- all\nSELECT (a IS DISTINCT FROM 1) AND b AS c FROM t -- end"
