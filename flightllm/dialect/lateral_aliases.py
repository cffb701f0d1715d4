"""Read an alias of SELECT in the items after it, and in WHERE, where no table has a column of this name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flightllm.dialect.output_names import SelectItem, read_item
from flightllm.dialect.relations import Relations
from flightllm.dialect.source import Source
from flightllm.dialect.spellings import name_at, spelling
from flightllm.dialect.text import Edit
from flightllm.errors import UnsupportedError
from flightllm.sql.changing import RANDOM
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText, Select
from flightllm.sql.tokens import TokenKind, position

DIALECTS = ("snowflake", "databricks", "spark", "duckdb")
"""The dialects whose items can read aliases."""
_CLAUSES = ("where", "qualify")
"""The clauses that can read an alias here; DataFusion reads it in GROUP BY, HAVING and ORDER BY itself."""
_LITERALS = (TokenKind.STRING, TokenKind.LITERAL)
_LONGEST = 20_000
"""The most characters that an alias can stand for."""


def has_aliases(source: ParsedText) -> bool:
    """Return whether an alias of SELECT is a name further on too, in an item or in a clause that reads aliases."""
    if "|>" in source.marks:  # each operator of a pipe has the columns of the one before
        return False
    clauses = any(source.is_word(index, *_CLAUSES) for index in range(len(source.tokens)))
    for select in source.selects:
        until = len(source.tokens) if clauses else select.end
        named = dict[str, int]()
        for first, last in select.items:
            name = identifier(source.tokens[last - 1]) if last - first > 1 else None
            if name is not None:
                named.setdefault(name.casefold(), last)
        for index in range(select.end if not named else min(named.values()), until):
            name = identifier(source.tokens[index])
            after = named.get(name.casefold()) if name is not None else None
            other = source.is_symbol(index - 1, ".") or source.is_word(index - 1, "as")
            if after is not None and index > after and not other:
                return True
    return False


def lateral_aliases(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT 1 AS a, a + 1 AS b` as `SELECT 1 AS a, (1) + 1 AS b`.

    A column of a table comes before an alias, as in Snowflake, Databricks and DuckDB. Where a function in FROM has
    unknown columns, the text stays.

    Raises:
        UnsupportedError: the aliases repeat their expressions too often.
    """
    relations: Relations | None = None
    for select in source.selects:
        items = [read_item(source, first, last) for first, last in select.items]
        named = {name_at(source.tokens[one.alias]) for one in items if one.alias is not None}
        if not named:
            continue
        reader = _Aliases(source, select, frozenset(name for name in named if name is not None))
        if not any(reader.places(one.first, one.last) for one in items) and not any(reader.later()):
            continue
        relations = relations or Relations(source, source.columns_of)
        yield from reader.edits(items, relations)


@dataclass(slots=True)
class _Aliases:
    """The aliases of one SELECT, and what each of them stands for."""

    source: Source
    select: Select
    named: frozenset[str]
    texts: dict[str, str] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)
    """The aliases of expressions whose value can be another one for each use."""

    def places(self, first: int, last: int) -> list[int]:
        """Return the tokens of a range that can be one of the aliases: names in expressions of this SELECT."""
        source, found = self.source, list[int]()
        for index in range(first, last):
            token = source.tokens[index]
            if token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or not self._is_alias(index):
                continue
            if source.scopes.of[index] is not source.scopes.of[self.select.start]:
                continue
            other = source.is_symbol(index + 1, "(") or source.is_symbol(index + 1, "=>")
            other = other or source.tokens[min(index + 1, len(source.tokens) - 1)].kind in _LITERALS
            other = other or (source.is_word(index - 2, "extract") and source.is_word(index + 1, "from"))
            if not other and source.begins_expression(index) and not source.is_word(index - 1, "as"):
                found.append(index)
        return found

    def _is_alias(self, index: int) -> bool:
        return spelling(self.source, index, self.named) is not None

    def later(self) -> Iterator[int]:
        """Yield the tokens of the other clauses that can be one of the aliases."""
        source, scope = self.source, self.source.scopes.of[self.select.start]
        if source.words.isdisjoint(_CLAUSES):
            return
        for index in range(self.select.end, source.end_of_query(self.select.start)):
            clause = index  # of the clause around brackets, as in WHERE f(a)
            while not source.scopes.clauses[clause] and (opening := source.scopes.around[clause]) is not None:
                clause = opening
            if source.scopes.clauses[clause] in _CLAUSES and source.scopes.of[index] is scope:
                yield from self.places(index, index + 1)

    def edits(self, items: list[SelectItem], relations: Relations) -> Iterator[Edit]:
        """Yield the edits of all names that mean an alias."""
        for item in items:
            last = item.last
            if item.alias is not None:
                last = item.alias - self.source.is_word(item.alias - 1, "as")
            made = list(self._within(self.places(item.first, last), relations))
            yield from made
            name = name_at(self.source.tokens[item.alias]) if item.alias is not None else None
            if name is not None and not (item.last - item.first > 1 and self._is_itself(item, last, name)):
                self.texts[name] = self._text(item.first, last, made)
                if any(self.source.is_word(index, *RANDOM) for index in range(item.first, last)):
                    self.changing.add(name)
        yield from self._within(list(self.later()), relations)

    def _is_itself(self, item: SelectItem, last: int, name: str) -> bool:
        return last == item.first + 1 and name_at(self.source.tokens[item.first]) == name

    def _within(self, places: list[int], relations: Relations) -> Iterator[Edit]:
        for index in places:
            name = spelling(self.source, index, self.texts)
            if name is None or self._is_column(index, relations):
                continue
            token = self.source.tokens[index]
            if name in self.changing:
                place = position(self.source.sql, token.start)
                raise UnsupportedError(
                    f"{token.text} at {place} has another value for each use: compute it in a subquery"
                )
            yield Edit(token.start, token.end, f"({self.texts[name]})")

    def _is_column(self, index: int, relations: Relations) -> bool:
        """Return whether a name is a column of a table, or can be one."""
        for scope in relations.scopes(index):
            known: Mapping[str, object] = relations.of_scope(scope)
            if relations.is_open(scope) or spelling(self.source, index, known) is not None:
                return True
            if spelling(self.source, index, [one.alias for one in relations.tables(scope)]) is not None:
                return True
        return False

    def _text(self, first: int, last: int, made: list[Edit]) -> str:
        """Return the text of an expression in which the aliases are replaced."""
        start, end = self.source.tokens[first].start, self.source.tokens[last - 1].end
        text, at = "", start
        for edit in made:
            text += self.source.sql[at : edit.start] + edit.text
            at = edit.end
        text += self.source.sql[at:end]
        if len(text) > _LONGEST:
            place = position(self.source.sql, start)
            raise UnsupportedError(
                f"the aliases of SELECT at {place} repeat their expressions too often: compute them in a subquery"
            )
        return text
