"""Write functions with a lambda, and comprehensions of lists, by DataFusion's functions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from flightllm.common.names import LAMBDA_PREFIX
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import UnsupportedError
from flightllm.sql.arguments import split_arguments
from flightllm.sql.literals import text_literal
from flightllm.sql.names import identifier
from flightllm.sql.tokens import TokenKind, position

_TRANSFORM: Final = "array_transform({list}, lambda {name} : {body})"
_FILTER: Final = "array_filter({list}, lambda {name} : {body})"
_FORMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("list_transform", "array_transform", "list_apply", "array_apply", "apply", "transform"), _TRANSFORM
    ),
    **dict.fromkeys(("list_filter", "array_filter", "filter"), _FILTER),
    **dict.fromkeys(
        ("list_any_match", "array_any_match", "any_match", "exists"), "array_any_match({list}, lambda {name} : {body})"
    ),
    **dict.fromkeys(
        ("list_all_match", "array_all_match", "all_match", "forall"),
        "(NOT array_any_match({list}, lambda {name} : NOT ({body})))",
    ),
    "none_match": "(NOT array_any_match({list}, lambda {name} : {body}))",
}
"""For each function, the text that DataFusion reads."""
_FOLDS: Final = frozenset({"list_reduce", "array_reduce", "reduce"})
NAMES: Final = frozenset({*_FORMS, *_FOLDS, "for"})
"""The words of which a text must have one for this rule."""


@dataclass(frozen=True, slots=True)
class _Lambda:
    """A lambda: the names of its parameters, and the tokens of its body."""

    parameters: tuple[str, ...]
    first: int
    last: int


def lambdas(source: Source) -> Iterator[Edit]:
    """Rewrite `list_transform(l, x -> x + 1)` as `array_transform(l, lambda __lambda_1_x : __lambda_1_x + 1)`.

    `lambda x: x + 1` is the same as `x -> x + 1`. `[x + 1 for x in l if x > 1]` transforms the filtered list. In such a
    text, `E'…'` becomes a plain literal and `* EXCEPT` becomes `* EXCLUDE`: see `planned_text`.

    Raises:
        UnsupportedError: a lambda folds a list, has several parameters, or has no body.
    """
    writer = _Writer(source)
    found = [Edit(*one) for one in writer.constructs()]
    if not found:
        return
    yield from found
    ends = [(one.start, one.end) for one in found]
    for index, token in enumerate(source.tokens):
        if any(start <= token.start < end for start, end in ends):
            continue
        if (text := _plain(source, index)) is not None:
            yield Edit(token.start, token.end, text)


def _plain(source: Source, index: int) -> str | None:
    """Return the text of a token that DataFusion reads only without lambdas; None for any other token."""
    token = source.tokens[index]
    if token.kind is TokenKind.STRING and source.sql[token.start] in "eE":
        return text_literal(token.text)
    if token.is_word("except") and source.is_symbol(index - 1, "*") and source.is_symbol(index + 1, "("):
        return "EXCLUDE"
    return None


class _Writer:
    """Writes the outermost calls and comprehensions of a text. A lambda's parameter gets a name of its depth.

    So equal calls have equal texts, and GROUP BY can name one.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def constructs(self) -> Iterator[tuple[int, int, str]]:
        """Yield the start, the end and the new text of each construct that is inside no other one."""
        index, tokens = 0, self._source.tokens
        while index < len(tokens):
            made = self._construct(index, {})
            if made is None:
                index += 1
                continue
            text, after = made
            yield tokens[index].start, tokens[after - 1].end, text
            index = after

    def _construct(self, index: int, names: Mapping[str, str]) -> tuple[str, int] | None:
        """Return the text of the construct that begins at a token, and the token after it."""
        if self._source.is_symbol(index, "["):
            return self._comprehension(index, names)
        return self._call(index, names)

    def _call(self, index: int, names: Mapping[str, str]) -> tuple[str, int] | None:
        source, word = self._source, self._source.tokens[index].text.lower()
        if (word not in _FORMS and word not in _FOLDS) or not source.is_symbol(index + 1, "("):
            return None
        if source.is_word(index + 2, "select", "with", "values", "from"):  # EXISTS (SELECT a, j -> 'b' …)
            return None
        if word in source.place.own_functions or source.is_symbol(index - 1, ".") or index + 1 not in source.closing:
            return None
        closing = source.closing[index + 1]
        ranges = list(split_arguments(source.tokens, index + 2, closing, source.closing))
        if len(ranges) < 2 or (read := self._lambda(ranges[1][0], closing)) is None:
            return None
        where = f"{word} at {position(source.sql, source.tokens[index].start)}"
        if word in _FOLDS:
            raise UnsupportedError(
                f"{where} is not supported: write list_sum(list), list_product(list) or array_to_string(list, ', '), or"
                " an aggregate over FROM unnest(list) AS u(x)"
            )
        if len(read.parameters) > 1:
            raise UnsupportedError(
                f"{where}: a lambda has one parameter here: for the position of an element, write FROM unnest(list)"
                " WITH ORDINALITY AS u(x, i)"
            )
        if read.first >= read.last or any(self._lambda(first, closing) for first, _ in ranges[2:]):
            raise UnsupportedError(f"{where} takes a list and one lambda: write {word}(list, x -> x + 1)")
        given = self._written(*ranges[0], names)
        return self._filled(_FORMS[word], given, read, names), closing + 1

    def _comprehension(self, index: int, names: Mapping[str, str]) -> tuple[str, int] | None:
        """Return the text of `[f(x) for x in list if condition]`."""
        source, closing = self._source, self._source.closing.get(index)
        if closing is None or (begin := self._at_level(index + 1, closing, "for")) is None:
            return None
        parameter = identifier(source.tokens[begin + 1])
        if parameter is None or not source.is_word(begin + 2, "in"):
            return None
        condition = self._at_level(begin + 3, closing, "if")
        text = self._written(begin + 3, closing if condition is None else condition, names)
        if condition is not None:
            text = self._filled(_FILTER, text, _Lambda((parameter,), condition + 1, closing), names)
        return self._filled(_TRANSFORM, text, _Lambda((parameter,), index + 1, begin), names), closing + 1

    def _at_level(self, first: int, last: int, word: str) -> int | None:
        """Return the token of a word between two tokens and outside of further brackets, or None."""
        at = first
        while at < last:
            if self._source.is_word(at, word) and not self._source.is_symbol(at + 1, "("):
                return at
            at = self._source.closing.get(at, at) + 1
        return None

    def _lambda(self, first: int, last: int) -> _Lambda | None:
        """Return the lambda that begins at a token, or None."""
        source = self._source
        if source.is_word(first, "lambda"):
            at, symbol = first + 1, ":"
        elif source.is_symbol(first, "("):
            at, symbol = first + 1, ")"
        else:
            name = identifier(source.tokens[first])
            arrow = name is not None and source.is_symbol(first + 1, "->")
            return _Lambda((name,), first + 2, self._end(first + 2, last)) if arrow and name is not None else None
        parameters: list[str] = []
        while (name := identifier(source.tokens[at])) is not None:
            parameters.append(name)
            if not source.is_symbol(at + 1, ","):
                break
            at += 2
        if parameters and symbol == ":" and self._joined(at + 1) is not None:
            return _Lambda(tuple(parameters), at + 1, self._end(at + 1, last))
        if not parameters or not source.is_symbol(at + 1, symbol):
            return None
        if symbol == ")":
            at += 1
            if not source.is_symbol(at + 1, "->"):
                return None
        return _Lambda(tuple(parameters), at + 2, self._end(at + 2, last))

    def _joined(self, index: int) -> str | None:
        """Return the name after a colon without a space, which is one token: `:x` in `lambda x:x + 1`."""
        token = self._source.tokens[index]
        joined = token.kind is TokenKind.PLACEHOLDER and token.text.startswith(":")
        return token.text[1:] if joined else None

    def _end(self, first: int, last: int) -> int:
        """Return where a lambda's body ends: at a comma outside of brackets, or at the end of the call."""
        at = first
        while at < last and not self._source.is_symbol(at, ","):
            at = self._source.closing.get(at, at) + 1
        return min(at, last)

    def _filled(self, form: str, given: str, read: _Lambda, names: Mapping[str, str]) -> str:
        """Return the text of a form with a list and a lambda, whose parameter gets a new name."""
        (parameter,) = read.parameters
        plain = "".join(one for one in parameter.lower() if one.isascii() and one.isalnum())
        name = f"{LAMBDA_PREFIX}{len(names) + 1}_{plain}"
        body = self._written(read.first, read.last, {**names, parameter: name})
        return form.format(list=given, name=name, body=body)

    def _written(self, first: int, last: int, names: Mapping[str, str]) -> str:
        """Return the text of some tokens with new names for the parameters of the lambdas around them."""
        source, index = self._source, first
        end = source.tokens[first].start
        parts: list[str] = []
        while index < last:
            token = source.tokens[index]
            parts.append(source.sql[end : token.start])
            if (made := self._construct(index, names)) is not None:
                text, index = made
            elif self._is_name(index) and (name := names.get(identifier(token) or "")) is not None:
                text, index = name, index + 1
                while source.is_symbol(index, ".") and (field := identifier(source.tokens[index + 1])) is not None:
                    text, index = f"{text}[{text_literal(field)}]", index + 2
            elif index == first and names and (joined := self._joined(index)) is not None:
                text, index = names.get(joined.lower(), joined), index + 1
            else:
                text = _plain(source, index) or source.sql[token.start : token.end]
                index += 1
            parts.append(text)
            end = source.tokens[index - 1].end
        return "".join(parts)

    def _is_name(self, index: int) -> bool:
        """Return whether a token can name a parameter: not a field, a function, an alias, or the name of a field."""
        source = self._source
        if source.is_symbol(index - 1, ".") or source.is_symbol(index + 1, "(") or source.is_word(index - 1, "as"):
            return False
        key = source.is_symbol(index + 1, ":") and (
            source.is_symbol(index - 1, "{") or source.is_symbol(index - 1, ",")
        )
        return not key and not source.is_symbol(index + 1, "=>")
