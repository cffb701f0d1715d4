"""Read AT TIME ZONE as PostgreSQL does: DataFusion keeps the zone in the type, and compares and casts by it.

A timestamp becomes a timestamp with time zone, and the reverse. Offsets have the sign of POSIX: `'+05:30'` is west of
Greenwich.
"""

import re
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_OFFSET: Final = re.compile(r"([+-])(\d{1,2})(?::?(\d\d))?")
_FUNCTION: Final = "timezone"


def time_zones(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `seen AT TIME ZONE 'Asia/Tokyo'` as `to_local_time(CAST(seen AS …) AT TIME ZONE 'Asia/Tokyo')`.

    A timestamp without a zone becomes `__zoned_time(opened, 'Asia/Tokyo')`; see `functions.zoned_time`.

    Raises:
        SqlError: there is no such time zone.
        UnsupportedError: the zone is not a literal, or the type of the value is unknown.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) == "AtTimeZone":
            value, zone = fields["timestamp"], fields["time_zone"]
        elif kind(node) == "Function" and function_name(fields) == _FUNCTION and len(arguments(fields)) == 2:
            zone, value = arguments(fields)
        else:
            return node
        return _shifted(tree, value, types.of(value), unnested(zone))

    return tree.rebuilt(change)


def _shifted(tree: Tree, value: Json, given: Type, zone: Json) -> Json:
    literal = body(body(zone)["value"]) if kind(zone) == "Value" and kind(body(zone)["value"]) else None
    if not isinstance(literal, str) or kind(body(zone)["value"]) == "Placeholder":
        raise UnsupportedError(
            f"the time zone at {tree.position(zone)} must be a literal: write AT TIME ZONE 'Europe/Paris'"
        )
    if given is None and kind(value) != "Value":
        raise UnsupportedError(
            f"the type of the value before AT TIME ZONE at {tree.position(value)} is unknown here: write"
            " CAST(… AS timestamp) or CAST(… AS timestamptz) around it"
        )
    offset = _OFFSET.fullmatch(literal)
    if offset is None:
        _check(tree, zone, literal)
    elif offset[1] == "+":
        literal = f"-{offset[2]:0>2}:{offset[3] or '00'}"
    else:
        literal = f"+{offset[2]:0>2}:{offset[3] or '00'}"
    quoted = literal.replace("'", "''")
    if given is not None and pa.types.is_timestamp(given) and given.tz is None:
        if offset is None:
            return written(f"__zoned_time(v, '{quoted}')", v=value)
        back, (hours, minutes) = "+" if literal[0] == "-" else "-", literal[1:].split(":")
        shift = f"INTERVAL '{hours} hours {minutes} minutes'"
        return written(f"CAST(v {back} {shift} AS TIMESTAMP WITH TIME ZONE)", v=value)
    return written(f"to_local_time(CAST(v AS TIMESTAMP WITH TIME ZONE) AT TIME ZONE '{quoted}')", v=value)


def _check(tree: Tree, zone: Json, name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SqlError(
            f"there is no time zone {name!r} ({tree.position(zone)}): write a name such as 'Europe/Paris', or an"
            " offset such as '-02:00'"
        ) from error
