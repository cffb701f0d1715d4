"""SQLAlchemy's own tests of dialects: types, statements and results, in a process of their own."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

alchemy: Any = pytest.importorskip("sqlalchemy")
_CONFTEST = """
from sqlalchemy.dialects import registry
for name in ("flightllm", "flightllm.adbc"):
    registry.register(name, "flightllm.alchemy.dialect", "FlightLLMDialect")
from sqlalchemy.testing.plugin.pytestplugin import *
"""
_CHOSEN = (
    "CTETest or FetchLimitOffsetTest or RowFetchTest or NumericTest or UuidTest or BinaryTest or SimpleUpdateDelete"
)


@pytest.mark.slow
def test_suite(engine: Any, url: str, tmp_path: Path) -> None:
    """Each chosen test passes or is skipped."""
    with engine.begin() as connection:
        connection.execute(alchemy.text("CREATE SCHEMA test_schema"))
    (tmp_path / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    (tmp_path / "test_all.py").write_text("from sqlalchemy.testing.suite import *\n", encoding="utf-8")
    rules = "[sqla_testing]\nrequirement_cls=tests.alchemy.suite_requirements:Requirements\nprofile_file=profile.txt\n"
    (tmp_path / "setup.cfg").write_text(rules, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "-W",
        "ignore",
        "--dburi",
        url,
    ]
    run = subprocess.run(
        [*command, "-k", _CHOSEN, "test_all.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
