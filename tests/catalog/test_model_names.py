"""Names of proxies in calls: which models they mean, and who can use them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.rights import Rights
from flightllm.access.store import AccessSnapshot
from flightllm.catalog.model_names import CallNames
from flightllm.catalog.models import Objects
from flightllm.common.principal import Principal
from flightllm.config import EngineConfig, ModelsConfig
from flightllm.errors import AICallError, InvalidInputError, PermissionDeniedError
from flightllm.functions.call import EMBEDDING, AICall, binding_of
from flightllm.functions.stored import LearnedUse, StoredFunction
from flightllm.session.database import Database
from tests.databases import rows, small_database

SMALL = "CREATE MODEL small OPTIONS (engine 'fake', model 's', proxy_for 'default')"


def _no_labels(function: StoredFunction, table: str, call: AICall) -> LearnedUse:
    raise AssertionError(f"{function} reads no labels for {call} from {table}")


def names_of(folder: Path, *, user: str = "", embeds: bool = False, own: EngineConfig | None = None) -> CallNames:
    """Return the names for an admin, or for a user without grants."""
    principal = Principal(user, "user") if user else Principal("root", "admin")
    rights = Rights.of(principal, AccessSnapshot())
    config = own or EngineConfig("fake", "demo")
    return CallNames(Objects(folder), config, rights, "null", _no_labels, lambda: embeds)


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    """Return models: `small` and `tiny` are proxies of the server's own model, and `tiny` also of `small`."""
    objects = Objects(tmp_path)
    objects.put_model("small", {"engine": "fake", "proxy_for": "demo"}, "root")
    objects.put_model("tiny", {"engine": "fake", "proxy_for": "default, small"}, "ann")
    objects.put_model("other", {"engine": "fake"}, "root")
    return objects


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("proxy", "model", "found"),
    [
        (None, None, ["small", "tiny"]),
        ("auto", None, ["small", "tiny"]),
        ("AUTO", "small", ["tiny"]),
        ("other", None, ["other"]),
        ("tiny, other", None, ["tiny", "other"]),
        ("other, auto", None, ["other", "small", "tiny"]),
    ],
)
def test_proxies(tmp_path: Path, proxy: str | None, model: str | None, found: list[str]) -> None:
    """'auto', and no name, mean the models whose proxy_for names the model; a name can list several."""
    assert names_of(tmp_path).proxies(proxy, model) == tuple(map(binding_of, found))


@pytest.mark.usefixtures("objects")
def test_embedding(tmp_path: Path) -> None:
    """The embedding model is the last proxy where it can be one; its name works in any case."""
    assert names_of(tmp_path, embeds=True).proxies(None, None)[-1] == EMBEDDING
    assert names_of(tmp_path, embeds=True).proxies(None, "other") == (EMBEDDING,)
    assert names_of(tmp_path).proxies("embedding, small", None) == (EMBEDDING, binding_of("small"))


@pytest.mark.usefixtures("objects")
def test_own_as_proxy(tmp_path: Path) -> None:
    """The server's own model can be the proxy of a created one."""
    own = EngineConfig("fake", "demo", proxy_for=("other",))
    assert names_of(tmp_path, own=own).proxies(None, "other") == (binding_of(None),)


@pytest.mark.usefixtures("objects")
def test_rights(tmp_path: Path) -> None:
    """'auto' leaves out models that the user must not use; naming such a model fails."""
    assert names_of(tmp_path, user="ann").proxies(None, None) == (binding_of("tiny"),)
    with pytest.raises(PermissionDeniedError, match="no USAGE on model 'small'"):
        names_of(tmp_path, user="ann").proxies("small", None)


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("proxy", "model", "message"),
    [
        (None, "other", r"'other' has no proxy: .* CREATE MODEL small OPTIONS \(…, proxy_for 'other'\)"),
        ("default", None, "is the model of the call itself"),
        ("other", "other", "is the model of the call itself"),
        ("smal", None, "there is no model 'smal'; did you mean 'small'"),
    ],
)
def test_refused(tmp_path: Path, proxy: str | None, model: str | None, message: str) -> None:
    """The errors say what to write instead."""
    with pytest.raises(AICallError, match=message):
        names_of(tmp_path).proxies(proxy, model)


def test_aliases(tmp_path: Path) -> None:
    """An alias means another model, checks the rights to it, and gives way to a model of its name."""
    models = ModelsConfig(aliases={"gpt-4o": "default", "big": "fast", "lost": "absent"})
    database = small_database(tmp_path, models=models)
    session = database.session()
    own = rows(session, "SELECT ai_gen('x', note) AS a FROM people ORDER BY id")
    assert rows(session, "SELECT ai_complete('gpt-4o', 'x', note) AS a FROM people ORDER BY id") == own
    with pytest.raises(AICallError, match="there is no model 'fast'"):
        rows(session, "SELECT ai_gen('x', note, model => 'big') FROM people")
    session.update("CREATE MODEL fast OPTIONS (engine 'fake', model 'f')")
    fast = rows(session, "SELECT ai_gen('x', note, model => 'big') AS a FROM people ORDER BY id")
    assert fast == rows(session, "SELECT ai_gen('x', note, model => 'fast') AS a FROM people ORDER BY id")
    assert rows(session, "SELECT ai_gen('x', note, model => big) AS a FROM people ORDER BY id") == fast
    session.update("""CREATE MODEL "gpt-4o" OPTIONS (engine 'fake', model 'f')""")
    assert rows(session, "SELECT ai_complete('gpt-4o', 'x', note) AS a FROM people ORDER BY id") == fast
    with pytest.raises(AICallError, match="there is no model 'absent'"):
        rows(session, "SELECT ai_gen('x', note, model => 'lost') FROM people")
    database.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with small tables and a proxy of its own model."""
    database = small_database(tmp_path)
    database.session().update(SMALL)
    yield database
    database.close()


def test_listed(database: Database) -> None:
    """SHOW MODELS tells which models a proxy is for; a dropped model leaves the list and the proxies."""
    session = database.session()
    shown = {row["name"]: row["proxy_for"] for row in rows(session, "SHOW MODELS")}
    assert shown == {"default": None, "small": "default"}
    session.update("DROP MODEL small")
    assert [row["name"] for row in rows(session, "SHOW MODELS")] == ["default"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (SMALL.replace("small", "next").replace("default", "defualt"), "no such model; did you mean 'default'"),
        (SMALL.replace("small", "next").replace("default", "next"), "cannot be a proxy for itself"),
        (SMALL.replace("small", "next").replace("'default'", "5"), "proxy_for: expected a list of texts"),
    ],
)
def test_created_wrongly(database: Database, sql: str, message: str) -> None:
    """CREATE MODEL refuses a proxy for itself, or for a model that does not exist."""
    with pytest.raises(InvalidInputError, match=message):
        database.session().update(sql)
