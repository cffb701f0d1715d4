"""Models made by SQL: used beside the server's own, kept over a restart, each with answers and costs of its own."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig, ModelsConfig, RecoveryConfig
from flightllm.engines.supervised import SupervisedEngine
from flightllm.errors import (
    AICallError,
    BudgetExceededError,
    ConfigError,
    EngineError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, rows, small_database
from tests.endpoints import answer, endpoint_of

FAST = "CREATE MODEL fast OPTIONS (engine 'fake', model 'f', max_in_flight 4)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with small tables and a model `fast` beside its own."""
    models = ModelsConfig(secret_names=("MY_KEY", "NOT_THERE"), secret_folders=(tmp_path,))
    database = small_database(tmp_path, models=models)
    database.session().update(FAST)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session on it."""
    return database.session()


def engine_of(database: Database, name: str | None) -> Any:
    """Return the engine of a model, a fake one; None is the server's own."""
    with database._services.engines.using([name]) as models:
        return cast("SupervisedEngine", models[name].engine).inner


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("name", ["fast", "'fast'", '"fast"', "FAST"])
def test_used(database: Database, session: Session, name: str, optimizer: str) -> None:
    """A call names a model as a text or a bare name; each model is asked its own calls only."""
    sql = f"SELECT id, ai_gen('x', note) AS a, ai_gen('x', note, model => {name}) AS b, ai_gen('y', note) FROM people"
    ran = ask(session, sql, optimizer=optimizer)
    own, fast = engine_of(database, None), engine_of(database, "fast")
    assert own.sent == 2 * fast.sent > 0
    assert [row["a"] for row in ran.rows] == [row["b"] for row in ran.rows], "fake engines all answer alike"
    query = f"SELECT model, sum(calls) AS calls FROM system.ai_calls WHERE query_id = '{ran.record.query_id}'"
    assert rows(session, f"{query} GROUP BY model ORDER BY model") == [
        {"model": "fast", "calls": fast.sent},
        {"model": None, "calls": own.sent},
    ]


def test_own_by_name(database: Database, session: Session) -> None:
    """The configured model may be named; that is the same call."""
    sql = "SELECT ai_gen('x', note) AS a, ai_gen('x', note, model => 'demo') AS b, ai_complete(demo, 'x') FROM people"
    assert ask(session, sql).calls == 5
    assert ask(session, "SELECT ai_gen('x', note, model => NULL) FROM people").cache_hits == 4
    assert engine_of(database, "fast").sent == 0


def test_in_filters_and_joins(session: Session) -> None:
    """Filters of several models in one chain, below aggregates and joins, give what the plain way gives."""
    sql = """SELECT p.name, count(*) AS n FROM people p JOIN likes l ON p.id = l.person_id
        WHERE ai_filter('a', p.note) AND ai_filter('b', l.thing, model => fast)
        AND ai_filter('c', p.note, model => fast)
        GROUP BY p.name ORDER BY p.name"""
    plain = ask(session, sql, optimizer="off", cache="off").rows
    assert ask(session, sql, cache="off").rows == plain
    guarded = "SELECT CASE WHEN ai_filter('a', note) THEN ai_gen('z', note, model => fast) END AS g FROM people"
    assert ask(session, guarded, cache="off").table.num_rows == 9


def test_answers_are_not_shared(session: Session) -> None:
    """The same prompt to another model is another call, in one query and across them; to the same model it is known."""
    sql = "SELECT ai_gen('x', note{}) FROM people"
    assert ask(session, sql.format("")).calls == 4
    assert ask(session, sql.format(", model => fast")).calls == 4
    again = ask(session, sql.format(", model => fast"))
    assert (again.calls, again.cache_hits) == (0, 4)
    session.update("CREATE MODEL other OPTIONS (engine 'fake', model 'f')")
    assert ask(session, sql.format(", model => other")).calls == 4
    both = "SELECT ai_gen('w', note, model => other), ai_gen('w', note, model => fast) FROM people"
    assert ask(session, both, cache="off").calls == 8


def test_kept_over_a_restart(tmp_path: Path) -> None:
    """Models and answers of theirs are there after a restart; what was dropped is not."""
    for restarts in range(2):
        database = small_database(tmp_path)
        session = database.session()
        if not restarts:
            session.update(FAST)
            session.update("CREATE MODEL gone OPTIONS (engine 'fake')")
            session.update("DROP MODEL gone")
        ran = ask(session, "SELECT ai_gen('x', note, model => fast) FROM people")
        assert ran.calls == (0 if restarts else 4)
        with pytest.raises(AICallError, match="no model 'gone'"):
            ask(session, "SELECT ai_gen('x', note, model => gone) FROM people")
        database.close()
    (tmp_path / "objects.json").write_text("{")
    with pytest.raises(ConfigError, match="previous away to begin"):
        small_database(tmp_path)


def test_replaced(database: Database, session: Session) -> None:
    """A model described anew is another engine for later queries; the one before is closed."""
    ask(session, "SELECT ai_gen('x', note, model => fast) FROM people")
    before = engine_of(database, "fast")
    with pytest.raises(InvalidInputError, match="'fast' exists: write CREATE OR REPLACE MODEL"):
        session.update(FAST)
    session.update(FAST.replace("MODEL fast", "MODEL IF NOT EXISTS fast"))
    assert engine_of(database, "fast") is before
    session.update("CREATE OR REPLACE MODEL fast OPTIONS (engine 'fake', fail_containing 'tea')")
    assert before._closed
    errors = ask(session, "SELECT note, ai_gen('new', note, model => fast, on_error => 'struct') AS g FROM people").rows
    assert {row["note"] for row in errors if row["g"] and row["g"]["error"]} == {"likes tea"}


@pytest.mark.parametrize("change", ["DROP MODEL fast", "CREATE OR REPLACE MODEL fast OPTIONS (engine 'fake')"])
def test_changed_while_it_answers(session: Session, change: str) -> None:
    """A query that runs finishes on the engine it began with."""
    session.update("CREATE OR REPLACE MODEL fast OPTIONS (engine 'fake', latency_ms 5, max_in_flight 1)")
    session.update("CREATE TABLE many AS SELECT 'text ' || value AS t FROM generate_series(1, 60) AS g(value)")
    result = session.execute("SELECT ai_gen('x', t, model => fast, on_error => 'fail') AS g FROM many")
    first = next(result.batches)
    session.update(change)
    found = [first, *result.batches]
    assert sum(batch.num_rows for batch in found) == 60
    assert all(batch.column(0).null_count == 0 for batch in found)


def test_dropped_before_it_runs(session: Session) -> None:
    """A query that was planned for a model that is gone when it begins says so."""
    result = session.execute("SELECT ai_gen('x', note, model => fast) FROM people")
    session.update("DROP MODEL fast")
    with pytest.raises(EngineError, match="the model 'fast' was dropped"):
        list(result.batches)
    session.update("DROP MODEL IF EXISTS fast")
    with pytest.raises(NotFoundError, match="no model 'fast'"):
        session.update("DROP MODEL fast")


def test_broken_one_harms_nobody(session: Session, tmp_path: Path) -> None:
    """A model that cannot be opened fails its own queries, clearly; `system.models` says why."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    (tmp_path / "key").write_text("sk-one")
    session.update(f"CREATE MODEL broken OPTIONS (engine 'openai', model 'm', api_key 'file:{tmp_path / 'key'}')")
    (tmp_path / "key").unlink()
    message = "the model 'broken' cannot be used: api_key: the file cannot be read: No such file or directory"
    for _ in range(2):
        with pytest.raises(EngineError, match=f"^{message}$"):
            ask(session, "SELECT ai_gen('x', note, model => broken) FROM people")
    notes = explained(session, "SELECT ai_gen('x', note, model => broken) FROM people")["notes"]
    assert notes == f"there is no prediction, because the query fails: {message}"
    [shown] = rows(session, "SELECT loaded, error FROM system.models WHERE name = 'broken'")
    assert (shown["loaded"], shown["error"]) == (False, message.partition(": ")[2])
    assert ask(session, "SELECT ai_gen('x', note, model => fast) FROM people").calls == 4
    with endpoint_of(lambda path, body, _: answer(path, body)) as endpoint:
        session.update(
            f"CREATE OR REPLACE MODEL broken OPTIONS (engine 'openai', model 'm', base_url '{endpoint.url}')"
        )
        assert ask(session, "SELECT ai_gen('x', note, model => broken) FROM people").calls == 4


@pytest.mark.slow
def test_a_file_that_is_no_gguf_file(session: Session, tmp_path: Path) -> None:
    """CREATE MODEL refuses it at once, not the first query."""
    file = tmp_path / "m.gguf"
    file.write_text("<html>")
    with pytest.raises(InvalidInputError, match=r"^the model 'broken': model: '.*m\.gguf' is not a GGUF file"):
        session.update(f"CREATE MODEL broken OPTIONS (engine 'local', model '{file}')")


def test_dead_endpoint(session: Session) -> None:
    """The error of a created model whose endpoint is gone names the host, and the option of CREATE MODEL to change."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    session.update(
        "CREATE MODEL gone OPTIONS (engine 'openai', model 'm', base_url 'http://127.0.0.1:1/v1', max_retries 0)"
    )
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:1.* cannot be reached.*; the option to change is base_url"):
        ask(session, "SELECT ai_gen('x', model => gone) AS a")


def test_broken_one_after_a_restart(tmp_path: Path) -> None:
    """Only the server's own model is waited for then: one that never worked fails at once."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    (tmp_path / "key").write_text("sk-one")
    recovery = RecoveryConfig(engine_wait_seconds=3)
    models = ModelsConfig(secret_folders=(tmp_path,))
    config = Config(engine=EngineConfig("fake"), recovery=recovery, models=models, data_folder=tmp_path / "data")
    with closing(Database.open(config, restarted=True)) as database:
        session = database.session()
        session.update(f"CREATE MODEL broken OPTIONS (engine 'openai', model 'm', api_key 'file:{tmp_path / 'key'}')")
        (tmp_path / "key").unlink()
        with pytest.raises(EngineError, match="the model 'broken' cannot be used: api_key: the file cannot be read"):
            ask(session, "SELECT ai_gen('x', model => broken) AS a")
        assert ask(session, "SELECT ai_gen('x') AS a").calls == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "engine 'fak'",
            "must be one of local, vllm, openai, anthropic, cluster, ray, fake; it is 'fak'",
        ),
        ("model 'x'", "one of local, vllm, openai, anthropic, cluster, ray, fake; it is missing"),
        ("engine 'local'", "needs the option model"),
        (
            "engine 'fake', latency 3",
            r"latency: unknown option of the engine 'fake'; valid .* of every engine: engine, mo",
        ),
        ("engine 'fake', latency_ms 'x'", "'m': latency_ms: expected float, got str 'x'"),
        ("engine 'fake', max_in_flight 0", "'m': max_in_flight: expected at least 1, got 0"),
        ("engine 'fake', repair 0", "'m': repair: expected true or false, got 0"),
        ("engine 'fake', max_in_flight 'x'", "'m': max_in_flight: expected a whole number, got 'x'"),
        ("engine 'fake', price_input 'x'", "'m': price_input: expected a number, got 'x'"),
        ("engine 'fake', max_in_flight 'abcd efgh'", "'m': max_in_flight: expected a whole number, got a text"),
        ("engine 'fake', latency_ms 'abcd efgh'", "'m': latency_ms: expected float, got str"),
        ("engine 'fake', prompt_format true", "'m': prompt_format: expected a string, got True"),
        ("engine 'fake', reasoning 'max'", "'m': reasoning: expected one of off, low, medium, high; got 'max'"),
        ("engine 'fake', reasoning 3", "'m': reasoning: expected a string, got 3"),
        ("engine 'fake', model 3", "'m': model: expected a string, got 3"),
        ("engine 'local', model '/not/there'", "'m': model: no folder '/not/there'"),
        ("engine 'openai', model 'x', api_key 'env:NOT_THERE'", "'m': api_key: set the environment variable NOT_THERE"),
        ("engine 'openai', model 'x', api 'soap'", "'m': api: expected one of"),
    ],
)
def test_wrong_options(session: Session, options: str, message: str) -> None:
    """What can be checked without the model is checked at once, and nothing is kept."""
    for package in [
        name for name in ("openai", "torch") if name[:5] in options or (name == "torch" and "local" in options)
    ]:
        pytest.importorskip(package)
    with pytest.raises(InvalidInputError, match=message):
        session.update(f"CREATE MODEL m OPTIONS ({options})")
    assert len(rows(session, "SHOW MODELS")) == 2


def test_names(session: Session) -> None:
    """Names that could be misread are refused, the configured model's too; unknown ones get a suggestion."""
    for name, message in (
        ("demo", "the model in the server's configuration"),
        ('"a b"', "cannot be the name of a model"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            session.update(f"CREATE MODEL {name} OPTIONS (engine 'fake')")
    with pytest.raises(AICallError, match=r"at 1:8: there is no model 'fats'; did you mean 'fast'\?"):
        ask(session, "SELECT ai_gen('x', note, model => fats) FROM people")
    with pytest.raises(AICallError, match="model must be a literal"):
        ask(session, "SELECT ai_summarize(note, model => people.name) FROM people")


def test_secrets_are_not_kept(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key goes to the endpoint and nowhere else: not into files, tables or errors."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    monkeypatch.setenv("MY_KEY", "sk-secret")
    with pytest.raises(InvalidInputError, match="'env:NAME'"):
        session.update("CREATE MODEL leak OPTIONS (engine 'openai', model 'm', api_key 'sk-literal')")
    with endpoint_of(lambda path, body, _: answer(path, body)) as endpoint:
        session.update(
            "CREATE MODEL remote OPTIONS (engine 'openai', model 'gpt', api_key 'env:MY_KEY', max_in_flight 2,"
            f" max_retries 0, base_url '{endpoint.url}')"
        )
        ran = ask(session, "SELECT ai_gen('x', note, model => remote) AS g, ai_gen('x', note) AS own FROM people")
        assert endpoint.keys == ["Bearer sk-secret"] * 4
        assert {body["model"] for body in endpoint.bodies} == {"gpt"}
    assert [row["g"] for row in ran.rows if row["g"]] == [row["g"] for row in ran.rows if row["own"]]
    [shown] = rows(session, "SELECT engine, model, options, loaded FROM system.models WHERE name = 'remote'")
    options = json.loads(shown["options"])
    assert (shown["engine"], shown["model"], shown["loaded"], options["api_key"]) == ("openai", "gpt", True, "env:…")
    told = repr([rows(session, f"SELECT * FROM system.{name}") for name in ("models", "queries", "ai_calls")])
    assert "sk-" not in told + (tmp_path / "objects.json").read_text()


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("api_key 'file:/etc/passwd'", "secret_folders"),
        ("api_key 'file:/proc/self/environ'", "secret_folders"),
        ("api_key 'file:{folder}/../key'", "secret_folders"),
        ("api_key 'file:{folder}/link'", "secret_folders"),
        ("api_key 'env:OTHER_KEY'", "secret_names"),
        ("api_key 'env:OPENAI_API_KEY'", "secret_names"),
        ("provider 'groq'", "secret_names"),
        ("provider 'openai'", "secret_names"),
        ("proxy 'env:OTHER_KEY'", "secret_names"),
        ('headers \'{{"X-Team": "env:OTHER_KEY"}}\'', "secret_names"),
        ('query \'{{"q": "file:/etc/passwd"}}\'', "secret_folders"),
    ],
)
def test_no_other_secret_of_the_server_is_sent(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, key: str
) -> None:
    """SQL chooses the address, so it can send only secrets that the configuration lists; the error names the key."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    for name in ("OTHER_KEY", "OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, "sk-canary-of-the-server")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with endpoint_of(lambda path, body, _: answer(path, body)) as endpoint:
        options = f"engine 'openai', model 'm', base_url '{endpoint.url}', {option.format(folder=tmp_path)}"
        with pytest.raises(InvalidInputError, match=rf"{key} in \[models\]") as caught:
            session.update(f"CREATE MODEL m OPTIONS ({options})")
        assert not endpoint.bodies
        assert not endpoint.got
    assert "canary" not in str(caught.value)


def test_the_key_of_the_environment_stays_at_its_provider(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `api_key` another address gets no key; the provider's own address needs no list."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-of-the-server")
    with endpoint_of(lambda path, body, _: answer(path, body)) as endpoint:
        session.update(f"CREATE MODEL m OPTIONS (engine 'openai', model 'm', base_url '{endpoint.url}')")
        ask(session, "SELECT ai_gen('x', model => m) AS a")
        assert endpoint.keys == ["Bearer none"]
        assert {key for _, key in endpoint.got} <= {"Bearer none"}
    session.update("CREATE MODEL own OPTIONS (engine 'openai', model 'm', api_key 'env:OPENAI_API_KEY')")
    session.update("CREATE MODEL usual OPTIONS (engine 'openai', model 'm')")


def test_a_model_of_an_earlier_version_is_checked_too(session: Session, database: Database) -> None:
    """A model that was created before the list existed cannot send a secret either."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    options = {"engine": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1", "api_key": "file:/etc/passwd"}
    database._services.objects.put_model("old", options, "local")
    with pytest.raises(EngineError, match=r"secret_folders in \[models\]"):
        ask(session, "SELECT ai_gen('x', model => old) AS a")


def test_tokens_and_answers_of_the_endpoint(session: Session) -> None:
    """What the endpoint reports is counted for the calls of its model, by its tokenizer's estimate in EXPLAIN."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    with endpoint_of(lambda path, body, _: answer(path, body)) as endpoint:
        options = f"engine 'openai', model 'gpt', base_url '{endpoint.url}', price_input 10, price_output 20"
        session.update(f"CREATE MODEL remote OPTIONS ({options})")
        sql = "SELECT ai_gen('x', note) AS own, ai_gen('x', note, model => remote, max_tokens => 2) FROM people"
        ran = ask(session, f"EXPLAIN (ANALYZE, FORMAT json) {sql}")
        document = json.loads(ran.rows[0]["plan"])
        calls = {call["model"]: call for operator in document["operators"] for call in operator["calls"]}
        assert set(calls) == {None, "remote"}
        assert document["models"] == {"remote": f"openai (gpt at {endpoint.url})"}
        actual = calls["remote"]["actual"]
        assert (actual["prompt_tokens"], actual["completion_tokens"], actual["calls"]) == (40, 8, 4)
        assert actual["price"] == pytest.approx((40 * 10 + 8 * 20) / 1e6)
        assert calls[None]["actual"]["price"] is None
        assert document["total"]["actual"]["price"] is None, "the own model's part is not known"


def test_explained(session: Session) -> None:
    """EXPLAIN names the model of each operator where it is not the server's own, and nowhere else."""
    lines = explained(session, "SELECT ai_gen('x', note, model => fast), ai_gen('y', name) FROM people")
    operator = next(text for title, text in lines.items() if title.startswith("ai operator"))
    assert operator.count("model fast") == 1
    figures = next(text for title, text in lines.items() if title.startswith("calls of"))
    assert figures.count("\nmodel: fast\n") == 1


def test_learned_apart(database: Database, session: Session) -> None:
    """Answers of one model say nothing of another's."""
    session.update("CREATE TABLE many AS SELECT 'text ' || value AS t FROM generate_series(1, 40) AS g(value)")
    ask(session, "SELECT ai_filter('x', t, model => fast) FROM many")

    def answers(sql: str) -> set[str]:
        document = json.loads(ask(session, f"EXPLAIN (FORMAT json) {sql}").rows[0]["plan"])
        return {call["answers"] for operator in document["operators"] for call in operator["calls"]}

    others = "FROM (SELECT t || '!' AS t FROM many)"
    assert answers(f"SELECT ai_filter('x', t, model => fast) {others}") == {"learned"}
    assert answers(f"SELECT ai_filter('x', t) {others}") == {"assumed"}
    with database._services.engines.using([None, "fast"]) as models:
        assert not models[None].learned.of("local")._sites
        assert models["fast"].learned.of("local")._sites


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_budgets(session: Session, optimizer: str) -> None:
    """A query's limits hold for all of its models together."""
    sql = "SELECT ai_gen('x', note), ai_gen('x', note, model => fast) FROM people"
    wanted = 8 if optimizer == "on" else 14
    with pytest.raises(BudgetExceededError, match=f"{wanted} calls where flightllm.max_calls is {wanted - 1}"):
        ask(session, sql, max_calls=str(wanted - 1), optimizer=optimizer)
    assert ask(session, sql, max_calls=str(wanted), optimizer=optimizer).calls == wanted


@pytest.mark.slow
def test_budget_reached(session: Session) -> None:
    """Where a limit is reached in mid-query, no model goes beyond it."""
    session.update("CREATE TABLE many AS SELECT 'text ' || value AS t FROM generate_series(1, 200) AS g(value)")
    asked = "SELECT ai_gen('x', t) AS a, ai_gen('y', t, model => fast) AS b FROM many"
    sql = f"{asked} WHERE ai_filter('z', t, model => fast)"
    predicted = json.loads(ask(session, f"EXPLAIN (FORMAT json) {sql}").rows[0]["plan"])["total"]["predicted"]["calls"]
    ran = ask(session, sql, max_calls=str(predicted))
    assert ran.calls <= predicted
    assert ran.calls == predicted or ran.record.row()["error"] is None


def test_costs(tmp_path: Path) -> None:
    """A limit on the cost needs the prices of all models of the query, and adds up what each costs."""
    engine = EngineConfig("fake", price_input=0.0, price_output=0.0)
    database = Database.open(Config(engine=engine, data_folder=tmp_path))
    session = database.session()
    session.update("CREATE MODEL free OPTIONS (engine 'fake')")
    session.update("CREATE MODEL dear OPTIONS (engine 'fake', price_input 1000000, price_output 0)")
    sql = "SELECT ai_gen('x', 'note'), ai_gen('x', 'note', model => dear) FROM (VALUES (1)) AS t(a)"
    with pytest.raises(BudgetExceededError, match=r"the model 'free' does not have: set price_input .* in its OPTIONS"):
        ask(session, sql.replace("dear", "free"), max_cost="1")
    tokens = ask(session, sql).record.row()["prompt_tokens"] // 2
    with pytest.raises(BudgetExceededError, match=f"a cost of {tokens} where flightllm.max_cost is {tokens - 1}"):
        ask(session, sql, max_cost=str(tokens - 1), cache="off")
    assert ask(session, sql, max_cost=str(tokens), cache="off").calls == 2
    database.close()


def test_in_views_and_prepared_statements(session: Session) -> None:
    """A view keeps the name; a parameter may be one."""
    session.update("CREATE VIEW told AS SELECT id, ai_gen('x', note, model => fast) AS g FROM people")
    assert ask(session, "SELECT g FROM told").calls == 4
    session.update("CREATE OR REPLACE MODEL fast OPTIONS (engine 'fake', fail_every 1)")
    assert ask(session, "SELECT g FROM told", cache="off").table["g"].null_count == 9
    session.update("DROP MODEL fast")
    with pytest.raises(AICallError, match="no model 'fast'"):
        ask(session, "SELECT g FROM told")
    session.update(FAST)
    sql = "SELECT ai_gen('x', note, model => $1) AS g FROM people WHERE id < $2"
    assert session.describe(sql).schema.names == ["g"]
    values = pa.RecordBatch.from_arrays([pa.array(["fast"]), pa.array([3])], names=["1", "2"])
    assert ask(session, sql, values, cache="off").calls == 1


@pytest.mark.slow
def test_many_sessions(database: Database) -> None:
    """Sessions that use, replace and drop models at the same time get rows or a clear error, never anything else."""
    unexpected: list[Exception] = []
    stop = threading.Event()

    def use() -> None:
        session = database.session()
        while not stop.is_set():
            try:
                found = ask(
                    session, "SELECT ai_gen('x', note, model => fast, on_error => 'fail') AS g FROM people", cache="off"
                )
                assert found.table["g"].null_count == 2
            except (AICallError, EngineError) as error:
                if "no model 'fast'" not in str(error) and "was dropped" not in str(error):
                    unexpected.append(error)
            except Exception as error:  # noqa: BLE001 - what must not happen
                unexpected.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    session = database.session()
    for turn in range(12):
        session.update("DROP MODEL IF EXISTS fast" if turn % 3 == 2 else FAST.replace("CREATE", "CREATE OR REPLACE"))
        ask(session, "SELECT ai_gen('x', note) FROM people", cache="off")
    stop.set()
    for thread in threads:
        thread.join()
    assert unexpected == []


def test_rights(database: Database) -> None:
    """Models name addresses and files of the server, so only admins make and drop them."""
    database.access.store.add_user(User("ann", "user"))
    ann = database.session(Principal("ann", "user"))
    for sql in (FAST, FAST.replace("CREATE", "CREATE OR REPLACE"), "DROP MODEL fast", "DROP MODEL IF EXISTS none"):
        with pytest.raises(PermissionDeniedError, match="MODEL requires the role admin"):
            ann.update(sql)
    assert len(rows(database.session(), "SHOW MODELS")) == 2


@pytest.mark.parametrize("options", ["provider 'openai'", "base_url 'http://127.0.0.1:1/v1'", "provider 'groq'"])
def test_without_a_key(session: Session, options: str) -> None:
    """An empty api_key_env says that the endpoint takes no key, at any address."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    session.update(f"CREATE MODEL free OPTIONS (engine 'openai', model 'm', {options}, api_key_env '')")
