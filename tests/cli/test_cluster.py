"""`flightllm cluster status` against real servers."""

from pathlib import Path

from click.testing import CliRunner

from flightllm.cli import main
from tests.servers import ask, cursor_of, serving


def test_status(tmp_path: Path) -> None:
    """Each replica is shown with what it did."""
    replicas = [{"kind": "fake", "cache_blocks": 50}, {"kind": "fake", "cache_blocks": 70}]
    with serving(tmp_path, kind="cluster", replicas=replicas, policy="round_robin") as server:
        with cursor_of(server) as cursor:
            ask(cursor, "SELECT ai_gen('Of {n}?', n) AS a FROM t WHERE n <= 20")
        shown = CliRunner().invoke(main, ["cluster", "status", "--uri", server.uri])
        assert shown.exit_code == 0, shown.output
        lines = [[cell.strip() for cell in line.split("│")] for line in shown.output.splitlines() if "fake" in line]
        assert [line[:2] for line in lines] == [["fake 0", "up"], ["fake 1", "up"]]
        assert [line[5] for line in lines] == ["10", "10"]
        assert "of 70" in shown.output
        assert "policy round_robin" in shown.output


def test_no_cluster(tmp_path: Path) -> None:
    """A server with one engine says so."""
    with serving(tmp_path) as server:
        shown = CliRunner().invoke(main, ["cluster", "status", "--uri", server.uri])
    assert shown.exit_code == 0
    assert "no cluster here: the server has one engine (fake, model demo)" in shown.output
