"""The tables that the texts read and change: small, with NULLs and duplicates."""

import re
from pathlib import Path
from typing import Final

VALUES: Final = {
    "smallint": ("smallint", "'2'", "'7'", "'-3'", "'30000'"),
    "int": ("int", "'2'", "'10'", "'-3'", "'2000000000'"),
    "bigint": ("bigint", "'2'", "'10'", "'-3'", "'9000000000000000000'"),
    "numeric": ("numeric(12, 3)", "'1.5'", "'10.25'", "'-0.125'", "'99999.999'"),
    "real": ("real", "'1.5'", "'10.25'", "'-0.125'", "'1e10'"),
    "double": ("double precision", "'1.5'", "'10.25'", "'-0.125'", "'1e100'"),
    "text": ("text", "'a'", "'ab'", "''", "'Zé'"),
    "varchar": ("varchar(10)", "'a'", "'ab'", "''", "'Zé'"),
    "bool": ("boolean", "'true'", "'false'", "'true'", "'false'"),
    "date": ("date", "'2024-01-31'", "'2024-02-29'", "'1969-12-31'", "'2100-01-01'"),
    "time": ("time", "'08:00'", "'23:59:59.5'", "'00:00'", "'12:30'"),
    "timestamp": (
        "timestamp", "'2024-01-31 08:00'", "'2024-02-29 23:59:59.5'", "'1969-12-31 00:00'", "'2100-01-01 12:00'",
    ),
    "timestamptz": (
        "timestamptz", "'2024-01-31 08:00+00'", "'2024-02-29 23:59:59.5+02'", "'1969-12-31 00:00+00'",
        "'2100-01-01 12:00-05'",
    ),
    "interval": ("interval", "'1 day'", "'1 month'", "'-2 hours'", "'40 days 6 hours'"),
    "bytea": ("bytea", r"'\x6162'", r"'\x61'", r"'\x'", r"'\xff00'"),
    "ints": ("int[]", "ARRAY[1, 2]", "ARRAY[1, 3]", "ARRAY[]", "ARRAY[1, 2, 3]"),
    "texts": ("text[]", "ARRAY['a', 'b']", "ARRAY['a']", "ARRAY[]", "ARRAY['b']"),
}  # fmt: skip
"""For each type a short name: its name in SQL, and literals of four values."""

_PAIRS: Final = ((0, 1), (1, 0), (2, 2), (None, 1), (0, None), (None, None), (3, 0), (0, 1), (2, 3), (3, 1))


def literal(kind: str, value: int | None) -> str:
    """Return a value of a type in SQL."""
    name, *texts = VALUES[kind]
    return f"CAST({'NULL' if value is None else texts[value]} AS {name})"


def _typed(kind: str) -> tuple[str, str]:
    """Return the statements that make `v_KIND (k, a, b)`: pairs that are less, equal, greater, and NULL."""
    rows = (f"({k}, {literal(kind, a)}, {literal(kind, b)})" for k, (a, b) in enumerate(_PAIRS, 1))
    return f"CREATE TABLE v_{kind} (k int, a {VALUES[kind][0]}, b {VALUES[kind][0]})", (
        f"INSERT INTO v_{kind} VALUES {', '.join(rows)}"
    )


def _written() -> dict[str, tuple[str, ...]]:
    """Return the statements of `tables.sql` by the table that they make."""
    found = dict[str, tuple[str, ...]]()
    text = re.sub(r"^--.*", "", Path(__file__).with_name("tables.sql").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for statement in (one.strip() for one in text.split(";\n")):
        if statement:
            table = statement.split(" ", 3)[2]
            found[table] = (*found.get(table, ()), statement)
    return found


TABLES: Final = {**{f"v_{kind}": _typed(kind) for kind in VALUES}, **_written()}
"""The statements that make each table."""
