"""Write the files of `flightllm/pg_catalog/data` from a real PostgreSQL: `python tests/pg_catalog/make_data.py DSN`."""

import sys
from pathlib import Path

import psycopg

import flightllm.pg_catalog

_RELATIONS = """SELECT n.nspname || '.' || c.relname, c.relkind::text, c.oid,
    string_agg(a.attname || ' ' || t.typname || CASE WHEN a.attnotnull THEN '!' ELSE '' END, ',' ORDER BY attnum)
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    JOIN pg_type t ON t.oid = atttypid
    WHERE nspname IN ('pg_catalog', 'information_schema') AND relkind IN ('r', 'v') AND attnum > 0
    GROUP BY n.nspname, c.relname, c.relkind, c.oid ORDER BY n.nspname DESC, c.relname"""
_IO = ", ".join(f"typ{what}::oid" for what in ("input", "output", "receive", "send", "modin", "modout"))
_ROWS = {
    "pg_type": "oid < 16384 AND typtype NOT IN ('c') AND typelem NOT IN (SELECT oid FROM pg_type WHERE typtype = 'c')",
    "pg_proc": f"oid IN (SELECT unnest(ARRAY[{_IO}, typsubscript::oid]) FROM pg_type WHERE oid < 16384)"
    " OR oid IN (SELECT amhandler FROM pg_am)",
    "pg_am": "true",
    "pg_opclass": "true",
    "pg_collation": "oid IN (100, 950, 951)",
    "pg_language": "true",
    "pg_range": "true",
}


def main() -> None:
    """Write one file with all relations and their columns, and one file per relation with fixed rows."""
    folder = Path(flightllm.pg_catalog.__file__).parent / "data"
    with psycopg.connect(sys.argv[1]) as connection:
        _write(folder / "relations.tsv", connection.execute(_RELATIONS).fetchall())
        for name, where in _ROWS.items():
            columns = connection.execute(
                "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                " ORDER BY attnum",
                [f"pg_catalog.{name}"],
            ).fetchall()
            items = [f"{column}::oid::text" if kind == "regproc" else f"{column}::text" for column, kind in columns]
            rows = connection.execute(
                f"SELECT {', '.join(items)} FROM {name} WHERE {where} ORDER BY oid"
                if name != "pg_range"
                else f"SELECT {', '.join(items)} FROM {name} ORDER BY 1"
            ).fetchall()
            _write(folder / f"{name}.tsv", [tuple(column for column, _ in columns), *rows])


def _write(path: Path, rows: list[tuple[object, ...]]) -> None:
    lines = ["\t".join("" if one is None else str(one) for one in row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
