"""Write Snowflake's functions."""

from typing import Final

from flightllm.dialect.generator.calls import Table, form

SNOWFLAKE: Final[Table] = {
    **dict.fromkeys(("LENGTH", "LEN"), form("length({0})")),
    "CHARINDEX": form("strpos({1}, {0})"),
}
