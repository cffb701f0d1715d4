"""The texts of statements as the query log shows them: without the values of options that can hold secrets."""

import re
from collections.abc import Iterator

from flightllm.common.redaction import HIDDEN, redacted
from flightllm.config.secrets import REFERENCE
from flightllm.engines.secrets import holds_secret, looks_like_key, names_secret

_OF_A_MODEL = re.compile(r"\bmodel\b", re.IGNORECASE)
_LEAST = 6
_WORDS = re.compile(r"[\s\"{},:]+")
_NO_MODEL = re.compile(
    r"(?:[\s(]++|--[^\n]*+\n|(?>/\*.*?\*/))*+(?:explain\s+(?:analyze\s+|verbose\s+)*)?"
    r"(?:(?:select|with|values|insert|update|delete|merge|comment|show|describe|copy|grant|revoke|drop)\b"
    r"|create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:external\s+)?(?:table|view|schema|index|prompt)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""How statements begin that define no model."""
_DEFINES = re.compile(r";\s*(?:create|alter|replace)\b[^;']*\bmodel\b", re.IGNORECASE)
_SHOWN = frozenset({"engine", "model", "provider", "api", "reasoning", "prompt_format", "tokenizer", "base_url"})
"""Options whose texts are shown; the text of any other option can be a secret at a wrong place."""
_PLAIN_VALUE = re.compile(
    r"[\s=:>]*(?:[-+]?[\d.]+|true|false|null)?\s*(?:[,()'$\u201c\u201d\u2018\u2019]|\Z)", re.IGNORECASE
)
"""The text after the name of an option, if no part outside of quotes can be a secret: a number, a flag, or a quote."""
_FREELY_NAMED = frozenset({"model", "tokenizer"})
"""Shown options whose values can look like keys."""
_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|$))
    |(?P<text>'(?:[^']|'')*(?:'|$)|\$\$.*?(?:\$\$|$)|[“”„‘’‚].*?(?:[“”‘’]|$))
    |(?P<name>"(?:[^"]|"")*(?:"|$)|[^\W\d]\w*)
    |(?P<end>[,()])
    |(?P<space>\s+)
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)


def shown_statement(sql: str) -> str:
    """Return the text of a statement without secrets; it need not be valid SQL.

    `CREATE MODEL m OPTIONS (model 'x', api_key 'sk-1')` → `CREATE MODEL m OPTIONS (model 'x', api_key '***')`.
    """
    return redacted("".join(piece for piece, _ in _pieces(sql)) if _can_hold(sql) else sql)


def without_its_secrets(message: str, sql: str) -> str:
    """Return an error about a statement without the values that `shown_statement` hides."""
    if _can_hold(sql):
        values = {word for _, hidden in _pieces(sql) for word in _WORDS.split(hidden) if len(word) >= _LEAST}
        for value in sorted(values, key=len, reverse=True):
            message = message.replace(value, HIDDEN)
    return redacted(message)


def _can_hold(sql: str) -> bool:
    """Return whether a text is a statement about a model, or tries to be one."""
    return bool(_OF_A_MODEL.search(sql) and (_DEFINES.search(sql) or not _NO_MODEL.match(sql)))


def _pieces(sql: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text: what to show, and what that hides."""
    name, hides, listed = "", False, False
    for token in _TOKEN.finditer(sql):
        piece, hidden = token[0], ""
        if token["comment"]:
            piece, hidden = " ", piece
        elif token["end"]:
            name, hides, listed = "", False, listed or piece == "("
        elif token["text"]:
            if not _is_plain(name, piece):
                piece, hidden = f"'{HIDDEN}'", piece.strip("'$\u201c\u201d\u2018\u2019")
        elif hides and not token["space"] and piece not in "=:>":
            piece, hidden = HIDDEN, piece
        elif token["name"]:
            name = piece.strip('"').lower()
            hides = names_secret(name) or (listed and not _PLAIN_VALUE.match(sql, token.end()))
        yield piece, hidden


def _is_plain(name: str, piece: str) -> bool:
    """Return whether a text of an option can be shown: it is a reference, or an option without secrets."""
    value = piece[1:-1].replace("''", "'")
    if not piece.startswith("'") or not piece.endswith("'"):
        return False
    if name not in _FREELY_NAMED and any(map(looks_like_key, _WORDS.split(value))):
        return False
    return REFERENCE.fullmatch(value) is not None or (name in _SHOWN and not holds_secret(name, value))
