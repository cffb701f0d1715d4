"""Users by the command line, kept in the data folder."""

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.access.store import AccessStore, User
from flightllm.cli import main
from flightllm.common.command_line import PASSWORD

Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Said:
    """Return what runs `flightllm user …` on a folder of its own, and gives exit code and output."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path))

    def said(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["user", *arguments])
        return result.exit_code, result.output

    return said


def users(folder: Path) -> Mapping[str, User]:
    """Return the users as they are kept."""
    [store] = [AccessStore(path) for path in folder.rglob("access.sqlite")]
    with closing(store):
        return store.snapshot().users


def test_a_name_is_given_again_on_purpose_only(tmp_path: Path, said: Said) -> None:
    """A user of a dropped one's name would have what that one made: the command says so, and how it is done."""
    assert said("add", "bob", "--no-password") == (0, f"added bob (user) in {tmp_path}\n")
    assert said("drop", "bob") == (0, "dropped bob\n")
    code, message = said("add", "bob", "--no-password")
    assert (code, "the name 'bob'" in message, "add --again" in message) == (1, True, True)
    expected = f"added bob (readonly) in {tmp_path}\n"
    assert said("add", "bob", "--no-password", "--again", "--role", "readonly") == (0, expected)
    assert users(tmp_path)["bob"].role == "readonly"


def test_the_last_group(tmp_path: Path, said: Said) -> None:
    """A user is taken out of all groups, or put into others in one go; without either they stay."""
    said("add", "bob", "--no-password", "--group", "a", "--group", "b")
    for arguments, groups in (([], {"a", "b"}), (["--no-groups", "--group", "c"], {"c"}), (["--no-groups"], set())):
        assert said("set", "bob", *arguments) == (0, "changed bob\n")
        assert users(tmp_path)["bob"].groups == groups


@pytest.mark.parametrize("command", [("drop", "root"), ("set", "root", "--role", "user")])
def test_the_last_admin(tmp_path: Path, said: Said, command: tuple[str, ...]) -> None:
    """Nobody else could grant anything: it stays, unless that is meant, or there is another one."""
    said("add", "root", "--no-password", "--role", "admin")
    said("add", "bob", "--no-password")
    code, message = said(*command)
    assert (code, "'root' is the last admin" in message, "add --force" in message) == (1, True, True)
    assert users(tmp_path)["root"].role == "admin"
    assert said("set", "root", "--tenant", "acme")[0] == 0
    assert said("drop", "bob")[0] == 0
    assert said(*command, "--force")[0] == 0
    said("add", "ann", "--no-password", "--role", "admin")
    said("add", "eve", "--no-password", "--role", "admin")
    assert said("drop", "ann")[0] == 0


def test_the_variable_that_help_names(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password is read from the variable that `--help` says it is read from."""
    [name] = re.findall(r"\bFLIGHTLLM\w*", said("add", "--help")[1])
    assert name == PASSWORD
    monkeypatch.setenv(name, "a long password")
    assert said("add", "bob")[0] == 0
    assert users(tmp_path)["bob"].password


def test_reset(tmp_path: Path, said: Said) -> None:
    """Without the file, no command makes a new one by chance; `--reset` does, and only then."""
    said("add", "bob", "--no-password")
    assert said("add", "root", "--no-password", "--reset")[0] == 1
    (tmp_path / "access.sqlite").unlink()
    code, message = said("add", "root", "--no-password", "--role", "admin")
    assert (code, "--reset" in message) == (1, True)
    assert said("add", "root", "--no-password", "--role", "admin", "--reset")[0] == 0
    assert set(users(tmp_path)) == {"root"}
