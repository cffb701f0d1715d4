"""Parameters that stand for lists: those of `x = ANY($1)`."""

from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import TokenKind


def with_single_values(text: ParsedText) -> tuple[ParsedText, frozenset[int]]:
    """Return a text that compares with single values, and the indexes (from 0) of the parameters that are lists.

    The parameters of the text are numbered: `id = ANY($2)` becomes `id = ($2)`, with the index 1.
    """
    if not text.words & {"any", "some", "all"}:
        return text, frozenset()
    tokens, parts, end, found = text.tokens, list[str](), 0, set[int]()
    for index, token in enumerate(tokens[:-3]):
        first, value, last = tokens[index + 1 : index + 4]
        compared = index > 0 and tokens[index - 1].kind is TokenKind.SYMBOL
        if not compared or not token.is_word("any", "some", "all") or value.kind is not TokenKind.PLACEHOLDER:
            continue
        if first.is_symbol("(") and last.is_symbol(")"):
            parts.append(text.sql[end : token.start])
            end = token.end
            found.add(int(value.text[1:]) - 1)
    return text.replaced("".join([*parts, text.sql[end:]])), frozenset(found)
