"""The package flightsql-dbapi, which needs SQLAlchemy below 2: in an environment of its own."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

_SCRIPT = Path(__file__).with_name("flightsql_dbapi.py")
_PACKAGES = ("flightsql-dbapi>=0.2.2,<0.3", "SQLAlchemy<2")


def installed(folder: Path) -> Path:
    """Return the Python of a new environment that has the package, and finds what it lacks where this Python does."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *_PACKAGES]
    subprocess.run(command, check=True)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    others = folder / "lib" / f"python{own}" / "site-packages" / "others.pth"
    others.write_text("\n".join(path for path in sys.path if "site-packages" in path))  # its own packages go first
    return python


@pytest.mark.slow
def test_package(tmp_path: Path, server: FlightSqlServer, database: Database) -> None:
    """Its DB-API works, and so does SQLAlchemy on top of it, keys included."""
    database.session().update("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(n, x)")
    python = installed(tmp_path / "environment")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), "-W", "ignore", str(_SCRIPT), str(server.port)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    keys = database.session().catalog.table("parents").keys
    assert keys.primary is not None
    assert keys.primary.columns == ("id",)
