"""Which prompts of a query go before those of others."""

from collections import Counter
from pathlib import Path

import pytest

from flightllm.common.priority import INTERACTIVE_PROMPTS, Precedence
from tests.databases import ask, open_database
from tests.using_engines import Scripted, using


def test_auto() -> None:
    """A query's first prompts go before what others send later."""
    precedence = Precedence()
    seen = []
    for _ in range(100):
        seen.append(precedence.now)
        precedence.sent()
    assert seen == [0] * INTERACTIVE_PROMPTS + [1] * (100 - INTERACTIVE_PROMPTS)


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize(
    ("priority", "expected"), [("auto", {0: 64, 1: 136}), ("interactive", {0: 200}), ("bulk", {1: 200})]
)
def test_setting(tmp_path: Path, optimizer: str, priority: str, expected: dict[int, int]) -> None:
    """Requests carry what the session says, all calls of a query counted together."""
    database = open_database(tmp_path)
    engine = Scripted(lambda _: "x")
    session = using(database, engine).session()
    session.update("CREATE TABLE t AS SELECT value::text AS a FROM generate_series(1, 100)")
    sql = "SELECT ai_gen('Sum up', a), ai_gen('Go on', a) FROM t"
    ask(session, sql, priority=priority, optimizer=optimizer, cache="off")
    assert Counter(request.priority for request in engine.asked) == expected
    session.close()
    database.close()
