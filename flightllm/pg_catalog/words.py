"""The words that each text about the catalog has, so that other texts need not be parsed."""

import re
from typing import Final

LONGEST: Final = 65_536
"""The longest text that can ask the catalog, in characters: the parser holds all other threads."""
_QUERY: Final = re.compile(
    r"(?:\s|\(|--[^\n]*+(?:\n|\Z)|/\*(?s:.*?)\*/)*+(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE
)
"""The first word of a query, after comments and parentheses."""
WORDS: Final = re.compile(
    r"pg_|information_schema|\b(?:to_)?reg(?:class|type|namespace|role|proc|procedure|oper|operator|collation)\b|"
    r"current_setting|set_config|_privilege|format_type|_description|_schemas|inet_|txid_|quote_|generate_subscripts|"
    r"parse_ident",
    re.IGNORECASE,
)
"""Each text about the catalog has one of these."""
_CALLS: Final = re.compile(r"\b(?:version|current_(?:schema|database))\s*\(", re.IGNORECASE)
"""Calls that only a client of PostgreSQL's protocol sends to the catalog."""


def may_ask(sql: str, *, as_postgres: bool) -> bool:
    """Return whether a text can ask the catalog: it begins as a query, and has one of these words."""
    if len(sql) > LONGEST or _QUERY.match(sql) is None:
        return False
    return WORDS.search(sql) is not None or (as_postgres and _CALLS.search(sql) is not None)
