"""What requests say of the prompts that follow them."""

from itertools import pairwise
from pathlib import Path

from flightllm.llm.engine import Request, Reuse
from flightllm.operators.prefix_overlap import shared_start
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
