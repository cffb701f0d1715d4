r"""The shell's `\label` asks a person about rows, and keeps the answers."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from flightllm.cli.shell_commands import Shell
from flightllm.client import Client
from flightllm.demo.process import running_server
from flightllm.errors import InvalidInputError, NotFoundError


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Serve labelled and other messages, with a filter that the labels taught."""
    lines = [f"{'win money' if at % 2 else 'see you'} {at},{at % 2 == 1}" for at in range(40)]
    (tmp_path / "labelled.csv").write_text("t,label\n" + "\n".join(lines) + "\n")
    (tmp_path / "messages.csv").write_text("t\n" + "\n".join(f"win {at}" for at in range(9)) + "\n")
    files = {name: tmp_path / f"{name}.csv" for name in ("labelled", "messages")}
    with running_server(["--engine", "fake"], files) as started, Client(started.uri) as client:
        _run(client, "CREATE FILTER spam AS ai_filter('Spam? {t}', t) FIT ON labelled WITH (features = 'model')")
        yield client


def _run(client: Client, sql: str) -> list[dict[str, object]]:
    return [row for batch in client.query(sql)[1] for row in batch.to_pylist()]


@pytest.mark.slow
def test_label(client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A person answers about the next rows, skips one and stops; the answers are rows of `system.labels`."""
    given = iter(["y", "s", "n", "q"])
    monkeypatch.setattr(click, "prompt", lambda *_, **__: next(given))
    shell = Shell(client, None)
    shell.run(r"\label spam SELECT t FROM messages WHERE t <> 'win 1'")
    told = capsys.readouterr()
    assert told.out.count("t: win ") == 4
    assert "2 labels kept in system.labels" in told.err
    kept = _run(client, "SELECT function, fields, label FROM system.labels ORDER BY label")
    assert [(row["function"], row["label"]) for row in kept] == [("ai_filter", "No"), ("ai_filter", "Yes")]
    for wrong, error, message in (
        (r"\label spam", InvalidInputError, "write .*label FILTER SELECT"),
        (r"\label spaam SELECT t FROM messages", NotFoundError, "no filter 'spaam'"),
    ):
        with pytest.raises(error, match=message):
            shell.run(wrong)
