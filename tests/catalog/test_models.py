"""Models and prompts on disk: whole after any crash, refused when damaged."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.catalog.models import FILE, PREVIOUS, Objects, check_name, is_reference
from flightllm.config import EngineConfig
from flightllm.errors import ConfigError, InternalError, InvalidInputError, LimitExceededError, NotFoundError

WRITER = """
import sys
from pathlib import Path
from flightllm.catalog.models import Objects
objects = Objects(Path(sys.argv[1]))
while True:
    print(objects.put_prompt("p", "text " * 1000, "me").version, flush=True)
"""


def test_kept(tmp_path: Path) -> None:
    """What was put is there after a restart, in its order and with its versions."""
    objects = Objects(tmp_path)
    objects.put_model("m", {"engine": "fake", "latency_ms": 1.5, "max_in_flight": 3}, "me")
    objects.put_prompt("p", "one", "me")
    objects.put_prompt("p", "two", "you")
    again = Objects(tmp_path)
    assert again.models() == objects.models()
    assert again.prompts() == objects.prompts()
    config = again.engine("m")
    assert config is not None
    assert (config.kind, config.max_in_flight, dict(config.options)) == ("fake", 3, {"latency_ms": 1.5})
    assert again.engine("n") is None


def test_keys_of_every_engine(tmp_path: Path) -> None:
    """Options that every kind of engine has are no options of the kind, and whole numbers can be prices."""
    shared: dict[str, str | int | bool] = {"prompt_format": "plain", "reasoning": "low", "repair": False}
    model = Objects(tmp_path).put_model("m", {"engine": "fake", "price_output": 2, **shared, "cache_blocks": 3}, "me")
    expected = EngineConfig("fake", prompt_format="plain", reasoning="low", repair=False, price_output=2.0)
    assert replace(model.config, options={}) == replace(expected, options={})
    assert dict(model.config.options) == {"cache_blocks": 3}


def test_versions(tmp_path: Path) -> None:
    """The newest version goes by the name alone; a number never means another text, not even after DROP."""
    objects = Objects(tmp_path)
    objects.put_prompt("p", "one", "me")
    objects.put_prompt("p", "two", "me")
    assert [objects.prompt(name).text for name in ("p", "p@1", "p@2")] == ["two", "one", "two"]
    objects.drop_prompt("p")
    assert Objects(tmp_path).put_prompt("p", "three", "me").version == 3
    with pytest.raises(NotFoundError, match="has no version 1; it has 3"):
        Objects(tmp_path).prompt("p@1")


def test_missing(tmp_path: Path) -> None:
    """What is not there cannot be dropped or asked for; close names are suggested."""
    objects = Objects(tmp_path)
    objects.put_prompt("family", "x", "me")
    with pytest.raises(NotFoundError, match="no prompt 'famly': see SHOW PROMPTS"):
        objects.prompt("famly")
    with pytest.raises(NotFoundError, match="no prompt 'q': see SHOW PROMPTS"):
        objects.drop_prompt("q")
    with pytest.raises(NotFoundError, match="no model 'm': see SHOW MODELS"):
        objects.drop_model("m")


PROMPT = {"name": "p", "version": 1, "text": "x", "owner": "me", "created": ""}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"},
        {"models": None},
        {"models": {"m": {}}},
        {"models": {"m": {"options": 3, "owner": "", "created": ""}}},
        {"models": {"m": {"options": {"engine": "?"}, "owner": "", "created": ""}}},
        {"prompts": [{"name": "p"}]},
        {"prompts": [{**PROMPT, "text": 5}]},
        {"prompts": [{**PROMPT, "version": 2}]},
        {"numbers": {}},
        {"numbers": {"p": "x"}},
    ],
)
def test_damaged(tmp_path: Path, change: dict[str, object]) -> None:
    """A file that says what cannot be is refused with what to do, and stays as it is."""
    whole = {"format": 1, "models": {}, "prompts": [PROMPT], "numbers": {"p": 1}}
    path = tmp_path / FILE
    path.write_text(json.dumps(whole))
    assert Objects(tmp_path).prompt("p").text == "x"
    path.write_text(content := json.dumps(whole | change))
    with pytest.raises(ConfigError, match=r"objects\.json.*restore the file from a backup; or copy .* away to begin"):
        Objects(tmp_path)
    assert path.read_text() == content


def test_a_newer_version(tmp_path: Path) -> None:
    """A file of a newer version is not called damaged, and stays as it is."""
    path = tmp_path / FILE
    path.write_text(content := json.dumps({"format": 3, "models": {}, "prompts": [], "numbers": {}}))
    with pytest.raises(ConfigError, match=r"a newer version of FlightLLM wrote objects\.json .* its format is 3"):
        Objects(tmp_path)
    assert path.read_text() == content


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '"x"'])
def test_no_document(tmp_path: Path, content: str) -> None:
    """A file that was cut short, or is another's, is refused too."""
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ConfigError, match="restore the file from a backup"):
        Objects(tmp_path)


def test_cannot_be_written(tmp_path: Path) -> None:
    """What cannot be written has not happened, and the error shows no path."""
    objects = Objects(tmp_path / "data")
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(InternalError, match=r"could not be written to disk, and nothing has changed: File exists$"):
        objects.put_prompt("p", "x", "me")
    assert objects.prompts() == []


def test_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has a largest size, beyond which nothing changes."""
    monkeypatch.setattr("flightllm.catalog.models._MOST_BYTES", 2_000)
    objects = Objects(tmp_path)
    with pytest.raises(LimitExceededError, match="drop some first"):
        objects.put_prompt("p", "x" * 2_000, "me")
    assert objects.prompts() == []


@pytest.mark.slow
def test_killed(tmp_path: Path) -> None:
    """Whenever the process is killed, every version that it acknowledged is there."""
    for acknowledged in (1, 7, 20):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            last = [int(writer.stdout.readline()) for _ in range(acknowledged)][-1]
            os.kill(writer.pid, signal.SIGKILL)
        assert Objects(tmp_path).prompt("p").version >= last
    (tmp_path / f".{FILE}-left").write_text("{")
    Objects(tmp_path).put_prompt("q", "x y", "me")
    assert {path.name for path in tmp_path.iterdir()} == {FILE, PREVIOUS}, "what a killed one left is gone"
    json.loads((tmp_path / FILE).read_text())


@pytest.mark.parametrize("name", ["", "1a", "a b", "a@1", "a/b", "..", "x" * 61])
def test_names_refused(name: str) -> None:
    """A name that could be misread is refused."""
    with pytest.raises(InvalidInputError, match="cannot be the name of a prompt"):
        check_name("prompt", name)


def test_references() -> None:
    """Names, with or without a version, are told from texts."""
    assert all(map(is_reference, ("p", "größe", "a.b-c_d", "p@12")))
    assert not any(map(is_reference, ("a b", "Is {x}?", "p@", "p@x", "@1", "")))
