"""DataFusion's errors as clients see them."""

import pytest

from flightllm.catalog import Catalog, mapped_error
from flightllm.errors import SqlError
from tests.catalogs import read


@pytest.mark.parametrize("call", ["sum('x')", "substr('x', 'a')", "abs('x')"])
def test_wrong_types_are_no_bug(catalog: Catalog, call: str) -> None:
    """A call with wrong types says which fit, and neither names an internal error nor asks to report one."""
    with pytest.raises(SqlError) as caught:
        read(catalog, f"SELECT {call}")
    text = str(caught.value)
    assert "No function matches" in text
    assert "Candidate functions" in text
    for noise in ("Internal error", "bug", "github", "failed to match any signature"):
        assert noise not in text


def test_what_else_is_internal_keeps_its_words() -> None:
    """An internal error of DataFusion keeps what it says without its plea."""
    plea = "This issue was likely caused by a bug in DataFusion's code. Please help: https://x/apache/datafusion/issues"
    assert str(mapped_error(ValueError(f"Internal error: no such slot.\n{plea}"))) == "no such slot"
