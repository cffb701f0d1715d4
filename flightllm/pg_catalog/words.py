"""The words that each text about the catalog has, so that other texts need not be parsed."""

import re
from typing import Final

LONGEST: Final = 65_536
"""The longest text that can ask the catalog, in characters: the parser holds all other threads."""
QUERY: Final = re.compile(r"(?:\s|\(|--[^\n]*+(?:\n|\Z)|/\*(?s:.*?)\*/)*+(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE)
"""The first word of a query, after comments and parentheses."""
WORDS: Final = re.compile(
    r"pg_|information_schema|\b(?:to_)?reg(?:class|type|namespace|role|proc|procedure|oper|operator|collation)\b|"
    r"current_setting|set_config|_privilege|format_type|_description|_schemas|inet_|txid_|quote_|generate_subscripts|"
    r"parse_ident",
    re.IGNORECASE,
)
"""Each text about the catalog has one of these."""
CALLS: Final = re.compile(r"\bcurrent_(?:schema|database)\s*\(", re.IGNORECASE)
"""Calls that only a client of PostgreSQL's protocol sends to the catalog."""
