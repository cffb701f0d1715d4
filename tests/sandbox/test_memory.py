"""The memory that a process can take."""

from pathlib import Path

import pytest

from flightllm.sandbox.memory import machine_memory


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/system.slice/db.service\n", {"system.slice/db.service/memory.max": "3000"}, 3000),
        ("0::/system.slice/db.service\n", {"system.slice/memory.max": "2000"}, 2000),
        ("0::/a\n", {"a/memory.max": "max", "memory.max": "5000"}, 5000),
        ("4:memory:/docker/x\n3:cpu:/y\n", {"memory/docker/x/memory.limit_in_bytes": "4000"}, 4000),
        ("3:cpu:/y\n", {"memory/memory.limit_in_bytes": "6000", "memory/y/memory.limit_in_bytes": "1"}, 6000),
        ("", {"memory.max": "7000"}, 7000),
    ],
)
def test_limits_of_groups(tmp_path: Path, own: str, limits: dict[str, str], expected: int) -> None:
    """The least limit counts, of the group of the process and of the groups around it."""
    groups = tmp_path / "groups"
    for name, text in limits.items():
        path = groups / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    if own:
        (tmp_path / "own").write_text(own)
    assert machine_memory(tmp_path / "own", groups) == expected


def test_without_limits(tmp_path: Path) -> None:
    """Without control groups, the whole machine counts."""
    assert machine_memory(tmp_path / "own", tmp_path) > 1 << 20
