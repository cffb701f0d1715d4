"""The texts of statements as the query log shows them: without the values of options that can hold secrets."""

import re
from collections.abc import Iterator
from contextlib import suppress

from flightllm.common.redaction import HIDDEN, longest_secret, redacted, redacted_start
from flightllm.config.secrets import REFERENCE
from flightllm.engines.secrets import holds_secret, looks_like_key, names_secret, shown_address
from flightllm.observe.option_texts import TOKEN, inner, pieces_with_options

_MODEL = "m(?:odd?ell?|odle|odl|oedl|doel|del)"
_OF_A_MODEL = re.compile(rf"\b{_MODEL}\b", re.IGNORECASE)
"""The word MODEL, also misspelt."""
_LEAST, _LONGEST = 6, 2_048
"""The characters of the shortest word to hide, and of the longest address at a cut."""
_WORDS = re.compile(r"[\s\"{},:;=]+")
_START = (
    r"[\s(]*+(?:explain\b(?:\s++|analyze\b|verbose\b|format\s++\w++"
    r"|\(\s*+(?:format|analyze|savings|verbose|costs|buffers|timing|summary|settings)\b[^)]*+\))*+[\s(]*+)?+"
)
"""The start of a statement up to its first word: parentheses, and EXPLAIN with its options."""
_NO_MODEL = re.compile(
    rf"{_START}(?:"
    r"(?:select|with|values|insert|update|delete|merge|comment|show|describe|grant|revoke|drop|copy|execute)\b"
    r"|create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:(?:external|materialized|unlogged)\s+)?"
    r"(?:table|view|schema|index|prompt|function|filter|row\s+filter|column\s+mask)\b)",
    re.IGNORECASE,
)
"""How statements begin that define no model."""
_DEFINES = re.compile(
    rf";\s*+(?:explain\b[^;']{{0,64}}?\s)?(?:create|alter|replace)\b[^;']*?\b{_MODEL}\b", re.IGNORECASE
)
_PLAIN = re.compile(
    rf"{_START}(?:select|with|values|insert|update|delete|show|describe)\b"
    r"(?!.*(?:;|:/|--|/\*|key|secret|pass|pw|credential|authoriz|bearer|token|auth|sig|code|sas|jwt|hmac|identified|set_config"
    r"|s3|gcs|cosn|oss|azure|sql|mongodb|redis|remote|function|_scan|scan_|read_))",
    re.IGNORECASE | re.DOTALL,
)
"""A statement about rows without any word that an option with a secret needs: most statements are so."""
_ADDRESS = re.compile(
    r"(?:(?<=://)|(?<=:/)(?!/))(?:[^\s'\"<>/?#@:]*+:(?!\d++(?:[\s/?#'\"]|\Z))[^@\n]{0,256}+@)?+[^\s'\"<>]*+"
)
"""An address after its `://`; its password can have spaces and quotes."""
_IN_ADDRESS = re.compile(r"[/?&=@:#;]+")
_SHOWN = frozenset({"engine", "model", "provider", "api", "reasoning", "prompt_format", "tokenizer", "base_url"})
"""Options whose texts are shown; the text of any other option can be a secret at a wrong place."""
_PLAIN_VALUE = re.compile(
    r"[\s=:>]*(?:[-+]?[\d.]+|true|false|null)?\s*(?:[,()'$\u201c\u201d\u2018\u2019]|\Z)", re.IGNORECASE
)
"""The text after the name of an option, if no part outside of quotes can be a secret: a number, a flag, or a quote."""
_SPACE = re.compile(r"\s")
_FREELY_NAMED = frozenset({"model", "tokenizer"})
"""Shown options whose values can look like keys."""
_WHOLE, _BLOCK = 16_384, 2_048
"""The characters of a text that is read whole for an error, and of a part of a longer text."""
_MOST_WORDS, _MOST_BLOCKS = 64, 12
"""The words of an error that are looked up in a long text, and the parts of the text that are read for them."""
_QUOTED = re.compile(r"[\s\"'`()\[\]{},:;=]+")


def shown_statement(sql: str, most: int | None = None) -> str:
    """Return the text of a statement without secrets; it need not be valid SQL.

    `CREATE MODEL m OPTIONS (model 'x', api_key 'sk-1')` → `CREATE MODEL m OPTIONS (model 'x', api_key '***')`.

    With `most`, return the first `most` characters of a longer text, and `…`.
    """
    if most is None or len(sql) <= most:
        return redacted("".join(piece for piece, _ in _shown(sql, sql)))
    more = max(longest_secret(), _LONGEST)
    start = "".join(piece for piece, _ in _shown(sql[: most + more], sql[: most + more + _WHOLE]))
    unsafe = more if len(sql) > most + more else 0  # the end can be the start of a secret that the cut divides
    return f"{redacted_start(start, max(0, len(start) - unsafe))[:most]}…"


def without_its_secrets(message: str, sql: str) -> str:
    """Return an error about a statement without the values that `shown_statement` hides.

    Of a long text, only the places are read whose words the error has.
    """
    hidden = {
        word
        for part, whole in _parts_with(message, sql)
        for _, one in _shown(part, whole)
        for word in (*_values(one), *_WORDS.split(one), *_QUOTED.split(one))
        if len(word) >= _LEAST and word in message
    }
    for value in sorted(hidden, key=len, reverse=True):
        message = message.replace(value, HIDDEN)
    return redacted(message)


def _values(text: str) -> Iterator[str]:
    """Yield a text as it is written, and as an error quotes it: without doubled quotes, escapes, or with its own."""
    for one in {text, text.replace("''", "'")}:
        yield from (one, repr(one)[1:-1])
        if "\\" in one:
            with suppress(ValueError):  # not valid escapes
                plain = one.encode("latin-1", "backslashreplace").decode("unicode_escape")
                yield from (plain, repr(plain)[1:-1])


def _parts_with(message: str, sql: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text that can hold a secret of a message, each with the text that tells its kind."""
    if len(sql) <= _WHOLE:
        yield sql, sql
        return
    words = sorted({word for word in _QUOTED.split(message[:_WHOLE]) if len(word) >= _LEAST}, key=len, reverse=True)
    blocks = dict[int, None]()
    for word in words[:_MOST_WORDS]:
        for place in (sql.find(word), sql.rfind(word)):
            if place >= 0:
                blocks[place // _BLOCK] = None
    start = sql[:_BLOCK]
    for block in list(blocks)[:_MOST_BLOCKS]:
        part = sql[max(0, block - 1) * _BLOCK : (block + 2) * _BLOCK]
        yield part, start + part
        if block > 1:  # the part can begin within a text in quotes
            yield f"'{part}", start + part


def _shown(text: str, sql: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of the start of a statement: what to show, and what that hides."""
    if _can_hold(_without_comments(sql)):
        pieces = _pieces(text)
    else:
        pieces = iter([(text, "")]) if _PLAIN.match(text) else pieces_with_options(text)
    for piece, hidden in pieces:
        yield from _without_logins(piece, hidden) if ":/" in piece else [(piece, hidden)]


def _without_comments(sql: str) -> str:
    """Return a text with a space in the place of comments."""
    if "--" not in sql and "/*" not in sql:
        return sql
    return TOKEN.sub(lambda token: " " if token["comment"] else token[0], sql)


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
    for token in TOKEN.finditer(sql):
        piece, hidden = token[0], ""
        if token["comment"]:
            piece, hidden = " ", piece
        elif token["end"]:
            name, hides, listed = "", False, listed or piece == "("
        elif token["text"]:
            if not _is_plain(name, piece):
                piece, hidden = f"'{HIDDEN}'", inner(piece)
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
    shown = name in _SHOWN and (name in _FREELY_NAMED or not _SPACE.search(value)) and not holds_secret(name, value)
    return shown or REFERENCE.fullmatch(value) is not None
