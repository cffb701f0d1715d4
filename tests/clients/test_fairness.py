"""One client's work does not hold up another's: counted in the order in which prompts were sent, not timed."""

import json
from pathlib import Path

from tests.servers import ask, cursor_of, serving


def test_a_short_query_beside_a_long_one(tmp_path: Path) -> None:
    """Ten prompts of one client go out among a thousand of another's, taking turns, not after them."""
    log = tmp_path / "prompts.jsonl"
    with (
        serving(tmp_path, window=8, latency_ms=5.0, log_path=str(log)) as server,
        cursor_of(server) as long,
        cursor_of(server) as short,
    ):
        long.execute("SELECT n, ai_gen('Long of {n}?', n) FROM t")
        long.fetchone()
        assert len(ask(short, "SELECT ai_gen('Short of {n}?', n) FROM t WHERE n <= 10")) == 10
        long.adbc_cancel()
    prompts = [json.loads(line)["prompt"] for line in log.read_text().splitlines()]
    places = [place for place, prompt in enumerate(prompts) if prompt.startswith("Short")]
    assert len(places) == 10
    between = places[-1] - places[0] + 1 - len(places)
    assert between <= 4 * len(places)
    assert len(prompts) < 1_010
