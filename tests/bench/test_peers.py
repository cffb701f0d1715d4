"""The comparison with peers: what can be checked without them and without a server."""

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import __main__ as comparison
from bench.peers import install
from bench.peers.server import counters

_METRICS = """# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
vllm:prompt_tokens_total{engine="0",model_name="bench"} 1200.0
vllm:prefix_cache_hits_total{engine="0",model_name="bench"} 800.0
vllm:generation_tokens_total{engine="0",model_name="bench"} 30.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="bench"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="bench"} 3.0
vllm:request_success_created{engine="0",finished_reason="stop",model_name="bench"} 1.7e+09
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the metrics."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(_METRICS.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """A server that has metrics."""
    with http.server.HTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_what_the_server_counted(url: str) -> None:
    """Calls are summed over how they ended; times of creation are no counts."""
    assert counters(url) == {"calls": 10, "prompt_tokens": 1200, "cached_tokens": 800, "completion_tokens": 30}


def test_rows_are_joined_in_the_order_of_the_reviews(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every system reads the same lines: three texts each, none missing."""
    monkeypatch.delenv("FLIGHTLLM_DATA", raising=False)
    comparison.write_lines(comparison.joined(50), tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 50
    assert all(tuple(row) == comparison.FIELDS and all(row.values()) for row in rows)


def test_figures_become_a_table() -> None:
    """One line for each task and system, numbers with separators."""
    names = ("calls", "prompt_tokens", "cached_tokens", "computed_tokens", "completion_tokens")
    figures = {**dict.fromkeys(names, 2_000), "seconds": 1.26}
    assert comparison.table({"filter": {"x": figures}}).splitlines()[2] == (
        "| filter | x | 2,000 | 2,000 | 2,000 | 2,000 | 2,000 | 1.3 |"
    )


def test_a_peer_that_cannot_be_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The comparison goes on without it, and says so."""

    def fails(_name: str) -> Path:
        raise RuntimeError("no such package")

    monkeypatch.setattr(comparison, "peer_python", fails)
    assert all(name.startswith("FlightLLM") for name in comparison.systems(["daft"]))
    assert "left out: no such package" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("import sys; sys.exit('first\\nlast')", "cannot be installed: last"),
        ("raise SystemExit(3)", "cannot be installed: exit status 3"),
    ],
)
def test_why_a_peer_cannot_be_installed(python: str, said: str) -> None:
    """Whatever fails on the way is the one error that leaves the peer out, also where it says nothing."""
    with pytest.raises(RuntimeError, match=said):
        install._run([sys.executable, "-c", python], "x==1")
    with pytest.raises(RuntimeError, match="cannot be installed"):
        install._run(["/nowhere/python"], "x==1")
