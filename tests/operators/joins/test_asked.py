"""Pairs whose prompts fail."""

import json
from collections import Counter
from pathlib import Path

from tests.databases import ask, small_database


def test_a_refused_pair_is_sent_once(tmp_path: Path) -> None:
    """A prompt that fails while a way is proved is not sent again by the way that takes its place."""
    log = tmp_path / "log.jsonl"
    database = small_database(tmp_path / "data", {"fail_containing": "thing 7 ", "log_path": str(log)})
    session = database.session()
    session.update(
        "CREATE TABLE things AS SELECT value AS id, 'thing ' || value || ' here' AS t FROM generate_series(1, 12)"
    )
    sql = """SELECT a.id, b.id AS other FROM things a JOIN things b
        ON a.id <> b.id AND ai_filter('{{x}} and {{y}} agree', x => a.t, y => b.t{})"""
    found = []
    for strategy in ("pivot", "pairs"):
        before = len(log.read_text().splitlines()) if log.exists() else 0
        found.append(sorted(map(str, ask(session, sql.format(f", strategy => '{strategy}'"), cache="off").rows)))
        sent = Counter(json.loads(line)["prompt"] for line in log.read_text().splitlines()[before:])
        assert {prompt: count for prompt, count in sent.items() if count > 1 and "thing 7 " in prompt} == {}
        assert any("thing 7 " in prompt for prompt in sent)
    assert found[0] == found[1]
    database.close()
