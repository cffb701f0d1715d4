"""Keywords that several readers of SQL text look for; each reader adds the words that only it needs."""

from typing import Final

SET_OPERATIONS: Final = ("union", "intersect", "except")
"""Words between two queries."""
ENDS_FROM: Final = (
    *("where", "group", "having", "order", "limit", "offset", "fetch", "window", "qualify"),
    *SET_OPERATIONS,
)
"""Words that end the FROM clause of a SELECT."""
JOIN_KINDS: Final = ("inner", "left", "right", "full", "outer", "semi", "anti", "cross", "natural", "asof")
"""Words between two tables that give the kind of join."""
ENDS_EXPRESSION: Final = ("end", "null", "true", "false")
"""Words that end an expression, and so cannot be an alias after it."""
ENDS_TYPE: Final = ("precision", "varying", "zone")
"""Words that end the name of a type, as in DOUBLE PRECISION, and so cannot be an alias after it."""
