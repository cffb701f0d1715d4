"""Where texts stand that tests rewrite without a catalog."""

from flightllm.dialect import NameContext

EMPTY = NameContext(is_table=lambda _: False, columns_of=lambda _: {}, schemas=lambda: ["public"])
"""No tables."""
