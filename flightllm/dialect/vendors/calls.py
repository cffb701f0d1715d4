"""Find calls of AI functions in a text, under the names that vendors give them."""

from collections.abc import Iterator
from dataclasses import dataclass

from flightllm.dialect.source import Source
from flightllm.errors import SqlError
from flightllm.sql.arguments import split_arguments
from flightllm.sql.tokens import TokenKind, position

_PREFIXES = (
    *(("snowflake", "cortex"), ("cortex",), ("ai",), ("ml",), ("google_ml",), ("azure_ai",), ("azure_openai",)),
    *(("azure_cognitive",), ()),
)
_STATEMENTS = (
    *("select", "with", "values", "explain", "insert", "update", "delete", "merge", "from", "describe", "summarize"),
)
_MADE = ("table", "view")
_BARE = ("to_file", "embedding", "open_prompt", "fl_get_relative_path")
"""Names of other vendors' functions without a prefix that tells them apart."""


@dataclass(frozen=True, slots=True)
class Given:
    """One argument: the tokens of its value, and its lower-case name before `=>`."""

    start: int
    first: int
    last: int
    name: str | None


@dataclass(frozen=True, slots=True)
class VendorCall:
    """One call: its lower-case name with the prefix `ai.` or `cortex.`, and its tokens from name to parenthesis."""

    source: Source
    name: str
    first: int
    opening: int
    closing: int
    arguments: tuple[Given, ...]

    @property
    def start(self) -> int:
        """Return the offset of the call's name."""
        return self.source.tokens[self.first].start

    @property
    def shown(self) -> str:
        """Return the name as the user wrote it."""
        return self.source.text(self.first, self.opening)

    def text(self, given: Given) -> str:
        """Return the text of an argument's value."""
        return self.source.text(given.first, given.last)

    def named(self, *names: str) -> Given | None:
        """Return the first argument that has one of some names, or None."""
        return next((given for given in self.arguments if given.name in names), None)

    def positional(self, place: int) -> Given | None:
        """Return the argument at a position among those without a name, or None."""
        unnamed = [given for given in self.arguments if given.name is None]
        return unnamed[place] if place < len(unnamed) else None

    def error(self, message: str) -> SqlError:
        """Return an error with the position of the call."""
        return SqlError(f"{self.shown} at {position(self.source.sql, self.start)}: {message}")


def find_calls(source: Source) -> Iterator[VendorCall]:
    """Yield the calls whose names begin with `ai_`, `AI.`, `CORTEX.` or `SNOWFLAKE.CORTEX.`, outer before inner."""
    if not _has_expressions(source):
        return
    for opening, closing in sorted(source.closing.items()):
        if not source.is_symbol(opening, "("):
            continue
        for prefix in _PREFIXES:
            first = opening - 1 - 2 * len(prefix)
            if first >= 0 and _is_named(source, first, opening, prefix):
                name = source.tokens[opening - 1].text.lower()
                if prefix or name.startswith(("ai_", "llm_", "fusion_")) or name in _BARE:
                    shown = f"{prefix[-1]}.{name}" if prefix else name
                    yield VendorCall(
                        source, shown, first, opening, closing, tuple(_arguments(source, opening, closing))
                    )
                break


def _has_expressions(source: Source) -> bool:
    """Return whether a statement has expressions; in other statements `ON ai.score (a)` is a table and a column."""
    if source.is_symbol(0, "(") or source.is_word(0, *_STATEMENTS):
        return True
    return source.is_word(0, "create") and any(source.is_word(index, *_MADE) for index in range(1, 5))


def _is_named(source: Source, first: int, opening: int, prefix: tuple[str, ...]) -> bool:
    """Return whether an expression's name with a prefix begins at a token, and ends before a parenthesis."""
    words = [source.tokens[index] for index in range(first, opening, 2)]
    if any(word.kind is not TokenKind.WORD for word in words) or source.is_symbol(first - 1, "."):
        return False
    if any(not source.is_symbol(index, ".") for index in range(first + 1, opening, 2)):
        return False
    if tuple(word.text.lower() for word in words[:-1]) != prefix:
        return False
    if not prefix and words[0].text.lower() in source.place.own_functions:
        return False
    return source.begins_expression(first) or is_table_function(source, first, opening)


def is_table_function(source: Source, first: int, opening: int) -> bool:
    """Return whether a name in FROM is a function; a CTE is not one, as AS and its query follow its columns."""
    after = source.closing[opening] + 1
    common = source.is_word(after, "as") and (
        source.is_symbol(after + 1, "(") or source.is_word(after + 1, "materialized", "not")
    )
    follows = source.is_word(first - 1, "from", "join") or source.is_symbol(first - 1, ",")
    return source.scopes.names_table[first] and follows and not common


def _arguments(source: Source, opening: int, closing: int) -> Iterator[Given]:
    for start, last in split_arguments(source.tokens, opening + 1, closing, source.closing):
        named = (
            last - start > 2 and source.is_symbol(start + 1, "=>") and source.tokens[start].kind is not TokenKind.SYMBOL
        )
        name = source.tokens[start].text.lower() if named else None
        if last > start:
            yield Given(start, start + 2 if named else start, last, name)
