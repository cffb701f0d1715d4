"""What the policies learned survives a restart."""

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from flightllm.kvcache.eviction import create_policy
from flightllm.kvcache.eviction.adaptive import Adaptive
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.planned import PlannedPolicy

NAMES = ("workload_aware", "planned")


def learn(policy: Any, prompts: int = 300) -> None:
    """Run prompts of a call site whose blocks come again after two seconds, and of one whose blocks do not."""
    for number in range(prompts):
        for site, start in (("chat", number - number % 2), ("scan", 10_000 + 2 * number)):
            policy.use(Use([start, start + 1], site), float(number))
            for key in (start + 1, start):
                policy.free(key, float(number))
                policy.hold(key)
    policy._memory.wait()


def counts(policy: Any) -> dict[str, Any]:
    """Return what a policy has learned."""
    assert isinstance(policy, Adaptive | PlannedPolicy)
    return policy.counts() if isinstance(policy, Adaptive) else policy._counts()


@pytest.mark.parametrize("name", NAMES)
def test_what_was_learned_survives(tmp_path: Path, name: str) -> None:
    """A new policy begins with the counts of the file, which is written once a minute."""
    path = tmp_path / "eviction.json"
    first = create_policy(name, 50, str(path))
    assert not path.exists()
    learn(first)
    written = json.loads(path.read_text())
    assert written.pop("format") == 1
    again = counts(create_policy(name, 50, str(path)))
    assert again["classes"] == written["classes"]
    assert again["shapes"] == written["shapes"]
    assert {site for site, *_ in again["classes"]} >= {"chat", "scan"}
    assert min(again["behind"]) == 0.0
    assert [path.name for path in tmp_path.iterdir()] == ["eviction.json"]


def test_a_restarted_policy_keeps_what_comes_again(tmp_path: Path) -> None:
    """From the first prompts on, blocks of a call site that comes again outlive later ones of a scan."""
    path = tmp_path / "eviction.json"
    learn(create_policy("workload_aware", 50, str(path)))
    likely = []
    for policy in (create_policy("workload_aware", 50, str(path)), create_policy("workload_aware", 50)):
        assert isinstance(policy, Adaptive)
        classes = policy.learned._table
        likely.append([classes.get(site, 2, "middle").statistics.probability for site in ("chat", "scan")])
    (chat, scan), (new_chat, new_scan) = likely
    assert chat > scan + 0.2
    assert new_chat == new_scan


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"[1]",
        b"[" * 100_000,
        b"\xff",
        b'{"format": 2}',
        b'{"format": 1}',
        b'{"format": 1, "behind": [0, 0, 0, 0, 0, 0], "shapes": [], "classes": [["a", [1], -1, 0, 0, null]]}',
        b'{"format": 1, "behind": [0], "shapes": [], "classes": []}',
        b'{"format": 1, "behind": [0, 0, 0, 0, 0, 0], "shapes": [[{}, 1, 0, 0, null]], "classes": []}',
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_damaged_files(tmp_path: Path, name: str, content: bytes) -> None:
    """The policy starts anew, says so, and replaces the file."""
    path = tmp_path / "eviction.json"
    path.write_bytes(content)
    with capture_logs() as logs:
        policy = create_policy(name, 50, str(path))
    assert [log["event"] for log in logs] == ["kv_eviction_memory_unusable"]
    assert counts(policy) == counts(create_policy(name, 50))
    learn(policy)
    assert json.loads(path.read_text())["format"] == 1


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The policy goes on, and says so."""
    policy = create_policy("workload_aware", 50, str(tmp_path / "missing" / "eviction.json"))
    with capture_logs() as logs:
        learn(policy)
    assert {log["event"] for log in logs} == {"kv_eviction_memory_not_saved"}
