"""What requests say of the prompts around them, and what the log has of prompts and answers."""

import logging
from itertools import pairwise
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from flightllm.common.text import shared_start
from flightllm.config import LogConfig
from flightllm.llm.engine import Request, Reuse
from flightllm.log import configure_logging
from flightllm.operators.prompt_sender import PrefixOverlap
from tests.databases import ask, small_database
from tests.using_engines import Scripted, using


def asked(folder: Path, sql: str, answer: str = "a note", **settings: str) -> list[Request]:
    """Return the requests of a query, in the order in which they were sent."""
    engine = Scripted(lambda _: answer)
    ask(using(small_database(folder, {}), engine).session(), sql, **settings)
    return engine.asked


def reuses(requests: list[Request]) -> list[Reuse]:
    """Return what requests say of those that follow."""
    assert all(request.reuse is not None for request in requests)
    return [request.reuse for request in requests if request.reuse is not None]


def test_prompts_of_a_pass(tmp_path: Path) -> None:
    """Numbers ascend in the order of sending; what is ahead is what the next prompt has too, unknown for the last."""
    requests = asked(tmp_path, "SELECT ai_gen('Tell what this note is about.', note) FROM people")
    found = reuses(requests)
    numbers = [reuse.number for reuse in found]
    assert numbers == sorted(set(numbers))
    assert len({(reuse.query, reuse.site) for reuse in found}) == 1
    following = [shared_start(one.prompt, other.prompt) for one, other in pairwise(requests)]
    assert [reuse.ahead for reuse in found] == [*following, None]


def test_passes_and_sites(tmp_path: Path) -> None:
    """Two runs of a query are told apart and have the same call sites; another instruction is another site."""
    sql = "SELECT ai_gen('Sum up', note), ai_gen('Mock', note) FROM people"
    first = reuses(asked(tmp_path / "first", sql))
    second = reuses(asked(tmp_path / "second", sql))
    assert not {reuse.query for reuse in first} & {reuse.query for reuse in second}
    assert {reuse.site for reuse in first} == {reuse.site for reuse in second}
    assert len({reuse.site for reuse in first}) == 2


def test_sites_in_turn(tmp_path: Path) -> None:
    """Of the last prompt before those of another call nobody knows what is ahead: its own call may come back."""
    sql = "SELECT ai_gen('Sum it up', note), ai_gen('Sum it and mock it', note) FROM people"
    requests = asked(tmp_path, sql, layout="instruction")
    turns = [one.reuse for one, other in pairwise(requests) if one.instruction != other.instruction]
    assert [reuse.ahead for reuse in turns if reuse] == [None]


def test_fields_that_come_again(tmp_path: Path) -> None:
    """With the fields first a filter's prompts tell that the next filter over the same fields comes back to them."""
    sql = "SELECT id FROM people WHERE ai_filter('Is it good?', note) AND ai_filter('Is it long?', note)"
    requests = asked(tmp_path, sql, "Yes", layout="fields")
    first, second = requests[:4], requests[4:]
    assert len({one.instruction for one in first}) == len({one.instruction for one in second}) == 1
    fields = [len(f"note: {one.fields[0][1]}\n") for one in first]
    assert [reuse.ahead for reuse in reuses(first)] == [*fields[:-1], None]
    following = [shared_start(one.prompt, other.prompt) for one, other in pairwise(second)]
    assert [reuse.ahead for reuse in reuses(second)] == [*following, None]


def test_before_and_after() -> None:
    """The longer of both starts recurs, that with the next prompt is ahead; one held back counts as itself."""
    neighbours = PrefixOverlap()
    assert neighbours.shared("story one", "story two") == (6, 6)
    assert neighbours.shared("story two", "strange") == (6, 2)
    assert neighbours.shared("story two", "strange") == (6, 2)
    assert neighbours.shared("strange", "strangers") == (7, 7)
    assert neighbours.shared("strangers", None) == (7, None)
    assert neighbours.shared("other", None) == (0, None)


def test_another_comes_first() -> None:
    """Prompts that go first after all are compared with what was asked before them, not with what was expected."""
    neighbours = PrefixOverlap()
    assert neighbours.shared("story one", "story two") == (6, 6)
    assert neighbours.shared("strange", "story two") == (2, 2)
    assert neighbours.shared("story two", None) == (2, None)
    assert neighbours.shared("story two", "story three") == (7, 7)


def test_prompts_of_a_query(tmp_path: Path) -> None:
    """Every prompt that a query sends says how much of it recurs: what it has with the one before or after it."""
    engine = Scripted(lambda _: "a note")
    database = using(small_database(tmp_path / "data", {}), engine)
    ask(database.session(), "SELECT ai_gen('Tell what this note is about.', note) FROM people")
    prompts = [request.prompt for request in engine.asked]
    assert len(prompts) == 4
    with_next = [shared_start(one, other) for one, other in pairwise(prompts)]
    assert [request.recurs for request in engine.asked] == list(map(max, [0, *with_next], [*with_next, 0]))
    assert min(with_next) > len("Tell what this note is about.")


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("level", ["debug", "info"])
def test_levels(tmp_path: Path, level: str, optimizer: str) -> None:
    """At debug level there is an event per prompt and one per answer; above it no text of either is logged."""
    configure_logging(LogConfig(level=level))
    database = small_database(tmp_path)
    with capture_logs() as events:
        ask(database.session(), "SELECT ai_gen('x', note) FROM people WHERE id IN (1, 5)", optimizer=optimizer)
    database.close()
    sent = {event["prompt_id"]: event["prompt"] for event in events if event["event"] == "prompt sent"}
    answers = {event["prompt_id"]: event["answer"] for event in events if event["event"] == "answer received"}
    if level == "debug":
        assert sorted(sent.values()) == ["x\n\nnote: likes tea\nAnswer:", "x\n\nnote: owns a cat\nAnswer:"]
        assert sent.keys() == answers.keys()
        assert all(answers.values())
    else:
        assert "tea" not in str(events)


def test_unconfigured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody set logging up, nothing is printed of prompts, although structlog prints every level then."""
    assert structlog.get_logger().bind().is_enabled_for(logging.DEBUG)
    database = small_database(tmp_path)
    ask(database.session(), "SELECT ai_gen('x', note) FROM people")
    database.close()
    printed = capsys.readouterr().out
    assert "query done" in printed
    assert "tea" not in printed
