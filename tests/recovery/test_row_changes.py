"""A change of rows that is cut off by the death of the server changes nothing, and its answers are asked for once."""

import json
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from flightllm.errors import EngineUnavailableError
from tests.servers import SupervisedServer, await_true

ROWS, IN_FLIGHT, BEFORE = 200, 4, 40
SETTINGS = f"""[engine]
kind = "fake"
max_in_flight = {IN_FLIGHT}
latency_ms = 20
log_path = "{{}}"
[recovery]
quarantine_seconds = 0
"""
CHANGES = {
    "update": "UPDATE t SET v = ai_gen('Say', n) WHERE n >= 0",
    "update where": "UPDATE t SET v = 'new' WHERE ai_filter('Is it so?', n) RETURNING n, v",
    "update from": "UPDATE t SET v = s.w FROM s WHERE s.n = t.n AND ai_filter('Do they agree?', t.v, s.w)",
    "delete": "DELETE FROM t WHERE ai_filter('Is it so?', n)",
    "delete using": "DELETE FROM t USING s WHERE s.n = t.n AND ai_filter('Do they agree?', t.n, s.w)",
    "delete in": "DELETE FROM t WHERE n IN (SELECT n FROM s WHERE ai_filter('Is it so?', w))",
    "returning": "DELETE FROM t WHERE n >= 0 RETURNING ai_gen('Say', n)",
    "insert": "INSERT INTO t SELECT n + 1000, ai_gen('Say', w) FROM s RETURNING n",
    "on conflict": "INSERT INTO t SELECT n + 100, w FROM s ON CONFLICT (n) DO UPDATE SET v = ai_gen('Both', t.n)",
    "on conflict nothing": "INSERT INTO t SELECT n + 100, ai_gen('Say', w) FROM s ON CONFLICT DO NOTHING",
    "merge": "MERGE INTO t USING s ON s.n + 100 = t.n WHEN MATCHED AND ai_filter('Is it so?', s.w) THEN DELETE"
    " WHEN MATCHED THEN UPDATE SET v = s.w WHEN NOT MATCHED THEN INSERT VALUES (s.n + 100, s.w)",
    "merge values": "MERGE INTO t USING s ON s.n + 100 = t.n WHEN MATCHED THEN UPDATE SET v = ai_gen('Say', s.w)"
    " WHEN NOT MATCHED THEN INSERT VALUES (s.n + 100, ai_gen('New', s.w)) RETURNING merge_action(), t.n",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.parametrize(
    "name", [name if name == "update where" else pytest.param(name, marks=pytest.mark.slow) for name in CHANGES]
)
def test_killed_in_the_middle(tmp_path: Path, name: str) -> None:
    """The table is as it was; the same statement then asks again only for what was on its way, and takes effect."""
    log = tmp_path / "prompts"
    log.touch()
    change = CHANGES[name]
    with SupervisedServer(tmp_path, SETTINGS.format(log)) as server:
        server.query("CREATE TABLE t (n BIGINT PRIMARY KEY, v VARCHAR)")
        server.query(f"INSERT INTO t SELECT value, 'old' FROM generate_series(1, {ROWS})")
        server.query(f"CREATE TABLE s AS SELECT value AS n, 'w' || value AS w FROM generate_series(1, {ROWS})")
        before = server.query("SELECT * FROM t ORDER BY n")
        died = list[Exception]()

        def run() -> None:
            with pytest.raises(EngineUnavailableError) as raised:
                server.query(change)
            died.append(raised.value)

        thread = threading.Thread(target=run)
        thread.start()
        await_true(lambda: not thread.is_alive() or len(prompts(log)) >= BEFORE)
        server.kill_worker()
        thread.join(60)
        assert len(died) == 1
        assert server.query_again("SELECT * FROM t ORDER BY n") == before
        asked = len(prompts(log))
        assert asked < ROWS / 2, "the statement was in its middle"
        server.query_again(change)
        assert server.query("SELECT * FROM t ORDER BY n") != before
        (known,) = server.query("SELECT cache_hits FROM system.queries WHERE calls > 0")[0]
    counted = Counter(prompts(log))
    twice = sum(counted.values()) - len(counted)
    assert twice <= 2 * IN_FLIGHT
    assert known >= asked - 2 * IN_FLIGHT
    assert max(counted.values()) <= 2


def prompts(log: Path) -> list[str]:
    """Return the prompts that the engine was given, as it wrote them down."""
    lines = log.read_text().splitlines()
    return [str(json.loads(line)["prompt"]) for line in lines if line.endswith("}")]
