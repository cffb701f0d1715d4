"""Loading functions from folders, and what is wrong with a folder or file; functions without a model in views."""

from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.errors import AICallError, ConfigError, SqlError
from flightllm.functions import FunctionRegistry
from flightllm.functions.bind import AnyNames
from flightllm.session.session import Session
from flightllm.sql.calls import extract_calls
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, open_database

HEADLINE = """
from dataclasses import dataclass
from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, text_answer

@dataclass(frozen=True, slots=True)
class Style:
    words: "int"

def build(call: Arguments) -> Answer:
    return text_answer(f"Write a headline of {Style(call.integer('words')).words} words.")

FUNCTION = AIFunction(
    name="headline", summary="s", returns="text", parameters=(Parameter("article", Kind.FIELD),),
    options=(Option("words", int, 8, low=1),), build=build, aliases={"ai_headline": None},
)
"""
VIEWS = [
    ("CREATE VIEW v AS SELECT id, j -> 'a' ->> 'b' AS b FROM docs", "SELECT b FROM v ORDER BY id"),
    ("CREATE VIEW v (id, b) AS SELECT id, json_get(j, 'a', 'b') FROM docs", "SELECT b FROM v ORDER BY id"),
    (
        "CREATE VIEW v AS SELECT id, (j -> 'a' -> 'b')::text AS b FROM docs",
        "SELECT repeat(b, id) AS b FROM v ORDER BY id",
    ),
    ("CREATE VIEW v AS SELECT id, repeat(j -> 'a' ->> 'b', id) AS b FROM docs", "SELECT b FROM v ORDER BY id"),
]


def test_a_file_adds_a_function(tmp_path: Path) -> None:
    """A file dropped into a folder is found by name and alias; files that begin with _ are left alone."""
    (tmp_path / "headline.py").write_text(HEADLINE)
    (tmp_path / "_draft.py").write_text("1 / 0")
    registry = FunctionRegistry.load([tmp_path])
    function = registry.get("Headline")
    assert function is not None
    assert registry.get("ai_headline") is function
    assert registry.get("ai_filter") is not None
    assert [entry.name for entry in registry].count("headline") == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("def (", "SyntaxError"),
        ("", "needs FUNCTION"),
        ("FUNCTION = 1", "needs FUNCTION"),
        ("from flightllm.functions import AIFunction\nFUNCTION = AIFunction(name='x')", "missing 4 required"),
        (HEADLINE.replace('"headline"', '"Head line"'), "not a function name"),
        (HEADLINE.replace('"headline"', '"ai_filter"'), "already defined in .*ai_filter.py"),
        (HEADLINE.replace('"ai_headline"', '"llm"'), "already defined in .*ai_gen.py"),
    ],
)
def test_bad_files(tmp_path: Path, source: str, message: str) -> None:
    """Whatever is wrong with a file is a configuration error that names it."""
    (tmp_path / "bad.py").write_text(source)
    with pytest.raises(ConfigError, match=f"bad.py: .*{message}"):
        FunctionRegistry.load([tmp_path])


def test_missing_folder(tmp_path: Path) -> None:
    """A folder that does not exist is a configuration error that names it."""
    with pytest.raises(ConfigError, match=r"functions\.folders: .*nowhere"):
        FunctionRegistry.load([tmp_path / "nowhere"])


def test_suggestions() -> None:
    """An unknown name gets near ones."""
    assert "ai_filter" in FunctionRegistry.load().suggest("AI_FLTER")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ("lambda call: call.nothing", "build failed with AttributeError: .*nothing"),
        ("lambda call: 'a text'", "build must return an Answer, not str"),
    ],
)
def test_a_faulty_build_is_named(tmp_path: Path, build: str, message: str) -> None:
    """A defect in a function's file comes out as an error of the call, which says what failed."""
    (tmp_path / "ai_faulty.py").write_text(
        "from flightllm.functions import AIFunction, Kind, Parameter\n"
        "FUNCTION = AIFunction(name='ai_faulty', summary='Fail.', returns='text',\n"
        f"    parameters=(Parameter('input', Kind.FIELD),), build={build})\n"
    )
    registry = FunctionRegistry.load([tmp_path])
    with pytest.raises(AICallError, match=f"ai_faulty at 1:8.*{message}"):
        extract_calls(ParsedText("SELECT ai_faulty(a) FROM t"), registry, lambda _: ["a"], names=AnyNames())


OWN_JSON = """
import pyarrow as pa
from flightllm.functions import ScalarFunction

FUNCTION = ScalarFunction(
    name="json_extract", summary="s", returns="text", arguments=(pa.string(),), output=pa.string(),
    bind=lambda _: lambda texts: texts,
)
"""


def test_own_names_and_json(tmp_path: Path) -> None:
    """The registry tells which names are a folder's own; one of these can be that of a shipped json function."""
    (tmp_path / "headline.py").write_text(HEADLINE)
    (tmp_path / "json_extract.py").write_text(OWN_JSON)
    registry = FunctionRegistry.load([tmp_path])
    assert registry.own_names == {"headline", "ai_headline", "json_extract"}
    assert [len(one.arguments) for one in registry.scalars() if one.name == "json_extract"] == [1]
    (tmp_path / "again.py").write_text(OWN_JSON)
    with pytest.raises(ConfigError, match=r"already defined in .*again\.py"):
        FunctionRegistry.load([tmp_path])
    assert not FunctionRegistry.load().own_names


def _make(session: Session) -> None:
    session.update(
        """CREATE TABLE docs AS SELECT * FROM (VALUES (1, '{"a": {"b": 7}}'), (2, '{"a": 1}')) AS t (id, j)"""
    )


@pytest.mark.parametrize(("made", "read"), VIEWS)
def test_views(tmp_path: Path, made: str, read: str) -> None:
    """A view that reads JSON has its rows, in a process of its own and after a restart too."""
    for restarted in (False, True):
        database = open_database(tmp_path)
        session = database.session()
        try:
            if not restarted:
                _make(session)
                session.update(made)
            assert ask(session, read).rows == [{"b": "7"}, {"b": None}]
            assert session.describe("SELECT * FROM v").schema.names == ["id", "b"]
            asked = ask(session, "SELECT ai_gen('x', b) AS g FROM v")
            assert (asked.calls, asked.cache_hits) == ((0, 1) if restarted else (1, 0))
        finally:
            database.close()


def test_views_and_filters_of_others(tmp_path: Path) -> None:
    """Somebody else reads such a view over the rows that a filter on JSON leaves."""
    database = open_database(tmp_path)
    try:
        _make(session := database.session())
        session.update(VIEWS[0][0])
        database.access.store.add_user(User("ann", "user"))
        session.update("GRANT SELECT ON docs TO ann")
        session.update("GRANT SELECT ON v TO ann")
        session.update("CREATE ROW FILTER ON docs TO ann AS j -> 'a' ->> 'b' = '7'")
        ann = database.session(Principal("ann", "user"))
        assert ask(ann, "SELECT id FROM docs").rows == [{"id": 1}]
        assert ask(ann, "SELECT b FROM v").rows == [{"b": "7"}]
        assert ask(ann, "SELECT repeat(b, 2) AS r FROM v").rows == [{"r": "77"}]
    finally:
        database.close()


def test_unknown_functions_are_told(tmp_path: Path) -> None:
    """A view with a function that there is not is refused when it is made."""
    database = open_database(tmp_path)
    try:
        with pytest.raises(SqlError, match="json_nothing"):
            database.session().update("CREATE VIEW v AS SELECT json_nothing('{}') AS x")
    finally:
        database.close()
