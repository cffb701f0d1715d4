"""The engine spec in Superset's own application, which has an older SQLAlchemy.

Superset is not in the environment of the tests. FLIGHTLLM_SUPERSET_PYTHON names a Python that has it and ADBC's driver.
"""

import ast
import datetime as dt
import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

alchemy: Any = pytest.importorskip("sqlalchemy")
_ROOT = Path(__file__).parents[2]
_PYTHON = os.environ.get("FLIGHTLLM_SUPERSET_PYTHON")
_MAKE = (
    "CREATE SCHEMA sales",
    "CREATE TABLE sales.shops (id INT, name TEXT)",
    "INSERT INTO sales.shops VALUES (1, 'a'), (2, 'b'), (3, 'b')",
    """CREATE TABLE kinds (small SMALLINT, big BIGINT, double DOUBLE PRECISION, exact NUMERIC(10, 2), body TEXT,
       raw BYTEA, yes BOOLEAN, day DATE, at TIMESTAMP, zoned TIMESTAMPTZ, id UUID)""",
    """CREATE TABLE times AS SELECT TIMESTAMP '2024-05-19 10:17:33' AS at, DATE '2024-05-19' AS day,
       TIMESTAMPTZ '2024-05-19 10:17:33Z' AS zoned, 1716113853 AS epoch_s, 1716113853250 AS epoch_ms""",
    "CREATE VIEW seen AS SELECT name FROM sales.shops",
)
_SUNDAY = dt.datetime(2024, 5, 19, 10, 17, 33)  # noqa: DTZ001 -- TIMESTAMP has no zone


def _grains() -> list[str]:
    """Return the expressions in the source, which cannot be imported without Superset."""
    tree = ast.parse(Path("flightllm/alchemy/superset.py").read_text(encoding="utf-8"))
    grains = max((node for node in ast.walk(tree) if isinstance(node, ast.Dict)), key=lambda node: len(node.values))
    return [value.value for value in grains.values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def test_grains_run(engine: Any) -> None:
    """Each grain of time is SQL that the server runs."""
    columns = ", ".join(grain.format(col="t") for grain in _grains())
    with engine.connect() as connection:
        row = connection.execute(alchemy.text(f"SELECT {columns} FROM (SELECT TIMESTAMP '{_SUNDAY}' AS t) AS q")).one()
    assert row[0] == _SUNDAY
    assert row[-1] == dt.datetime(2024, 1, 1)  # noqa: DTZ001 -- see above


@pytest.fixture(scope="module")
def found(engine: Any, url: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what Superset finds on a server."""
    if _PYTHON is None:
        pytest.skip("FLIGHTLLM_SUPERSET_PYTHON names no Python that has Superset")
    with engine.begin() as connection:
        for sql in _MAKE:
            connection.execute(alchemy.text(sql))
    folder = tmp_path_factory.mktemp("superset")
    points = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    about = folder / "flightllm-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: flightllm\nVersion: 0\n", encoding="utf-8")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in made.items()) for group, made in points.items()
    ]
    (about / "entry_points.txt").write_text("".join(lines), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{_ROOT}:{folder}"}
    command = [_PYTHON, str(Path(__file__).with_name("superset_trial.py")), url, str(folder)]
    ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert ran.returncode == 0, ran.stderr[-5000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_catalog(found: Any) -> None:
    """Superset lists schemas, tables and views, and knows numbers, texts, truth values and times apart."""
    assert {"public", "sales", "system"} <= set(found["schemas"])
    assert {"kinds", "times"} <= set(found["tables"])
    assert "seen" in found["views"]
    kinds = dict.fromkeys(("small", "big", "double", "exact"), "NUMERIC") | dict.fromkeys(
        ("body", "raw", "id"), "STRING"
    )
    assert found["columns"] == kinds | {"yes": "BOOLEAN"} | dict.fromkeys(("day", "at", "zoned"), "TEMPORAL")


def test_queries(found: Any) -> None:
    """The preview of a table and a limited query run, in the schema that the user chose; an error is the server's."""
    assert found["place"] == "sales"
    assert found["star"] == [["1", "a"], ["2", "b"]]
    assert found["limited"] == [["a"]]
    assert "nope" in found["error"]
    assert "Flight" not in found["error"]


def test_times(found: Any) -> None:
    """Each grain cuts times, times with a zone and days; epochs and literals are the times that they name."""
    at = {grain: row[0] for grain, row in found["grains"].items()}
    assert at["PT30S"] == "2024-05-19 10:17:30"
    assert at["PT6H"] == "2024-05-19 06:00:00"
    assert at["P1W"] == at["1969-12-29T00:00:00Z/P1W"] == "2024-05-13 00:00:00"
    assert at["1969-12-28T00:00:00Z/P1W"] == at["P1W/1970-01-04T00:00:00Z"] == "2024-05-19 00:00:00"
    assert at["P1W/1970-01-03T00:00:00Z"] == "2024-05-25 00:00:00"
    assert at["P3M"] == "2024-04-01 00:00:00"
    for grain, (first, zoned, day) in found["grains"].items():
        assert zoned.removesuffix("+00:00") == first, grain
        if grain != "None" and "T" not in grain.partition("/")[0]:
            assert day.removesuffix("+00:00").removesuffix(" 00:00:00") == first.removesuffix(" 00:00:00"), grain
    assert found["epochs"] == ["2024-05-19 10:17:33+00:00", "2024-05-19 10:17:33.250000+00:00"]
    assert found["literals"] == {"day": 1, "at": 1, "zoned": 1, "text": None}


def test_cost(found: Any) -> None:
    """SQL Lab shows what each statement would cost."""
    first, second = found["costs"]
    assert (first["Model calls"], second["Model calls"]) == ("0", "2")
    assert second["Price"] == "no known price"
    assert int(second["Tokens"]) > 0


def test_cancel(found: Any) -> None:
    """SQL Lab stops a query."""
    error, again = found["cancelled"]
    assert "cancel" in error
    assert not again
