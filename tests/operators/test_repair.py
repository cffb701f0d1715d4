"""Unusable answers of a constrained kind are asked for once more."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.config import Config, EngineConfig, FunctionsConfig
from flightllm.llm.engine import Choice, JsonSchema, Request
from flightllm.operators.repair import repair_prompt, repaired
from flightllm.operators.rows import Reading, Response
from flightllm.session.database import Database
from tests.databases import ask, small_database
from tests.using_engines import Scripted, using

SQL = "SELECT id, ai_filter('x', note, on_error => 'struct') AS f FROM people WHERE note IS NOT NULL"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Return a database of small tables."""
    return small_database(tmp_path)


def second(text: str, first: str = "Maybe so") -> Callable[[Request], str]:
    """Answer with `text` whoever asks again, and with `first` otherwise."""
    return lambda request: text if "cannot be used" in request.prompt else first


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_mended(database: Database, optimizer: str) -> None:
    """A second prompt tells the answer and what is wrong with it; its answer is the row's, and counts as a call."""
    engine = Scripted(second("Yes"))
    ran = ask(using(database, engine).session(), SQL, optimizer=optimizer)
    assert [row["f"] for row in ran.rows] == [{"value": True, "error": None}] * 7
    counted = ran.record.row()
    prompts = 4 if optimizer == "on" else 7
    assert (counted["calls"], counted["repairs"], counted["failed_rows"]) == (2 * prompts, prompts, 0)
    firsts = [request.prompt for request in engine.asked if "cannot be used" not in request.prompt]
    seconds = [request.prompt for request in engine.asked if "cannot be used" in request.prompt]
    assert sorted(prompt.split(" Maybe so\n\nThis answer")[0] for prompt in seconds) == sorted(firsts)
    assert all("expected one of Yes, No; got 'Maybe so'" in prompt for prompt in seconds)


PARSED = """
from dataclasses import replace
from pathlib import Path
from flightllm.functions import AIFunction, Kind, Parameter, choice_answer

def build(call):
    answer = choice_answer(call.prompt, ["Yes", "No"])
    def parse(text):
        with Path({log!r}).open("a") as log:
            log.write(f"{{text}}\\n")
        return answer.parse(text)
    return replace(answer, parse=parse)

FUNCTION = AIFunction(
    name="ai_logged", summary="x", returns="varchar", parameters=(Parameter("prompt", Kind.PROMPT),), fields=True,
    build=build,
)
"""
"""A function that writes down each text that it parses."""


def test_each_answer_is_parsed_once(tmp_path: Path) -> None:
    """A function parses each answer once, whether that is usable, asked for again, or the second one."""
    log, folder = tmp_path / "parsed", tmp_path / "functions"
    folder.mkdir()
    (folder / "ai_logged.py").write_text(PARSED.format(log=str(log)), encoding="utf-8")
    functions = FunctionsConfig((folder,))
    database = Database.open(Config(engine=EngineConfig("fake"), functions=functions, data_folder=tmp_path / "data"))
    engine = Scripted(
        lambda asked: "Yes" if "tea" in asked.prompt else "No" if "cannot be used" in asked.prompt else "Hm"
    )
    ask(using(database, engine).session(), "SELECT ai_logged('x', column1) FROM (VALUES ('tea'), ('rain')) AS v")
    assert sorted(log.read_text("utf-8").split()) == ["Hm", "No", "Yes"]
    database.close()


def test_kept_under_the_first_prompt(database: Database) -> None:
    """A mended answer is known to whoever asks the first prompt."""
    ask(using(database, Scripted(second("No"))).session(), SQL)
    again = ask(database.session(), SQL)
    assert (again.calls, {row["f"]["value"] for row in again.rows}) == (0, {False})


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_once(database: Database, optimizer: str) -> None:
    """A second answer that is none either is a row error: nobody asks a third time."""
    ran = ask(using(database, Scripted(second("Perhaps"))).session(), SQL, optimizer=optimizer)
    assert ran.calls == (8 if optimizer == "on" else 14)
    assert {row["f"]["error"] for row in ran.rows} == {"expected one of Yes, No; got 'Perhaps' (asked twice)"}


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_no_budget_for_it(database: Database, optimizer: str) -> None:
    """Within a budget that has no call left the row says what was wrong with its answer."""
    session = using(database, Scripted(second("Yes"))).session()
    one = f"{SQL} AND id = 1"
    ran = ask(session, one, optimizer=optimizer, max_calls="1")
    assert (ran.calls, ran.record.row()["repairs"]) == (1, 0)
    assert ran.rows[0]["f"]["error"] == "expected one of Yes, No; got 'Maybe so'"
    assert ask(session, one, optimizer=optimizer, max_calls="2").rows[0]["f"]["value"] is True


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_switched_off(database: Database, optimizer: str) -> None:
    """With `repair = false` in the engine's configuration nothing is asked again."""
    services = database._services
    config = replace(services.config, engine=replace(services.config.engine, repair=False))
    other = Database(replace(services, config=config), database.queries)
    ran = ask(using(other, Scripted(second("Yes"))).session(), SQL, optimizer=optimizer)
    assert ran.record.row()["repairs"] == 0
    assert {row["f"]["value"] for row in ran.rows} == {None}


def test_texts_are_not_asked_again(database: Database) -> None:
    """A text that is empty is a row error at once."""
    ran = ask(using(database, Scripted(lambda _: " ")).session(), "SELECT ai_gen('x', note) FROM people")
    assert (ran.calls, ran.record.row()["repairs"]) == (4, 0)


@pytest.mark.parametrize("constraint", [Choice(("Yes", "No")), JsonSchema("{}"), Choice(("a" * 600, "b" * 600))])
def test_prompt(constraint: Choice | JsonSchema) -> None:
    """The prompt begins with the first one and ends with its cue; a long answer is shortened."""
    first = "Is it?\n\nnote: a\nAnswer:"
    prompt = repair_prompt(first, Response("Well.\n" * 900), "no option", constraint)
    assert prompt.startswith(f"{first} Well.\n  Well.\n")
    assert prompt.endswith("\nAnswer:")
    assert len(prompt) < 2_000
    assert "\n\nThis answer cannot be used: no option.\nAnswer again with " in prompt


def test_what_a_row_gets() -> None:
    """The second answer counts where there is one."""
    first = Reading(None, "wrong", "wrong")
    assert repaired(first, Reading(True)) == Reading(True)
    assert repaired(first, Reading(None, "gone")) == first
    assert repaired(first, Reading(None, "worse", "worse")).failure == "worse (asked twice)"
