"""The tokens of a text as sqlglot alone reads them: the reference for the pattern of `flightllm.sql.tokens`."""

from sqlglot.tokenizer_core import TokenType

from flightllm.errors import SqlError
from flightllm.sql import tokens as fast
from flightllm.sql.generic_tokenizer import MARK, GenericTokenizer
from flightllm.sql.tokens import Token, TokenKind


def slow_tokens(sql: str) -> list[Token]:
    """Return the tokens of a text; sqlglot's own loop goes through the whole text.

    Raises:
        SqlError: sqlglot cannot read the text.
    """
    marked = sql if MARK in sql else fast._PARAMETER.sub(MARK, sql)
    try:
        raw = GenericTokenizer().tokenize(marked)
    except Exception as error:
        raise SqlError("malformed") from error
    found = []
    for token in raw:
        kind = fast._KINDS.get(token.token_type, TokenKind.SYMBOL)
        text, end = sql[token.start : token.end + 1], token.end + 1
        if kind in {TokenKind.STRING, TokenKind.QUOTED}:
            text = token.text if MARK in sql else token.text.replace(MARK, "$")
        found.append(Token(kind, text, token.start, end))
    assert all(token.token_type is not TokenType.HINT for token in raw)
    return list(fast._with_placeholders(found))
