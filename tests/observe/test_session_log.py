"""The tables `system.sessions` and `system.settings`."""

import gc
import json
from pathlib import Path

import pytest

from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig, LimitsConfig, ServerConfig
from flightllm.config.session_settings import Settings
from flightllm.observe.session_log import SessionLog
from flightllm.system_tables.settings import SettingsTable, descriptions
from tests.databases import open_database, rows
from tests.servers import ask, cursor_of, serving


def test_sessions_of_real_clients(tmp_path: Path) -> None:
    """Each connection is a session with its address, its statements and what it set; one that is closed is gone."""
    sql = 'SELECT session_id, "user", peer, statements, settings FROM system.sessions WHERE last_used_at >= opened_at'
    with serving(tmp_path) as server, cursor_of(server) as one:
        ask(one, "SELECT 1")
        with cursor_of(server) as two:
            two.execute("SET flightllm.cache = 'off'")  # no statement that is counted
            ask(two, "SELECT 1")
            first, second = sorted(ask(one, sql), key=lambda row: row[4])
        (mine,) = ask(one, "SELECT DISTINCT session_id FROM system.queries WHERE sql LIKE '%system.sessions%'")
        assert [row[0] for row in ask(one, sql)] == [mine[0]]
    assert {first[1], second[1]} == {"local"}
    assert all(row[2].startswith("ipv4:127.0.0.1:") for row in (first, second))
    assert (second[0], json.loads(second[4])) == (mine[0], {})
    assert json.loads(first[4]) == {"cache": "off"}
    assert first[3] < second[3]


@pytest.mark.slow
def test_changed_settings() -> None:
    """A session's row has what it changed alone, and goes with the session."""
    log = SessionLog()
    record = log.open(Settings(cache=False, max_calls=5).changed, "ann", "somewhere")
    (row,) = log.snapshot("sessions").to_pylist()
    assert (row["user"], row["peer"], json.loads(row["settings"])) == (
        "ann",
        "somewhere",
        {"cache": "off", "max_calls": "5"},
    )
    log.close(record)
    log.close(record)
    assert log.snapshot("sessions").num_rows == 0
    log.open(Settings().changed)
    gc.collect()
    assert log.records() == []  # nobody kept it


def test_settings_and_where_they_come_from(tmp_path: Path) -> None:
    """Defaults, what the configuration says, and what sessions set are told apart; all have a description."""
    database = open_database(tmp_path, limits=LimitsConfig(sql_terms=500))
    session, other = database.session(), database.session(Principal("ann", "user"))
    other.set_option("cache", "off")
    sql = 'SELECT name, value, source, session_id, "user" FROM system.settings'
    found = {(row["name"], row["source"]): row for row in rows(session, sql)}
    assert found["limits.sql_terms", "config"]["value"] == "500"
    assert found["limits.sql_bytes", "default"]["value"] == "1048576"
    assert found["limits.statement_seconds", "default"]["value"] == "not set"
    assert found["flightllm.cache", "default"]["value"] == "on"
    changed = found["flightllm.cache", "session"]
    assert (changed["value"], changed["session_id"], changed["user"]) == ("off", other.id, "ann")
    missing = rows(session, "SELECT name FROM system.settings WHERE description = ''")
    of_users = {"tables", "attached", "storage.object_stores", "models.aliases"}  # names that the user chose
    assert {row["name"] for row in missing} == of_users
    database.close()


def test_secrets_and_paths_are_not_shown(tmp_path: Path) -> None:
    """What must not be known is only said to be set."""
    config = Config(
        server=ServerConfig(token="env:MY_TOKEN"),
        engine=EngineConfig("openai", "/models/secret", options={"api_key": "env:KEY", "base_url": "http://x/v1"}),
        data_folder=tmp_path,
    )
    table = SettingsTable(config, SessionLog()).snapshot("settings").to_pylist()
    values = {row["name"]: row["value"] for row in table}
    hidden = ("server.token", "engine.api_key", "engine.model", "data_folder")
    assert [values[name] for name in hidden] == ["set"] * 4
    assert (values["engine.base_url"], values["cache.path"]) == ("http://x/v1", "not set")
    assert not [value for value in values.values() if "MY_TOKEN" in value or str(tmp_path) in value]


def test_every_key_of_the_limits_is_described() -> None:
    """The comments of the shipped configuration are what the table shows."""
    told = descriptions()
    assert told["limits.memory_bytes"].endswith("so lower the value if many run at once")
    assert [name for name in LimitsConfig.__slots__ if not told.get(f"limits.{name}")] == []
    assert Settings.descriptions().keys() == Settings().as_text().keys()
    assert all(Settings.descriptions().values())
