"""The texts of statements as the query log shows them: without the values of options that can hold secrets."""

import re
from collections.abc import Iterator

from flightllm.common.redaction import HIDDEN, longest_secret, redacted, redacted_start
from flightllm.config.secrets import REFERENCE
from flightllm.engines.secrets import holds_secret, looks_like_key, names_parameter, names_secret, shown_address

_OF_A_MODEL = re.compile(r"\bmodel\b", re.IGNORECASE)
_LEAST, _LONGEST = 6, 2_048
"""The characters of the shortest word to hide, and of the longest address at a cut."""
_WORDS = re.compile(r"[\s\"{},:;=]+")
_SPACE = r"(?:[\s(]++|--[^\n]*+\n|(?>/\*.*?\*/))*+(?:explain\s+(?:analyze\s+|verbose\s+)*)?"
"""The texts that a statement can begin with: space, comments, and EXPLAIN."""
_ROWS = "select|with|values|insert|update|delete|merge|comment|show|describe|grant|revoke|drop"
_CREATE = r"create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?"
_NO_MODEL = re.compile(
    rf"{_SPACE}(?:(?:{_ROWS}|copy)\b|{_CREATE}(?:external\s+)?(?:table|view|schema|index|prompt)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""How statements begin that define no model."""
_NO_OPTIONS = re.compile(
    rf"{_SPACE}(?:(?:{_ROWS})\b|{_CREATE}(?:view|schema|index|prompt)\b"
    rf"|{_CREATE}table\b(?!.*\b(?:options|with|\w*properties|connection|engine)\s*[(=]))",
    re.IGNORECASE | re.DOTALL,
)
"""How statements begin that set no options of other systems."""
_DEFINES = re.compile(r";\s*(?:create|alter|replace)\b[^;']*\bmodel\b", re.IGNORECASE)
_SETS = re.compile(r";\s*(?:create|alter|replace|copy|set|attach|export|import)\b", re.IGNORECASE)
_OF_A_USER = re.compile(
    rf"{_SPACE}(?:set\s+password|(?:create|alter)\s+(?:or\s+replace\s+)?(?:user|role|login))\b",
    re.IGNORECASE | re.DOTALL,
)
"""How statements begin whose texts can be passwords wherever they stand."""
_ADDRESS = re.compile(r"(?<=://)[^\s'\"<>]++")
_IN_ADDRESS = re.compile(r"[/?&=@:#;]+")
_SHOWN = frozenset({"engine", "model", "provider", "api", "reasoning", "prompt_format", "tokenizer", "base_url"})
"""Options whose texts are shown; the text of any other option can be a secret at a wrong place."""
_PLAIN_VALUE = re.compile(
    r"[\s=:>]*(?:[-+]?[\d.]+|true|false|null)?\s*(?:[,()'$\u201c\u201d\u2018\u2019]|\Z)", re.IGNORECASE
)
"""The text after the name of an option, if no part outside of quotes can be a secret: a number, a flag, or a quote."""
_FREELY_NAMED = frozenset({"model", "tokenizer"})
"""Shown options whose values can look like keys."""
_BETWEEN = frozenset({"to", "is", "by", "with", "from", "default"})
"""Words between the name of an option and its value."""
_QUOTES = "'\"$\u201c\u201d\u201e\u2018\u2019\u201a"
_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|$))
    |(?P<text>'(?:[^']|'')*(?:'|$)|\$\$.*?(?:\$\$|$)|[“”„‘’‚].*?(?:[“”‘’]|$))
    |(?P<name>"(?:[^"]|"")*(?:"|$)|[^\W\d]\w*)
    |(?P<end>[,()])
    |(?P<space>\s+)
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)


def shown_statement(sql: str, most: int | None = None) -> str:
    """Return the text of a statement without secrets; it need not be valid SQL.

    `CREATE MODEL m OPTIONS (model 'x', api_key 'sk-1')` → `CREATE MODEL m OPTIONS (model 'x', api_key '***')`.

    With `most`, return the first `most` characters of a longer text, and `…`.
    """
    if most is None or len(sql) <= most:
        return redacted("".join(piece for piece, _ in _shown(sql, sql)))
    more = max(longest_secret(), _LONGEST)
    start = "".join(piece for piece, _ in _shown(sql[: most + more], sql))
    unsafe = more if len(sql) > most + more else 0  # the end can be the start of a secret that the cut divides
    return f"{redacted_start(start, max(0, len(start) - unsafe))[:most]}…"


def without_its_secrets(message: str, sql: str) -> str:
    """Return an error about a statement without the values that `shown_statement` hides."""
    values = {word for _, hidden in _shown(sql, sql) for word in _WORDS.split(hidden) if len(word) >= _LEAST}
    for value in sorted(values, key=len, reverse=True):
        message = message.replace(value, HIDDEN)
    return redacted(message)


def _shown(text: str, sql: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of the start of a statement: what to show, and what that hides."""
    if _can_hold(sql):
        pieces = _pieces(text)
    elif not _NO_OPTIONS.match(text) or _SETS.search(text):
        pieces = _pieces_with_options(text, of_a_user=_OF_A_USER.match(text) is not None)
    else:
        pieces = iter([(text, "")])
    for piece, hidden in pieces:
        yield from _without_logins(piece, hidden) if "://" in piece else [(piece, hidden)]


def _can_hold(sql: str) -> bool:
    """Return whether a text is a statement about a model, or tries to be one."""
    if _NO_MODEL.match(sql):
        return ";" in sql and _DEFINES.search(sql) is not None
    return _OF_A_MODEL.search(sql) is not None


def _without_logins(piece: str, hidden: str) -> Iterator[tuple[str, str]]:
    """Yield a piece with its addresses without logins and keys: `s3://me:secret@lake/` becomes `s3://lake/`."""
    end = 0
    for found in _ADDRESS.finditer(piece):
        address = f"x://{found[0]}"
        if holds_secret("", address):
            shown = shown_address(address)[4:]
            kept = set(_IN_ADDRESS.split(shown))
            yield piece[end : found.start()], hidden
            yield shown, " ".join(word for word in _IN_ADDRESS.split(found[0]) if word not in kept)
            end, hidden = found.end(), ""
    yield piece[end:], hidden


def _pieces(sql: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text about a model."""
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


def _pieces_with_options(sql: str, *, of_a_user: bool) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text that can set options: `'aws.secret_access_key' 'x'`, `PASSWORD = 'x'`."""
    name = ""
    for token in _TOKEN.finditer(sql):
        piece, hidden = token[0], ""
        word = piece.strip(_QUOTES)
        if token["end"]:
            name = ""
        elif token["text"] or (piece.startswith('"') and _is_named_secret(name)):
            if of_a_user or looks_like_key(word) or (_is_named_secret(name) and not REFERENCE.fullmatch(word)):
                piece, hidden = f"'{HIDDEN}'", word
            name = word.lower()
        elif token["name"] and word.lower() not in _BETWEEN:
            if looks_like_key(word):
                piece, hidden = HIDDEN, word
            name = word.lower()
        yield piece, hidden


def _is_named_secret(name: str) -> bool:
    return names_secret(name) or names_parameter(name.rpartition(".")[2]) or name == "identified"


def _is_plain(name: str, piece: str) -> bool:
    """Return whether a text of an option can be shown: it is a reference, or an option without secrets."""
    value = piece[1:-1].replace("''", "'")
    if not piece.startswith("'") or not piece.endswith("'"):
        return False
    if name not in _FREELY_NAMED and any(map(looks_like_key, _WORDS.split(value))):
        return False
    return REFERENCE.fullmatch(value) is not None or (name in _SHOWN and not holds_secret(name, value))
