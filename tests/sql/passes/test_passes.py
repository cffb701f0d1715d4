"""What holds for all passes together."""

from pathlib import Path

import pytest

from flightllm.errors import FlightLLMError
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import passed
from tests.sql.reference.answers import read

TEXTS = Path(__file__).parents[1] / "reference" / "rows"


@pytest.mark.parametrize("path", sorted(TEXTS.iterdir()), ids=lambda path: path.stem)
def test_a_second_time_changes_nothing(path: Path) -> None:
    """The text of a view passes when the view is made, and again when its plan is made."""
    for text in read(path)[::4]:
        try:
            once = passed(ParsedText(text.sql), lambda _: ())
        except FlightLLMError:
            continue
        assert passed(once, lambda _: ()).sql == once.sql


def test_a_query_inside_another_statement() -> None:
    """The parser does not read each statement of the server; the passes then read its query."""
    text = ParsedText("SUMMARIZE -- all\nSELECT a IS DISTINCT FROM 1 AND b AS c FROM t -- end")
    assert passed(text, lambda _: ()).sql == "SUMMARIZE -- all\nSELECT (a IS DISTINCT FROM 1) AND b AS c FROM t -- end"
