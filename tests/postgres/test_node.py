"""Node's package `pg`, with its cursors and COPY streams."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.postgres.support import SECONDS, Place

PACKAGES = ("pg@8", "pg-cursor@2", "pg-copy-streams@7")
SCRIPT = Path(__file__).parent / "node" / "pg.cjs"


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def packages() -> Path:
    """Return the folder with the packages; it is filled once, without the packages' scripts.

    The test is skipped where Node or its registry is missing. Where `CI` is `true`, a missing registry is a failure.
    """
    npm = shutil.which("npm")
    if shutil.which("node") is None or npm is None:
        pytest.skip("Node and npm are not installed")
    parent = Path(tempfile.gettempdir()) / f"flightllm-node-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    if parent.is_symlink() or parent.stat().st_uid != os.getuid():
        pytest.skip(f"{parent} belongs to another user")
    folder = parent / hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:16]
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(dir=parent) as made:
        Path(made, "package.json").write_text('{"private": true}')
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0", "--prefer-offline"]
        command = [npm, "install", *options, *PACKAGES]
        try:
            done = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            _missing("the Node registry does not answer")
        if done.returncode:
            _missing(f"the packages cannot be installed: {done.stderr[-300:]}")
        with suppress(OSError):  # another run was faster
            Path(made).rename(folder)
            Path(made).mkdir()  # for the end of the block
    return folder


@pytest.fixture
def seen(place: Place, packages: Path) -> Any:
    """Return what the program saw."""
    done = subprocess.run(
        ["node", str(SCRIPT), str(place.port)],  # noqa: S607 - found by `packages`
        env={**os.environ, "TZ": "UTC", "NODE_PATH": str(packages / "node_modules")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def test_pg(seen: Any) -> None:
    """Queries, values, names, types, errors, cursors, COPY and a cancel work as with PostgreSQL."""
    assert seen["simple"] == [{"a": "1", "b": "text 1"}, {"a": "2", "b": "text 2"}]
    assert seen["several"] == [[{"a": "1"}], [{"b": "2"}]]
    assert seen["bound"] == [{"a": "1"}, {"a": "2"}]
    assert seen["named"] == [{"a": "3"}, {"a": "4"}]
    assert seen["oids"] == [21, 20, 1700, 701, 1082, 1114, 1184, 16, 17, 1016, 1186, 25]
    assert seen["types"] == {
        "a": 1,
        "b": "2",
        "c": "1.50",
        "d": 1.5,
        "e": "2024-01-02T00:00:00.000Z",
        "f": "2024-01-02T03:04:05.678Z",
        "g": "2024-01-02T03:04:05.000Z",
        "h": True,
        "i": "ff00",
        "j": ["1", "2", None],
        "k": {"days": 1},
        "l": None,
    }
    assert seen["error"] == {"code": "42703", "position": "8"}
    assert seen["syntax"]["code"] == "42601"
    assert seen["again"] == [{"a": 1}]
    assert seen["cursor"] == [4000, 4000, 2000]
    assert seen["copied"] == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert seen["copy"] == "1\tx\n2\t\\N\n"
    assert seen["cancelled"] == {"code": "57014", "position": None, "done": True}
