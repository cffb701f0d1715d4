"""Rewrite literals and comments of another dialect, so that this server's own lexer reads them too."""

import codecs
import re

from flightllm.dialect.text import Edit, Rewritten
from flightllm.errors import SqlError
from flightllm.sql.literals import text_literal

_BEFORE = re.compile(r"\s*(?:explain\s+(?:analyze\s+)?(?:verbose\s+)?)?(?:summarize\s+)?", re.IGNORECASE)
"""This server's own words before a query, which sqlglot does not read."""

_MISSING = re.compile(r"Missing (\S+) from")
"""Sqlglot's message about a quoted part without an end."""


def plain_texts(sql: str, dialect: str) -> Rewritten:
    r"""Rewrite `SELECT 'a\'b' # it's` as `SELECT 'a''b' `: literals with other quotes become standard literals.

    Comments become a space. A statement that sqlglot does not split into single tokens stays as it is.

    Raises:
        SqlError: the text cannot be split into tokens of this dialect.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    before = _BEFORE.match(sql)
    head = before.end() if before else 0
    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(sql[head:])
    except SqlglotError as error:
        missing = _MISSING.match(str(error.__cause__))
        what = f"a quoted part is unterminated, its closing {missing[1]} is missing" if missing else error
        raise SqlError(f"the text cannot be read as {dialect}: {what}") from error
    whole = Rewritten(sql, sql)
    begins = True
    for token in tokens:
        if begins and token.token_type == TokenType.COMMAND:
            return whole  # sqlglot keeps the rest of such a statement as one text; elsewhere the word is a name
        begins = token.token_type == TokenType.SEMICOLON
    edits, at = list[Edit](), head
    for token in tokens:
        start, end = head + token.start, head + token.end + 1
        if sql[at:start].strip():
            edits.append(Edit(at, start, " "))
        written = sql[start:end]
        is_ours = written[:1] == "'" and written[:3] != "'''" and "\\" not in written
        if token.token_type in {TokenType.STRING, TokenType.RAW_STRING} and not is_ours:
            edits.append(Edit(start, end, text_literal(token.text)))
        if token.token_type == TokenType.BYTE_STRING and dialect == "bigquery":
            edits.append(Edit(start, end, f"FROM_HEX('{_bytes(written).hex()}')"))
        at = max(at, end)
    if sql[at:].strip():
        edits.append(Edit(at, len(sql), " "))
    return whole.with_edits(edits)


def _bytes(written: str) -> bytes:
    r"""Return the bytes of a literal such as b'a\xff' or rb"a".

    Raises:
        SqlError: an escape is invalid.
    """
    prefix, quoted = re.split(r"(?=['\"])", written, maxsplit=1)
    width = 3 if quoted[:3] in {"'''", '"""'} else 1
    inner = quoted[width:-width].encode()
    if "r" in prefix.lower():
        return inner
    try:
        return bytes(codecs.escape_decode(inner)[0])
    except ValueError as error:
        raise SqlError(f"the bytes {written[:60]} have an escape that is invalid: write b'\\x00' for a zero") from error
