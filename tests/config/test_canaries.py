"""A key at any place of the configuration file, right or wrong, is in no error and no row of `system.settings`."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import pytest

from flightllm.common import redaction
from flightllm.common.redaction import redacted
from flightllm.config import Config, ObjectStoreConfig
from flightllm.config.engine_kinds import EMBEDDERS, ENGINES
from flightllm.engines import check_engine
from flightllm.engines.embed import create_embedder
from flightllm.errors import FlightLLMError
from flightllm.observe.session_log import SessionLog
from flightllm.storage.objects import ObjectStores
from flightllm.system_tables.settings import SettingsTable
from tests.canaries import CANARY, MARKS, UNKNOWN

QUOTED = quote(CANARY, safe="")
VALUES = (
    json.dumps(CANARY),
    json.dumps(f"{CANARY}\n{CANARY}"),
    f'{{X-Api-Key = "{CANARY}", token = ["{CANARY}"]}}',
    f'["{CANARY}"]',
    f'[{{a = "{CANARY}"}}]',
    f'"http://someone:{QUOTED}@127.0.0.1:1/v1"',
    f'"http://127.0.0.1:1/v1?key={QUOTED}"',
    f'"https://{QUOTED}@127.0.0.1:1/v1"',
    f'"ftp://someone:{CANARY}@["',
    f'"s3://AKIA:{QUOTED}@lake/x"',
    f'"env:{CANARY}"',
    f'"file:/tmp/{CANARY}"',
)
SHARED = ("model", "kind", "max_in_flight", "price_input", "reasoning", "prompt_format", "unknown", "api_key")


def _of_models(section: str, kind: str) -> Iterator[str]:
    """Yield files whose section `[engine]` or `[embedding]` has a secret in one of its options."""
    module, _, name = (ENGINES if section == "engine" else EMBEDDERS)[kind].options.partition(":")
    own = [one.name for one in fields(getattr(import_module(module), name))]
    for option in (*own, *SHARED):
        given = {"kind": f'"{kind}"', "model": '"x"'}
        given |= {"max_retries": "0", "timeout": "1"} if kind in {"openai", "anthropic"} else {}
        for value in VALUES:
            yield f"[{section}]\n" + "\n".join(f"{key} = {one}" for key, one in {**given, option: value}.items())


def _of_others() -> Iterator[str]:
    """Yield files with a secret in any other section, at a wrong place, or in a text that is not TOML."""
    config = Config()
    for section in fields(config):
        part = getattr(config, section.name)
        for value in VALUES[::3]:
            if not is_dataclass(part):
                yield f"{section.name} = {value}"
                yield f"[{section.name}]\nx = {value}"
            elif section.name not in {"engine", "embedding"}:
                for key in fields(part):
                    yield f"[{section.name}]\n{key.name} = {value}"
    store = {"url": '"s3://b"', "access_key_id": '"env:PATH"', "secret_access_key": '"env:PATH"'}
    for name in (*(one.name for one in fields(ObjectStoreConfig)), "sas_token"):
        for value in VALUES:
            lines = "\n".join(f"{key} = {one}" for key, one in {**store, name: value}.items())
            yield f"[storage.object_stores.lake]\n{lines}"
    for line in (f'api_key = "{CANARY}', f"api_key = {CANARY}", f'api_key "{CANARY}"', CANARY, f'"{CANARY}" = 1'):
        yield f"[engine]\n{line}"


def _shown(text: str, file: Path) -> Iterator[str]:
    """Yield what a user sees of a file: its error, and its settings."""
    file.write_text(text)
    try:
        config = Config.load(file)
        with suppress(FlightLLMError):
            check_engine(config.engine)
        if "[embedding]" in text:
            create_embedder(config.embedding).close()
        ObjectStores(config.storage)
        yield str(SettingsTable(config, SessionLog()).snapshot("settings").to_pylist())
        check_engine(config.engine)
    except FlightLLMError as error:
        yield redacted(str(error))


def _leaks(texts: Iterator[str], folder: Path) -> list[tuple[str, str]]:
    """Return the files that show their secret, and how."""
    shown = []
    for text in texts:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redaction, "_SECRETS", redaction._Secrets())  # another file's secret must not help
            shown += [(text, said) for said in _shown(text, folder / "server.toml")]
    assert len(shown) > 50
    return [one for one in shown if any(mark in one[1] for mark in MARKS)]


WRONG = ("someone:{}@127.0.0.1:1/v1", "http:/someone:{}@h/v1", "http:///me:{}@h/v1", "http//me:{}@h", "h:8/v1?key={}")
"""Addresses with a wrong start."""
ADDRESSES = {
    "[engine]": ("base_url", "proxy", "kv_events", "kv_replay"),
    "[embedding]": ("base_url",),
    "[tracing]": ("endpoint",),
    "[auth]": ("jwks",),
    "[storage.object_stores.lake]": ("url", "endpoint"),
}


@pytest.mark.parametrize("section", ADDRESSES)
def test_addresses_with_a_wrong_start(section: str, tmp_path: Path) -> None:
    """The login of an address is hidden, although the address does not begin as it must."""
    keys = {"[engine]": {"kind": "openai", "model": "x", "tokenizer": "demo"}}
    keys |= {"[embedding]": {"kind": "openai", "model": "x"}, "[storage.object_stores.lake]": {"url": "s3://b"}}
    for name in ADDRESSES[section]:
        for value in WRONG:
            own = keys.get(section, {}) | {name: value.format(quote(UNKNOWN, safe=""))}
            text = "\n".join((section, *(f"{key} = {json.dumps(one)}" for key, one in own.items())))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(redaction, "_SECRETS", redaction._Secrets())
                shown = list(_shown(text, tmp_path / "server.toml"))
            assert shown
            assert not [one for one in shown if "stranger9931" in one], text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENGINES)
def test_engines(kind: str, tmp_path: Path) -> None:
    """A secret in any option of an engine is not shown."""
    assert _leaks(_of_models("engine", kind), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", EMBEDDERS)
def test_embedding_models(kind: str, tmp_path: Path) -> None:
    """A secret in any option of an embedding model is not shown."""
    assert _leaks(_of_models("embedding", kind), tmp_path) == []


@pytest.mark.slow
def test_other_sections(tmp_path: Path) -> None:
    """A secret in any other key is not shown, nor one in a file that is not TOML."""
    assert _leaks(_of_others(), tmp_path) == []


def test_an_error_shows_ordinary_values(tmp_path: Path) -> None:
    """An error about a wrong value still quotes it, if it is no secret."""
    (tmp_path / "server.toml").write_text('[engine]\nmax_in_flight = "eight"')
    with pytest.raises(FlightLLMError, match="max_in_flight: expected a whole number, got 'eight'"):
        Config.load(tmp_path / "server.toml")
