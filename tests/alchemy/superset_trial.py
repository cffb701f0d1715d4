"""Superset itself reads a server; a Python that has Superset runs this program.

The first argument is the address of a server with the tables of `test_superset.py`, the second one an empty folder.
The last line of the output is JSON with what Superset found.
"""

import json
import os
import sys
import threading
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

_SETTINGS = """
SECRET_KEY = "of a test"
SQLALCHEMY_DATABASE_URI = "sqlite://"
CACHE_CONFIG = DATA_CACHE_CONFIG = {"CACHE_TYPE": "NullCache"}
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = CACHE_CONFIG
"""
_SLOW = "SELECT sum(a.value * b.value) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b"


def _rows(database: Any, sql: str) -> list[list[str]]:
    return [[str(value) for value in row] for row in database.get_df(sql).values.tolist()]


def _grains(database: Any, spec: Any) -> dict[str, list[str]]:
    """Return what each grain makes of a time, of a time with a zone, and of a day."""
    from sqlalchemy import column, select, text

    found = {}
    for grain in spec.get_time_grain_expressions():
        parts = [
            spec.get_timestamp_expr(column(name), None, grain).label(f"{name}_") for name in ("at", "zoned", "day")
        ]
        query = select(parts).select_from(text("times"))
        [found[str(grain)]] = _rows(database, database.compile_sqla_query(query))
    return found


def _epochs(database: Any, spec: Any) -> list[str]:
    from sqlalchemy import column, select, text

    parts = [spec.get_timestamp_expr(column(unit), unit, None).label(f"{unit}_") for unit in ("epoch_s", "epoch_ms")]
    query = database.compile_sqla_query(select(parts).select_from(text("times")))
    return _rows(database, query)[0]


def _literals(database: Any, spec: Any) -> dict[str, int]:
    """Return how many rows have the time of a literal, for each type of column."""
    at = datetime(2024, 5, 19, 10, 17, 33)  # noqa: DTZ001 -- TIMESTAMP has no zone
    kinds = {"day": "DATE", "at": "TIMESTAMP", "zoned": "TIMESTAMP"}
    found = {
        name: len(_rows(database, f"SELECT * FROM times WHERE {name} = {spec.convert_dttm(kind, at)}"))
        for name, kind in kinds.items()
    }
    return found | {"text": spec.convert_dttm("VARCHAR", at)}


def _cancelled(database: Any, spec: Any) -> tuple[str, bool]:
    """Stop a query as SQL Lab does; return its error, and what cancelling a session without a query returns."""
    said = []
    with database.get_raw_connection() as running, closing(running.cursor()) as cursor:
        place = spec.get_cancel_query_id(cursor, None)

        def run() -> None:
            try:
                spec.execute(cursor, _SLOW, database)
                spec.fetch_data(cursor, None)
            except Exception as error:  # noqa: BLE001 -- the test reads it
                said.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        with database.get_raw_connection() as other, closing(other.cursor()) as stopper:
            deadline = time.monotonic() + 30
            while thread.is_alive() and time.monotonic() < deadline:
                spec.cancel_query(stopper, None, place)
                thread.join(0.1)
            return said[0], spec.cancel_query(stopper, None, place)


def _error(database: Any, spec: Any, sql: str) -> str:
    try:
        database.get_df(sql)
    except Exception as error:  # noqa: BLE001 -- the test reads it
        return str(spec.extract_errors(error)[0].message)
    return ""


def _found(address: str) -> dict[str, Any]:
    from superset.db_engine_specs import get_engine_spec
    from superset.models.core import Database
    from superset.sql.parse import Table

    database = Database(database_name="flightllm", sqlalchemy_uri=address)
    spec = get_engine_spec("flightllm")
    tell = "SELECT ai_gen('Tell of {name}', name) AS told FROM shops"
    star = database.select_star(Table("shops", "sales"), limit=2, show_cols=True)
    columns = [
        (one["column_name"], str(one["type"]), spec.get_column_spec(str(one["type"])))
        for one in database.get_columns(Table("kinds"))
    ]
    with database.get_sqla_engine(schema="sales") as engine:
        place = engine.execute("SELECT current_schema()").scalar()
    return {
        "schemas": sorted(database.get_all_schema_names()),
        "tables": sorted(one[0] for one in database.get_all_table_names_in_schema(None, "public")),
        "views": sorted(one[0] for one in database.get_all_view_names_in_schema(None, "public")),
        "columns": {name: kind and kind.generic_type.name for name, _, kind in columns},
        "place": place,
        "star": _rows(database, star),
        "limited": _rows(database, database.apply_limit_to_sql("SELECT name FROM sales.shops ORDER BY name", 1)),
        "grains": _grains(database, spec),
        "names": sorted(one.duration or "" for one in spec.get_time_grains()),
        "epochs": _epochs(database, spec),
        "literals": _literals(database, spec),
        "costs": spec.query_cost_formatter(spec.estimate_query_cost(database, None, "sales", f"SELECT 1; {tell}")),
        "error": _error(database, spec, "SELECT nope FROM sales.shops"),
        "cancelled": _cancelled(database, spec),
    }


def main(address: str, folder: Path) -> None:
    """Make Superset's application, and write what it finds at an address."""
    (folder / "superset_config.py").write_text(_SETTINGS, encoding="utf-8")
    sys.path.insert(0, str(folder))
    os.environ["SUPERSET_HOME"] = str(folder)
    from superset.app import create_app

    with create_app().app_context():
        sys.stdout.write(f"{json.dumps(_found(address))}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
