"""Secrets planted in each option of a model, on a real server: nothing that leaves the server shows one."""

import json
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import pytest

from flightllm.config import ENGINES
from flightllm.errors import FlightLLMError
from flightllm.observe.statement_texts import shown_statement
from tests.canaries import CANARY, FORMS, KEY, MARKS, Watched, watched_server
from tests.databases import small_database
from tests.endpoints import Body, Endpoint, Reply, answer, endpoint_of

pytest.importorskip("openai", reason="the extra 'openai' is not installed")


def _options() -> Iterator[tuple[str, str]]:
    """Yield each option of each kind of engine that one model can have; a new option is covered by itself."""
    for kind, engine in ENGINES.items():
        module, _, name = engine.options.partition(":")
        for one in fields(getattr(import_module(module), name)):
            yield kind, one.name


def _values(option: str) -> Iterator[str]:
    """Yield values of an option, as SQL writes them, with the canary at each place that can hold a secret."""
    yield f"'{CANARY}'"
    yield f"'{CANARY}\n{CANARY}'"
    yield f"'{json.dumps({'X-Api-Key': CANARY, 'token': [CANARY]})}'"
    yield f"'{json.dumps({'plain': CANARY})}'"
    if option in {"base_url", "proxy", "kv_events", "kv_replay"}:
        yield f"'http://someone:{quote(CANARY, safe='')}@127.0.0.1:1/v1'"
        yield f"'http://127.0.0.1:1/v1?key={quote(CANARY, safe='')}'"
        yield f"'ftp://someone:{CANARY}@['"


def _refused(option: str) -> Iterator[str]:
    """Yield statements about a model that cannot be read, with the canary."""
    yield f"CREATE MODEL m OPTIONS (engine 'openai', {option} '{CANARY}'"
    yield f"CREATE MODEL m OPTIONS (engine 'openai', {option} = '{CANARY}') oops '{CANARY}'"
    yield f"CREATE MODEL m OPTIONS (engine 'openai', {option} {CANARY})"
    yield f"CREATE MODEL m OPTIONS (engine 'openai', {option} “{CANARY}”)"
    yield f"CREATE MODEL m OPTIONS (engine 'nothing', {option} '{CANARY}')"
    yield f"CREATE MODEL m OPTIONS (engine 'openai', {option}_wrong '{CANARY}')"


def _failing(path: str, body: Body, _: int) -> Reply:
    """Fail as the prompt says; the body of the answer has the canary in all its forms."""
    how = json.dumps(body)
    text = " ".join(FORMS.values())
    if "redirect" in how:
        return 307, {}, {"Location": f"http://someone:{quote(CANARY, safe='')}@127.0.0.2:1/v1?key={CANARY}"}
    for status in (401, 400, 404, 500):
        if f"status {status}" in how:
            return status, {"error": {"message": text, "code": CANARY, "param": CANARY}}, {"retry_after": CANARY}
    return answer(path, body)


def _asked(watched: Watched, endpoint: Endpoint, key: str) -> None:
    """Create a model with the canary as its key, and let each step fail."""
    more = f"base_url '{endpoint.url}', api_key '{key}', max_retries 0, headers '{{\"X-Key\": \"{key}\"}}', timeout 5"
    watched.tell(f"CREATE OR REPLACE MODEL m OPTIONS (engine 'openai', model 'x', {more})")
    for how in ("status 401", "status 400", "status 404", "status 500", "redirect"):
        watched.tell(f"SELECT ai_gen('{how}', model => m) AS a")
        assert len(endpoint.bodies) > 0
    for sql in ("SELECT ai_gen('status 500', model => m) AS a", "SELECT ai_gen('fine', model => m) AS a"):
        watched.tell(f"EXPLAIN {sql}")
        watched.tell(f"EXPLAIN ANALYZE {sql}")


@pytest.mark.parametrize("key", ["env:CANARY", pytest.param("file:{folder}/key", marks=pytest.mark.slow)])
def test_an_endpoint_that_echoes_the_key(tmp_path: Path, key: str) -> None:
    """The answers of an endpoint quote the key in each form; errors, log and system tables do not."""
    with watched_server(tmp_path) as watched, endpoint_of(_failing) as endpoint:
        _asked(watched, endpoint, key.format(folder=tmp_path))
        for sql in _refused("api_key"):
            watched.tell(sql)
        watched.tell_all()
        assert any("text " in text for _, text in watched.said)  # the fine prompt has its answer
        assert watched.leaks() == []


@pytest.mark.slow
@pytest.mark.parametrize("log", ["console", "json"])
def test_each_option(tmp_path: Path, log: str) -> None:
    """A secret as the value of any option, of any kind, in any form of statement is not shown."""
    with watched_server(tmp_path, log) as watched:
        for kind, option in _options():
            for value in _values(option):
                watched.tell(f"CREATE OR REPLACE MODEL m OPTIONS (engine '{kind}', model 'x', {option} {value})")
                watched.tell("SHOW MODELS")
            for sql in _refused(option):
                watched.tell(sql)
        watched.tell("CREATE OR REPLACE MODEL m OPTIONS (engine 'openai', model 'x', base_url 'http://127.0.0.1:1/v1', "
                     "api_key 'env:CANARY', max_retries 0)")  # fmt: skip
        watched.tell("SELECT ai_gen('x', model => m) AS a")
        watched.tell_all()
        assert watched.leaks() == []


@pytest.mark.parametrize("option", ["api_key", "headers", "timeout", "max_in_flight", "proxy", "api"])
def test_an_update_that_is_refused(tmp_path: Path, option: str) -> None:
    """A client that sends an update at once, without preparing it, gets an error without the key too."""
    with closing(small_database(tmp_path)) as database, closing(database.session()) as session:
        wrong = f"CREATE MODEL m OPTIONS (engine 'openai', model 'x', {option} '{KEY}')"
        for sql in (*_refused(option), wrong, f"CREATE MODEL m OPTIONS (engine '{KEY}', model 'x')"):
            with pytest.raises(FlightLLMError) as caught:
                session.update(sql)
            assert not [mark for mark in MARKS if mark in str(caught.value)]


@pytest.mark.slow
def test_a_refused_statement(tmp_path: Path) -> None:
    """A key that a statement writes at a wrong place is in no error; ordinary words stay."""
    with watched_server(tmp_path, "json") as watched:
        for option in ("api_key", "organization", "headers", "extra_body"):
            for value in _values(option):
                watched.tell(f"CREATE OR REPLACE MODEL m OPTIONS (engine 'openai', model 'x', {option} {value})")
            for sql in _refused(option):
                watched.tell(sql)
        watched.tell_all()
        assert watched.leaks() == []
        watched.tell("CREATE OR REPLACE MODEL m OPTIONS (engine 'openai', model 'x', organization 'default', "
                     "project 'prompt', headers '{\"Accept\": \"application/json\"}')")  # fmt: skip
        watched.tell("SELECT prompt FROM default_table")
        assert "default_table" in watched.said[-1][1]
        watched.tell("SELECT prompt FROM (SELECT 1 AS one)")
        assert "prompt" in watched.said[-1][1]


@pytest.mark.parametrize(
    ("options", "created"),
    [
        ("base_url 'http://127.0.0.1:1/v1', project 'customers'", True),
        ("base_url 'http://127.0.0.1:1/v1', organization 'customers'", True),
        ("base_url 'http://127.0.0.1:1/v1', headers '{\"X-Team\": \"customers\"}'", True),
        ("base_url 'http://127.0.0.1:1/v1', query '{\"team\": \"customers\"}'", True),
        ("base_url 'http://127.0.0.1:1/v1?customers', api_key 'env:NOT_ALLOWED'", False),
        ("base_url 'http://127.0.0.1:1/v1', headers '{\"X-Team\": \"customers_of_24\"}', timeout 'x'", False),
    ],
)
def test_ordinary_words_stay_after_create_model(tmp_path: Path, options: str, created: bool) -> None:
    """The values of a model, created or refused, hide no words of other statements."""
    with closing(small_database(tmp_path)) as database, closing(database.session()) as session:
        session.update("CREATE TABLE customers_of_24 AS SELECT 1 AS id")
        with nullcontext() if created else pytest.raises(FlightLLMError):
            session.update(f"CREATE MODEL m OPTIONS (engine 'openai', model 'x', {options})")
        with pytest.raises(FlightLLMError, match="customers_of_24"):
            session.execute("SELECT nothere FROM customers_of_24")


@pytest.mark.parametrize("option", ["base_url", "proxy", "kv_events"])
@pytest.mark.parametrize(
    "address", ["http:/me:{}@h/v1", "http:///me:{}@h/v1", "http//me:{}@h", "me:{}@h/v1", "h:80/v1?key={}"]
)
def test_an_address_with_a_wrong_start(tmp_path: Path, option: str, address: str) -> None:
    """No error and no text of a statement shows the login of an address that does not begin as it must."""
    given = f"{option} '{address.format('canary-pass')}'"
    sql = f"CREATE MODEL m OPTIONS (engine 'openai', model 'x', tokenizer 'demo', {given})"
    assert "canary" not in shown_statement(sql)
    with closing(small_database(tmp_path)) as database, closing(database.session()) as session:
        with pytest.raises(FlightLLMError) as caught:
            session.update(sql)
        assert "canary" not in str(caught.value)
