"""The functions whose value changes from call to call or from run to run, in the spellings of all dialects."""

from typing import Final

RANDOM: Final = frozenset(
    {
        *("random", "rand", "randn", "uniform", "shuffle", "uuid", "gen_random_uuid", "generate_uuid", "uuid_string"),
        *("newid", "uuidv4", "uuidv7", "nextval"),
    }
)
"""Functions whose value changes from call to call."""
CLOCK: Final = frozenset(
    {
        *("now", "today", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "getdate"),
        *("sysdate", "sysdatetime", "utc_timestamp", "unix_timestamp", "current_datetime", "curdate", "curtime"),
        "get_current_timestamp",
    }
)
"""Functions whose value changes from run to run."""
CLOCK_WORDS: Final = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""Functions of the time that need no brackets."""
