"""Users by the command line, kept in the data folder."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.access.store import AccessStore
from flightllm.cli import main


def test_a_name_is_given_again_on_purpose_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a dropped one's name would have what that one made: the command says so, and how it is done."""
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path))

    def said(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["user", *arguments])
        return result.exit_code, result.output

    assert said("add", "bob", "--no-password") == (0, f"added bob (user) in {tmp_path}\n")
    assert said("drop", "bob") == (0, "dropped bob\n")
    code, message = said("add", "bob", "--no-password")
    assert (code, "another user 'bob'" in message, "add --again" in message) == (1, True, True)
    assert said("add", "bob", "--no-password", "--again", "--role", "readonly") == (
        0,
        f"added bob (readonly) in {tmp_path}\n",
    )
    [store] = [AccessStore(path) for path in tmp_path.rglob("access.sqlite")]
    assert store.user("bob").role == "readonly"
    store.close()
