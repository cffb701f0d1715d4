"""The engine spec for Superset, where Superset is installed; its grains of time run on any machine."""

import ast
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

alchemy: Any = pytest.importorskip("sqlalchemy")
_SOURCE = Path("flightllm/alchemy/superset.py")


def _grains() -> list[str]:
    """Return the expressions in the source, which cannot be imported without Superset."""
    tree = ast.parse(_SOURCE.read_text(encoding="utf-8"))
    (grains,) = (node for node in ast.walk(tree) if isinstance(node, ast.Dict) and len(node.values) > 5)
    return [value.value for value in grains.values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def test_grains_run(engine: Any) -> None:
    """Each grain of time is SQL that the server runs, over dates and times."""
    columns = ", ".join(grain.format(col="t") for grain in _grains())
    with engine.connect() as connection:
        row = connection.execute(
            alchemy.text(f"SELECT {columns} FROM (SELECT TIMESTAMP '2024-05-15 10:17:33' AS t) AS q")
        )
        found = row.one()
    assert found[3] == dt.datetime(2024, 5, 15, 10, 15)  # noqa: DTZ001 -- TIMESTAMP has no zone
    assert found[-1] == dt.datetime(2024, 1, 1)  # noqa: DTZ001 -- see above


def test_spec() -> None:
    """Times become literals, and the schema of SQL Lab goes into the address."""
    pytest.importorskip("superset")
    from flightllm.alchemy.superset import FlightLLMEngineSpec as Spec

    at = dt.datetime(2024, 5, 15, 10, 17, 33)  # noqa: DTZ001 -- see above
    assert Spec.convert_dttm("DATE", at) == "DATE '2024-05-15'"
    assert Spec.convert_dttm("TIMESTAMP", at) == "TIMESTAMP '2024-05-15 10:17:33.000000'"
    assert Spec.convert_dttm("VARCHAR", at) is None
    address = alchemy.make_url("flightllm://localhost/")
    assert str(Spec.adjust_engine_params(address, {}, schema="sales")[0]) == "flightllm://localhost/sales"
