"""Code blocks of README and the pages of the documentation: SQL runs, commands and configurations are read."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from docs import generate
from flightllm.access.store import User
from flightllm.cli import main
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.engines.options import read_options
from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from tests.databases import SAMPLES
from tests.docs.pages import ENGINES, NO_ENGINES, PAGES, ROOT, Block, blocks, commands, statements

_SEARCHES = re.compile(r"VECTOR INDEX|vector_search|text_search|ai_similarity|ai_embed", re.IGNORECASE)


def _with(kind: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, kind)]


def _name(page: object) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else str(page)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database with the sample tables, whose model and embeddings are made up, for all pages."""
    folder = tmp_path_factory.mktemp("data")
    engine, embedding = EngineConfig("fake", "demo"), EmbeddingConfig("fake", "words")
    opened = Database.open(Config(engine=engine, embedding=embedding, tables=SAMPLES, data_folder=folder))
    session = opened.session()
    session.update("CREATE TABLE notes AS SELECT 1::BIGINT AS id, 'likes tea' AS note")
    for name in ("ann", "bob"):
        opened.access.store.add_user(User(name, "user", frozenset(["analysts"])))
    yield opened
    opened.close()


@pytest.mark.parametrize("page", _with("sql"), ids=_name)
def test_sql_runs(database: Database, page: Path) -> None:
    """Each statement of a page runs in the page's order, in one session, and answers without an error."""
    session = database.session()
    for block in blocks(page, "sql"):
        if not block.runs:
            continue
        if _SEARCHES.search(block.text) and not (find_spec("faiss") and find_spec("tantivy")):
            pytest.skip("the extra 'vector' is not installed")
        for sql in statements(block):
            try:
                if session.is_update(sql):
                    session.update(sql)
                else:
                    list(session.execute(sql).batches)
            except FlightLLMError as error:
                pytest.fail(f"{block}: {error}\n{sql}")


@pytest.mark.parametrize("page", _with("sh"), ids=_name)
def test_commands_are_read(page: Path) -> None:
    """Each `flightllm …` of a page names a command, and options that the command has."""
    for block in blocks(page, "sh"):
        for arguments in commands(block.text):
            _read(block, arguments)


def test_commands_are_found() -> None:
    """A command is found behind others and under a path; what pip installs is none."""
    text = "pip install 'flightllm[web]'\n.venv/bin/flightllm demo --keep && flightllm tables  # look\n"
    assert list(commands(text)) == [["demo", "--keep"], ["tables"]]


def test_wrong_commands_fail() -> None:
    """An option that a command lacks is noticed."""
    block = Block(ROOT / "README.md", 1, "sh", "", runs=True)
    with pytest.raises(pytest.fail.Exception, match="--nope"):
        _read(block, ["serve", "--nope"])


def _read(block: Block, arguments: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main, info_name="flightllm", **main.context_settings)
    try:
        while isinstance(command, click.Group) and arguments:
            below = command.get_command(context, arguments[0])
            if below is None:
                break
            command, arguments = below, arguments[1:]
            context = click.Context(command, context, command.name)
        if arguments not in (["--help"], ["--version"]):
            command.make_context(command.name, list(arguments), context.parent)
    except click.ClickException as error:
        pytest.fail(f"{block}: flightllm … {shlex.join(arguments)}: {error.format_message()}")


@pytest.mark.skipif(not ENGINES, reason=NO_ENGINES)
@pytest.mark.parametrize("page", _with("toml"), ids=_name)
def test_configurations_are_read(page: Path, tmp_path: Path) -> None:
    """Each configuration of a page loads, and the engine knows its options."""
    for block in blocks(page, "toml"):
        path = tmp_path / "server.toml"
        path.write_text(block.text, encoding="utf-8")
        engine = Config.load(path).engine
        if "engine" in tomllib.loads(block.text):
            read_options(generate.options_of(f"engine {engine.kind}"), engine.kind, engine.options)


@pytest.mark.parametrize("page", _with("python"), ids=_name)
def test_python_compiles(page: Path) -> None:
    """Each block of Python is valid."""
    for block in blocks(page, "python"):
        compile(block.text, str(block), "exec")
