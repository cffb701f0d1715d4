"""Where the statements of the page's text are."""

from collections.abc import Callable

from flightllm.web.splitting import split
from tests.web.support import Visitor


def test_places() -> None:
    """Places are those of a browser, where a letter beyond 16 bits counts twice; comments before do not belong."""
    text = "-- 𝒳; first\nSELECT '𝒳;' ;\n\n/* ; */ SELECT 2 -- end\n;;"
    units = text.encode("utf-16-le")
    found = [(one["line"], units[2 * one["begin"] : 2 * one["end"]].decode("utf-16-le")) for one in split(text)]
    assert found == [(2, "SELECT '𝒳;'"), (4, "SELECT 2 -- end")]
    assert split("-- nothing") == []


def test_an_open_quote() -> None:
    """A text that is not SQL is one statement, so that the server tells what is wrong with it."""
    assert split("SELECT 1; SELECT 'open; SELECT 2") == [{"begin": 0, "end": 32, "line": 1}]


def test_who_can_ask(visit: Callable[[str], Visitor], page: str) -> None:
    """A user who signed in gets the places, and another visitor does not."""
    assert len(visit("ann").post("/api/split", {"sql": "SELECT 1; SELECT 2"})[1]["statements"]) == 2
    assert Visitor(page).post("/api/split", {"sql": "SELECT 1"})[0] == 401
