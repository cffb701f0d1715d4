"""Find the table of a PIVOT or UNPIVOT in FROM, and read the lists of its clauses."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flightllm.common.names import TableName, quoted
from flightllm.dialect.from_first import follows_with
from flightllm.dialect.source import Source
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.arguments import split_arguments
from flightllm.sql.keywords import ENDS_EXPRESSION, ENDS_TYPE
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.tokens import TokenKind, position

if TYPE_CHECKING:
    from sqlglot import exp

_NO_ALIAS = (
    *(*ENDS_EXPRESSION, *ENDS_TYPE, "distinct", "all", "case", "when", "then", "else", "and", "or", "not"),
    *("is", "in", "like", "ilike", "between", "as", "cast", "try_cast", "from"),
)
"""Words of expressions and types, which are not an alias."""
_TAIL = ("order", "limit", "offset")


def factor_before(source: Source, index: int) -> int | None:
    """Return the first token of the table or query in FROM that ends before a token, or None."""
    at = index
    while at > 0:
        before = source.tokens[at - 1]
        if before.is_word("on", "using", "pivot", "unpivot"):
            return None
        if before.is_word("from", "join") or before.is_symbol(",") or before.is_symbol("("):
            return at if at < index else None
        at = source.scopes.opening.get(at - 1, at - 1)
    return None


def begins_query(source: Source, index: int) -> bool:
    """Return whether DuckDB's PIVOT or UNPIVOT can begin a query at its word, also in parentheses."""
    if source.is_symbol(index - 1, "("):
        return index == 1 or source.is_word(index - 2, "from", "join", "as", "explain", "summarize", "describe")
    before = ("explain", "analyze", "verbose", "summarize", "describe")
    made = source.is_word(index - 1, "as") and source.is_word(0, "create")
    return index == 0 or made or source.is_word(index - 1, *before) or follows_with(source, index)


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses of DuckDB's PIVOT or UNPIVOT: the token of each clause's word, and the end of the last clause."""

    places: Mapping[str, int]
    end: int

    @property
    def tail(self) -> int:
        """Return the first token of the clauses that can end any query: ORDER BY, LIMIT and OFFSET."""
        return min((self.places[word] for word in _TAIL if word in self.places), default=self.end)

    def part(self, word: str) -> tuple[int, int]:
        """Return the tokens between a clause's word and the next clause."""
        first = self.places[word] + 1
        return first, min((place for place in self.places.values() if place >= first), default=self.end)


def read_clauses(source: Source, index: int, *words: str) -> Clauses | None:
    """Read DuckDB's statement from its first word on, also in parentheses: the clauses of that word, ON and `words`.

    After INTO, the words NAME and VALUE begin clauses too; each precedes a name. The first occurrence of a word counts.

    Raises:
        UnsupportedError: it has parameters without numbers, or its table is another PIVOT or UNPIVOT.
    """
    if not begins_query(source, index):
        return None
    end, at, clause = source.end_of_query(index), index + 1, ""
    places = {source.tokens[index].text.lower(): index}
    while at < end:
        word = source.tokens[at].text.lower()
        if source.is_word(at, "on", *words, *_TAIL):
            places.setdefault(word, at)
            clause = word
        elif clause == "into" and source.is_word(at, "name", "value"):
            places.setdefault(word, at)
            at += 1
        at = source.closing.get(at, at) + 1
    if "on" not in places:
        return None
    found = Clauses(places, end)
    check_numbered(source, index, end)
    check_single(source, index, found.part(source.tokens[index].text.lower())[1])
    return found


def check_single(source: Source, index: int, last: int) -> None:
    """Raise `UnsupportedError` if the table of a PIVOT or UNPIVOT, which ends at `last`, is a PIVOT or UNPIVOT."""
    for at in range(index + 1, last):
        inner = source.is_symbol(at - 1, "(") or source.is_symbol(at + 1, "(")
        if inner and source.is_word(at, "pivot", "unpivot"):
            what, word = (source.tokens[one].text.upper() for one in (index, at))
            place = position(source.sql, source.tokens[index].start)
            raise UnsupportedError(
                f"{what} at {place} reads from another {word}, which is not supported: write"
                f" WITH p AS ({word} …) {what} p …"
            )


def split(source: Source, first: int, last: int) -> list[tuple[int, int]]:
    """Return the token ranges between the commas of a list."""
    return list(split_arguments(source.tokens, first, last, source.closing))


def without_alias(source: Source, first: int, last: int) -> tuple[int, str | None]:
    """Return the end of an item without its alias, and the alias."""
    token = source.tokens[last - 1]
    if last - first < 2 or (name := identifier(token)) is None:
        return last, None
    if source.is_word(last - 2, "as"):
        return last - 2, name
    before = source.tokens[last - 2]
    joined = before.kind is TokenKind.SYMBOL and not (before.is_symbol(")") or before.is_symbol("]"))
    return (last, None) if joined or token.is_word(*_NO_ALIAS) else (last - 1, name)


def columns_in(source: Source, table: tuple[int, int], ranges: Sequence[tuple[int, int]]) -> list[str]:
    """Return the columns of a table or query in FROM that expressions name.

    If the table's columns are known, other names are left out. For `t.a` and for a field `a.b`, the column is `a`.

    Raises:
        SqlError: an expression cannot be read.
    """
    known = _columns_of(source, *table)
    own = {identifier(token) for token in source.tokens[slice(*table)] if source.closing.get(table[0]) is None}
    own.add(identifier(source.tokens[table[1] - 1]))
    found = dict[str, None]()
    for parts in (parts for first, last in ranges for parts in _named_in(source, first, last)):
        while len(parts) > 1 and parts[0] in own and parts[0] not in known:
            parts = parts[1:]  # noqa: PLW2901 - the table's name or alias precedes its column
        if not known or parts[0] in known:
            found[parts[0]] = None
    return list(found)


def _columns_of(source: Source, first: int, last: int) -> Collection[str]:
    """Return the columns of a table in FROM; empty for a query, and for a table whose columns get other names."""
    parts, after = read_parts(source.tokens, first)
    if not parts or any(source.is_symbol(at, "(") for at in range(after, last)):
        return ()
    if len(parts) > 1:
        return source.place.columns_of(TableName(*parts[-2:]))
    common = source.scopes.common_table(parts, first)
    return () if common is not None else source.place.columns_of(source.place.found(parts[0]))


def _named_in(source: Source, first: int, last: int) -> list[tuple[str, ...]]:
    """Return the parts of each column that an expression names, sorted by name."""
    from sqlglot import ErrorLevel, exp, parse_one
    from sqlglot.errors import SqlglotError

    text = source.text(first, last)
    try:
        tree = parse_one(text, read="postgres", error_level=ErrorLevel.IGNORE)
    except (SqlglotError, RecursionError) as error:
        place = position(source.sql, source.tokens[first].start)
        raise SqlError(f"the expression at {place} cannot be read: {text}") from error
    found = {tuple(map(_name_of, column.parts)) for column in tree.find_all(exp.Column)}
    for arrow in tree.find_all(exp.Lambda):  # sqlglot reads a -> 'b' as a lambda; in PostgreSQL it reads JSON
        used = {_name_of(name) for name in arrow.this.find_all(exp.Identifier)}
        found.update((name,) for name in map(_name_of, arrow.expressions) if name not in used)
    return sorted(found)


def _name_of(part: "exp.Expr") -> str:
    return part.name if part.args.get("quoted") else part.name.lower()


def listed(names: Sequence[str]) -> str:
    """Return quoted names with commas, as SQL lists them."""
    return ", ".join(map(quoted, names))


def check_numbered(source: Source, first: int, last: int) -> None:
    """Raise `UnsupportedError` if a rewrite would change the order or number of parameters without numbers."""
    if any(token.kind is TokenKind.PLACEHOLDER and token.text == "?" for token in source.tokens[first:last]):
        what = source.tokens[first].text.upper()
        place = position(source.sql, source.tokens[first].start)
        raise UnsupportedError(f"{what} at {place} changes the order of parameters: write $1, $2 in place of ?")
