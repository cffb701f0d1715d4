"""The texts of statements that can set options of other systems, read token by token: valid SQL or not."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from flightllm.common.redaction import HIDDEN
from flightllm.config.secrets import REFERENCE
from flightllm.engines.secrets import looks_like_key, names_parameter, names_secret

TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*+|/\*(?>.*?(?:\*/|\Z)))
    |(?P<text>'(?:[^']|'')*+(?:'|\Z)|[eE]'(?:\\.|[^'\\]|'')*+(?:'|\Z)
        |\$(?P<tag>(?:[^\W\d]\w*+)?+)\$(?>.*?(?:\$(?P=tag)\$|\Z))|[“”„‘’‚](?>.*?(?:[“”‘’]|\Z)))
    |(?P<address>[^\W\d][\w+.-]*+://[^\s'"<>(),;]++)
    |(?P<name>"(?:[^"]|"")*+(?:"|\Z)|[^\W\d]\w*+)
    |(?P<end>[,()])
    |(?P<space>\s++)
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
"""A token of a text; a comment or a text in quotes can lack its end."""

_Mode = Literal["rows", "heads", "options", "arguments"]
"""The content of a part of a statement: rows; words before rows, where an option has a `=`; options; arguments."""

_QUOTES = "'\"$\u201c\u201d\u201e\u2018\u2019\u201a"
_ROWS = frozenset(
    {
        "select",
        "with",
        "values",
        "insert",
        "update",
        "delete",
        "merge",
        "comment",
        "show",
        "describe",
        "drop",
        "execute",
    }
)
_HEADS = frozenset({"grant", "revoke"})
_OF_ROWS = frozenset({"select", "values"})
"""Words after which rows follow, wherever these words stand."""
_DEFINES = frozenset({"create", "alter"})
_BEFORE_KIND = frozenset(
    {
        "or", "replace", "temp", "temporary", "persistent", "external", "unlogged", "global", "local", "if",
        "not", "exists", "materialized", "unique",
    }
)  # fmt: skip
"""Words between CREATE and the kind of what it creates."""
_OF_TABLES = frozenset({"table", "view", "schema", "index", "prompt"})
_OF_EXPRESSIONS = frozenset({"row", "column", "function", "filter"})  # as in CREATE ROW FILTER and CREATE FUNCTION
_EXPLAINS = frozenset({"format", "analyze", "savings", "verbose", "costs", "buffers", "timing", "summary", "settings"})
"""Options of EXPLAIN in parentheses."""
_OF_USERS = frozenset({"user", "role", "login"})
_LISTS = re.compile(r"options|with|set|\w*properties|connection|credentials|secret|read_\w+|scan_\w+|\w+_scan")
"""Words before a list of options in parentheses."""
_WITH_KEYS = frozenset(
    {
        "set_config", "s3", "s3cluster", "gcs", "cosn", "oss", "azureblobstorage", "mysql", "postgresql", "mongodb",
        "redis", "remote", "remotesecure", "sqlserver",
    }
)  # fmt: skip
"""Functions of other systems whose arguments after the first can be a key or a password."""
_BEFORE_NAMES = frozenset(
    {
        "create", "or", "replace", "temp", "temporary", "persistent", "table", "view", "index", "schema",
        "from", "into", "on", "join", "update", "exists", "primary", "foreign", "unique", "drop", "add",
        "column", "describe",
    }
)  # fmt: skip
"""Words before names of tables and columns: such a name, as `api_keys`, names no option."""
_BETWEEN = frozenset({"to", "is", "by", "with", "from", "default"})
"""Words between the name of an option and its value."""
_SIGNS = "=:>"
_NAME = re.compile(r"[\w.-]+")
_INSIDE, _IN_OPTIONS = (
    re.compile(
        rf"""(?P<name>(?<![\w.-])[\w.-]++)(?P<sign>["']*+\s*+=>?\s*+|["']++\s*+:\s*+|:\s*+{more})"""
        r"""(?P<value>[\[\s]*+(?:"[^"]*+"?|''[^']*+(?:'')?)|(?:(?:bearer|basic)\s++)?+[^\s&;,'")}]++)""",
        re.IGNORECASE,
    )
    for more in (r"(?=(?:bearer|basic)\s)", "")
)
"""An option inside a text in quotes, in rows and in options: `password=x`, `"password": ["x"]`, or a header."""
_SHORT = frozenset({"pwd", "pw"})
"""Short names of secrets that no ordinary text has before a `=`."""
_LETTERS = re.compile(r"[\w.-]++")
_OPTION = re.compile(r"""([\w.-]++)['"\s]*[=:'"$“”‘’]""")
"""A word of a comment that can be the name of an option."""
_OPENS = re.compile(r"[eE]?'|\$\w*\$|[\"“”„‘’‚]")


def pieces_with_options(sql: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text: what to show, and what that hides.

    `SET k.secret = concat('a', 'b')` → `SET k.secret = ***`; rows of `SELECT token = 'a'` stay as they are.
    """
    return _Reader(list(TOKEN.finditer(sql))).pieces()


def inner(piece: str) -> str:
    """Return what a text or name in quotes holds, as it is written: `E'a'` and `$q$a$q$` hold `a`."""
    start = _OPENS.match(piece)
    if start is None:
        return piece
    end = start[0].lstrip("eE")
    return piece[start.end() :].removesuffix(end) if end in "'\"$" or "$" in end else piece.strip(_QUOTES)


def is_secret_option(name: str) -> bool:
    """Return whether an option of this name, such as `fs.s3a.secret`, holds a secret in another system."""
    return names_secret(name) or names_parameter(name.rpartition(".")[2])


class _Reader:
    """Reads the tokens of a text once, and keeps what the part that it reads can hold."""

    def __init__(self, tokens: Sequence[re.Match[str]]) -> None:
        self._tokens = [one for one in tokens if not one["comment"] and not one["space"]]
        self._all = tokens
        self._begin(0)

    def _begin(self, place: int) -> None:
        """Begin a statement at a token."""
        self._modes, self._of_users = [self._kind(place)], self._sets_password(place)
        self._hides: int | None = None  # the number of parentheses around the option whose value is hidden
        self._shown = False  # whether `***` stands already for that value
        self._commas = 0

    def pieces(self) -> Iterator[tuple[str, str]]:
        """Yield each piece, and what it hides."""
        place = 0
        for token in self._all:
            piece = token[0]
            if token["space"]:
                yield ("" if self._hides is not None and self._shown else piece), ""
            elif token["comment"]:
                yield _of_comment(piece, self._modes[-1])
            else:
                yield self._piece(place, token, piece)
                place += 1

    def _piece(self, place: int, token: re.Match[str], piece: str) -> tuple[str, str]:
        if piece == ";":
            self._begin(place + 1)
            return piece, ""
        if piece == "(" and self._hides is None:
            self._modes.append(self._mode_of(place))
        elif piece == ")" and len(self._modes) > 1 and self._hides is None:
            self._modes.pop()
        elif self._hides is not None:
            return self._hidden(token, piece)
        elif piece == ",":
            self._commas += 1
        else:
            return self._seen(place, token, piece)
        return piece, ""

    def _hidden(self, token: re.Match[str], piece: str) -> tuple[str, str]:
        """Return a piece of a secret's value, or the end of the value."""
        if piece in {",", ")"} and self._hides == 0:
            self._hides = None
            if piece == ")" and len(self._modes) > 1:
                self._modes.pop()
            return piece, ""
        word = inner(piece)
        before = not self._shown and (piece in _SIGNS or word.lower() in _BETWEEN)
        if before or (token["text"] and REFERENCE.fullmatch(word)):
            return piece, ""
        self._hides = (self._hides or 0) + (piece == "(") - (piece == ")")
        first, self._shown = not self._shown, True
        return ((f"'{HIDDEN}'" if token["text"] else HIDDEN) if first else ""), word

    def _seen(self, place: int, token: re.Match[str], piece: str) -> tuple[str, str]:
        """Return a piece that belongs to no secret option so far."""
        mode, word = self._modes[-1], inner(piece)
        named = token["name"] or (token["text"] and mode == "options" and _NAME.fullmatch(word))
        if token["name"] and word.lower() in _OF_ROWS and piece == word:
            self._modes[-1] = "rows"
        elif named and self._is_option(place, word.lower(), mode):
            self._hides, self._shown = 0, False
            return piece, ""
        if token["text"]:
            like_key = mode != "rows" and looks_like_key(word)
            if self._of_users or like_key or (mode == "arguments" and self._commas and "://" not in word):
                return (piece, "") if REFERENCE.fullmatch(word) else (f"'{HIDDEN}'", word)
            return _without_options(piece, mode)
        if token["name"] and mode == "options" and looks_like_key(word):
            return HIDDEN, word
        return piece, ""

    def _is_option(self, place: int, name: str, mode: _Mode) -> bool:
        """Return whether the name at a token is that of a secret option with a value."""
        after = self._word(place + 1)
        if name == "identified":
            return after in {"by", "with"}
        if not is_secret_option(name) or after in {"", ",", ")", ";"}:
            return False
        if self._is_text(place + 1) or (after in {"e", "n", "x"} and self._is_text(place + 2)):
            return True
        if mode == "options":
            return self._before(place) not in _BEFORE_NAMES
        if mode == "heads":
            return after in {"=", ":"} or (after == "to" and self._is_text(place + 2))
        return (after == "=" and self._word(place + 2) == ">") or (after == ":" and self._word(place + 2) == "=")

    def _mode_of(self, place: int) -> _Mode:
        """Return what parentheses hold that open at a token."""
        mode, before = self._modes[-1], self._word(place - 1)
        if self._word(place + 1) in _ROWS:
            return "rows"
        if self._word(place - 2) == "function" or (before in _WITH_KEYS and self._is_called(place - 1)):
            self._commas = 0
            return "arguments"
        if self._word(place - 3) == "engine":
            self._commas = 0
            return "arguments"
        if _LISTS.fullmatch(before):
            return "options"
        return "rows" if mode == "heads" else mode

    def _is_called(self, place: int) -> bool:
        """Return whether a name of other systems' functions reads a table or sets an option: no function of rows."""
        return self._word(place) == "set_config" or self._word(place - 1) != "select"

    def _kind(self, place: int) -> _Mode:
        """Return what a statement holds that begins at a token."""
        place = self._first(place)
        word = self._word(place)
        if word in _ROWS or (word in _DEFINES and self._defined(place) in _OF_EXPRESSIONS):
            return "rows"
        if word in _HEADS:
            return "heads"
        return "heads" if word in _DEFINES and self._defined(place) in _OF_TABLES else "options"

    def _first(self, place: int) -> int:
        """Return the first token of a statement, after EXPLAIN and its options."""
        explained = False
        while (word := self._word(place)) in {"(", "explain", "analyze", "verbose"} or (explained and word == "format"):
            if explained and (word == "format" or (word == "(" and self._word(place + 1) in _EXPLAINS)):
                place += 1
                while word == "(" and self._word(place) not in {")", ""}:
                    place += 1
            explained |= word == "explain"
            place += 1
        return place

    def _sets_password(self, place: int) -> bool:
        """Return whether any text of a statement can be a password."""
        place = self._first(place)
        word = self._word(place)
        if word == "set":
            return self._word(place + 1) == "password"
        return word in _DEFINES and self._defined(place) in _OF_USERS

    def _defined(self, place: int) -> str:
        """Return the kind of what a CREATE or ALTER at a token defines."""
        place += 1
        while self._word(place) in _BEFORE_KIND:
            place += 1
        return self._word(place)

    def _before(self, place: int) -> str:
        """Return the word before a name with dots whose last part is at a token."""
        for _ in range(8):  # no name has more parts
            place -= 2 * (self._word(place - 1) == ".")
        return self._word(place - 1)

    def _word(self, place: int) -> str:
        return self._tokens[place][0].strip('"').lower() if 0 <= place < len(self._tokens) else ""

    def _is_text(self, place: int) -> bool:
        return 0 <= place < len(self._tokens) and self._tokens[place]["text"] is not None


def _of_comment(piece: str, mode: _Mode) -> tuple[str, str]:
    """Return a space for a comment that could hold a secret option, or the comment."""
    words = _LETTERS.findall(piece)
    options = mode == "options" and any(map(names_secret, words))
    if options or any(names_secret(found[1]) for found in _OPTION.finditer(piece)):
        return " ", " ".join(words)
    keys = [one for one in words if looks_like_key(one)]
    return (" ", " ".join(keys)) if keys else (piece, "")


def _without_options(piece: str, mode: _Mode) -> tuple[str, str]:
    """Return a text in quotes without the values of secret options, and these values."""
    if "=" not in piece and ":" not in piece:
        return piece, ""
    hidden = list[str]()

    def shown(found: re.Match[str]) -> str:
        value, name = found["value"].strip(_QUOTES + "[{ "), found["name"].lower()
        secret = is_secret_option(name) if mode != "rows" else names_secret(name) or name in _SHORT
        if not secret or REFERENCE.fullmatch(value):
            return found[0]
        hidden.append(value)
        return f"{found['name']}{found['sign']}{HIDDEN}"

    return (_INSIDE if mode == "rows" else _IN_OPTIONS).sub(shown, piece), " ".join(hidden)
