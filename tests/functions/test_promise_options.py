"""The options of a promise, in calls that can make one and in calls that cannot."""

from collections.abc import Iterator

import pytest

from flightllm.errors import AICallError
from flightllm.functions import QUALITY
from flightllm.functions.base import AIFunction
from flightllm.functions.bind import _PROMISERS
from flightllm.functions.registry import FunctionRegistry
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session of a database without tables."""
    database: Database = small_database(tmp_path_factory.mktemp("promises"), {})
    yield database.session()
    database.close()


@pytest.mark.parametrize(
    "option", ["recall => 0.9", "Precision => 0.9", "accuracy => 0.9", "label_budget => 9", "proxy => 'm'"]
)
@pytest.mark.parametrize("call", ["ai_gen('Say', s, …)", "ai_gen('Say {s}', s => s, …)"])
def test_other_calls_have_no_promise(session: Session, call: str, option: str) -> None:
    """A model would read the option as a field of the prompt, so the error names the calls that take it."""
    name = option.split(maxsplit=1)[0].lower()
    with pytest.raises(AICallError, match=rf"{name} belongs to a promise, which ai_gen cannot make: ai_filter,.*=> "):
        ask(session, f"SELECT {call.replace('…', option)} FROM (SELECT 'x' AS s) AS t")


@pytest.mark.parametrize(
    "call", ["ai_gen('Say {recall}', recall => 0.9)", "ai_gen('Say', recall => (0.9))", "ai_gen('Say', recall => r)"]
)
def test_fields_with_the_name_of_an_option(session: Session, call: str) -> None:
    """In braces, in parentheses or as a column, the name is a field's."""
    assert len(ask(session, f"SELECT {call} AS a FROM (SELECT 0.5 AS r) AS t").rows) == 1


def test_calls_with_a_promise_are_listed() -> None:
    """The error names each function that has the options."""
    functions = [one for one in FunctionRegistry.load() if isinstance(one, AIFunction)]
    assert {one.name for one in functions if QUALITY[0] in one.all_options} == set(
        _PROMISERS.replace(" and ", ", ").split(", ")
    )
