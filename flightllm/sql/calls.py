"""Extraction of AI calls from SQL text: find them by tokens, check them, and replace them by stub functions.

DataFusion can plan the stub functions.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from flightllm.common.text import excerpt
from flightllm.errors import AICallError, InternalError
from flightllm.functions.approximate import values_of_group
from flightllm.functions.base import LABELS_OPTION, AIFunction, ScalarFunction
from flightllm.functions.bind import Argument, BoundCall, Constant, Expression, NameResolver, bind_call
from flightllm.functions.call import ELEMENT_END, AICall, name_stub
from flightllm.functions.learned import decision, kind_of, with_probabilities
from flightllm.functions.numbers import with_number
from flightllm.functions.registry import FunctionRegistry
from flightllm.functions.stored import LearnedUse, StoredFunction
from flightllm.learning.learned import opened
from flightllm.sql.aggregate_calls import REWRITTEN, as_written
from flightllm.sql.aggregates import Aggregates
from flightllm.sql.arguments import read_column, read_constant, read_star, split_arguments
from flightllm.sql.expressions import names_in
from flightllm.sql.literals import text_literal
from flightllm.sql.names import NO_NAMES, OutputNames, identifier
from flightllm.sql.null_order import ADDED, ends_of_answers
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.prompt_parts import JOINING, Part, read_prompt_parts
from flightllm.sql.scopes import Scopes, Table
from flightllm.sql.tokens import Token, TokenKind, position

NO_FIELDS = "''"
"""The argument of a stub whose call has no fields. DataFusion tells a function its number of rows by an argument."""
_MAX_NESTING = 32
EXPRESSION_FOLLOWS = (
    *("select", "distinct", "all", "any", "some", "where", "on", "having", "qualify", "by", "limit", "offset"),
    *("and", "or", "xor", "not", "is", "in", "between", "like", "ilike", "rlike", "regexp", "similar", "to", "escape"),
    *("case", "when", "then", "else", "from", "for", "interval", "div", "values", "set", "return", "returning"),
)
"""Words after which an expression can begin. After any other name, a call is an alias, as in `FROM t llm(a)`."""
_PIPE_FOLLOWS = ("extend", "aggregate")
"""Operators of a pipe after which an expression can begin: `FROM t |> EXTEND llm(a) AS b`."""


def follows_keyword(tokens: Sequence[Token], index: int) -> bool:
    """Return whether an expression can begin at a token because of the word before it."""
    piped = index > 1 and tokens[index - 2].is_symbol("|>") and tokens[index - 1].is_word(*_PIPE_FOLLOWS)
    return index > 0 and (piped or tokens[index - 1].is_word(*EXPRESSION_FOLLOWS))


@dataclass(frozen=True, slots=True)
class Extracted:
    """SQL or a client's Substrait plan, with stubs in place of its AI calls; also the calls by stub name."""

    sql: str
    calls: Mapping[str, AICall]
    tables: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The query's own tables by name: rows of searches in FROM, and the numbered table that a statement changes."""
    searched: frozenset[str] = frozenset()
    """The names of the indexes that the searches in FROM use."""
    opened: tuple[object, ...] = ()
    """The indexes that the calls search. The reference keeps the versions that the query was planned for."""
    decided: tuple[BoundCall, ...] = ()
    """The calls in place of which learned filters decide, as they would be without a filter."""
    plan: bytes | None = None
    names: OutputNames = NO_NAMES
    """The names of columns without an alias, as the client's statement spells them."""

    def display_name(self, column: str) -> str:
        """Return a column's name as the user wrote its expression.

        DataFusion names columns without an alias after the stubs.
        """
        for stub, call in self.calls.items():
            if column.startswith(f"{stub}(") and column.endswith(")"):
                return call.text
            column = column.replace(stub, call.function)
        return column


def extract_calls(
    text: ParsedText,
    registry: FunctionRegistry,
    columns_of: Callable[[str], Sequence[str]],
    columns_of_query: Callable[[Extracted], Sequence[str]] | None = None,
    indexes: Callable[[str], Any] | None = None,
    lists: Mapping[str, frozenset[int]] = MappingProxyType({}),
    *,
    names: NameResolver,
) -> Extracted:
    """Replace every AI call by `stub(argument, …)`, and keep all other text byte for byte.

    `columns_of` returns the columns of a table by its (dotted) name, for `t.*` and `*`. `columns_of_query` returns the
    columns of a query, for a star over a subquery or CTE; without this function, such a star is an error. `indexes`
    opens a vector index. `lists` maps each stub to its arguments that are lists of values. Such a list becomes text,
    element by element. `names` resolves the names of models and prompts.

    Raises:
        SqlError: the text ends inside a string, or brackets do not match.
        AICallError: a call is malformed. The error says where, and how to write the call.
    """
    catalog = _Catalog(registry, columns_of, columns_of_query, indexes, lists, names, {})
    return _extract(text, catalog, _MAX_NESTING)


@dataclass(frozen=True, slots=True)
class _Catalog:
    """The lookups that extraction needs; `known` caches the columns of queries."""

    registry: FunctionRegistry
    columns_of: Callable[[str], Sequence[str]]
    columns_of_query: Callable[[Extracted], Sequence[str]] | None
    indexes: Callable[[str], Any] | None
    lists: Mapping[str, frozenset[int]]
    names: NameResolver
    known: dict[str, Sequence[str]]


def _extract(text: ParsedText, catalog: _Catalog, depth: int) -> Extracted:
    sql = text.sql
    if not catalog.registry.may_be_in(sql):
        return Extracted(sql, {})
    tokens = text.tokens
    if not any(_is_named_call(tokens, index, catalog.registry) for index in range(len(tokens) - 1)):
        return Extracted(sql, {})
    extractor = _Extractor(text, catalog, depth)
    return Extracted(extractor.render(0, len(tokens), 0, len(sql), depth), extractor.calls)


def _is_named_call(tokens: Sequence[Token], index: int, registry: FunctionRegistry) -> bool:
    """Return whether a token is followed by a parenthesis, and names an AI function or looks like such a name."""
    token = tokens[index]
    return token.kind is TokenKind.WORD and tokens[index + 1].is_symbol("(") and _is_function(registry, token.text)


def _is_function(registry: FunctionRegistry, name: str) -> bool:
    """Return whether a name is that of an AI function, or looks like such a name."""
    known = registry.is_called_by(name) or registry.lifted(name) is not None
    return known or (name[:3].lower() == "ai_" and not registry.knows(name))


class _Extractor:
    """An extractor for the calls of one statement."""

    def __init__(
        self, text: ParsedText, catalog: _Catalog, depth: int, values: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Take a text; in the expression of a function that SQL created, `values` replace the names of parameters."""
        tokens = text.tokens
        self._text = text
        self._values = values
        self._parameters: Mapping[int, str] | None = None
        """The names of columns in an expression, by their offset; computed when they are needed."""
        self._sql = text.sql
        self._tokens = tokens
        self._joins = "||" in text.marks or not text.words.isdisjoint(JOINING)
        self._catalog = catalog
        self._depth = depth
        self._scopes: Scopes = text.scopes
        self._aggregates = Aggregates(tokens, self._scopes.closing)
        self.calls: dict[str, AICall] = {}
        is_function = partial(_is_function, catalog.registry)
        self._nulls_last = (
            ends_of_answers(text, is_function, catalog.columns_of) if "desc" in text.words else frozenset[int]()
        )

    def render(self, first: int, last: int, start: int, end: int, depth: int) -> str:
        """Return `sql[start:end]` with its calls replaced; `tokens[first:last]` are the tokens in this text."""
        parts: list[str] = []
        index = first
        while index < last:
            token = self._tokens[index]
            if self._is_call(index):
                type_, replaced = self._call(index, depth)
                last_of_call = self._last(index)
                around = self._around(index, last_of_call)
                index, fields = self._fields(last_of_call + around, type_)
                around = around if fields else 0
                index = index if fields else last_of_call
                parts += (self._sql[start : token.start], replaced, ")" * around, fields)
                start = self._tokens[index].end
            elif self._values and (value := self._value(index)) is not None:
                parts += (self._sql[start : token.start], value)
                start = token.end
            elif token.end in self._nulls_last:
                parts += (self._sql[start : token.end], ADDED)
                start = token.end
            index += 1
        return "".join([*parts, self._sql[start:end]])

    def _value(self, index: int) -> str | None:
        """Return the value of the parameter that a token names, or None."""
        if self._parameters is None:
            self._parameters = {name.start: name.parts[0] for name in names_in(self._sql) if len(name.parts) == 1}
        return self._values.get(self._parameters.get(self._tokens[index].start, ""))

    def _is_call(self, index: int) -> bool:
        if index + 1 >= len(self._tokens) or not _is_named_call(self._tokens, index, self._catalog.registry):
            return False
        before = self._tokens[index - 1] if index else None
        known = self._catalog.registry.is_called_by(self._tokens[index].text)
        if before is not None:
            if before.kind is TokenKind.SYMBOL:
                begins = before.text not in {".", ")", "]"} or self._text.ends_distinct_on(index - 1)
            else:
                begins = follows_keyword(self._tokens, index)
            if not begins:
                return False
        if self._scopes.names_table[index]:
            if known and before is not None and before.is_word("from", "join"):
                raise self._error(index, "is not a table function; call it in SELECT, WHERE or another expression")
            return False
        return True

    def _call(self, index: int, depth: int) -> tuple[pa.DataType, str]:
        """Return the type of a call and the text that replaces the call."""
        name = self._tokens[index].text.lower()
        stored = self._catalog.registry.stored_function(name)
        lifted = self._catalog.registry.lifted(name)
        function = lifted[1] if lifted else self._catalog.registry.get(name)
        known = function is not None or stored is not None
        closing = self._checked_end(index, depth, known=known, aggregate=function is not None and function.aggregate)
        text = self._sql[self._tokens[index].start : self._tokens[closing].end]
        text = as_written(text) if REWRITTEN in text else text
        try:
            arguments = self._arguments(index, closing, depth)
            if stored is not None:
                return self._stored(stored, arguments, text, depth)
            if function is None:
                raise InternalError(f"no function {name}")
            if lifted:
                return lifted[0].output, self._lifted(lifted[0], function, arguments, text)
            if (table := _labels_of(function, arguments)) is not None:
                return self._labelled(function, index, closing, arguments, table, depth)
            bound: BoundCall = bind_call(function, name, arguments, text, self._catalog.names, self._catalog.indexes)
        except AICallError as error:
            if error.placed:
                raise
            raise self._error(index, f": {error}") from error
        if function.aggregate:
            return bound.call.type, self._stub(self._over_rows(bound, closing + 1, self._last(index) + 1, depth))
        bound = self._with_number(bound, index, closing + 1)
        return bound.call.type, self._stub(self._with_lists(bound))

    def _last(self, index: int) -> int:
        """Return the last token of a call, or that of the FILTER of an aggregate."""
        closing = self._scopes.closing[index + 1]
        function = self._catalog.registry.get(self._tokens[index].text)
        if function is None or not function.aggregate or not self._has_filter(closing + 1):
            return closing
        return self._scopes.closing.get(closing + 2, closing)

    def _has_filter(self, after: int) -> bool:
        following = self._tokens[after : after + 2]
        return len(following) == 2 and following[0].is_word("filter") and following[1].is_symbol("(")

    def _over_rows(self, bound: BoundCall, first: int, last: int, depth: int) -> BoundCall:
        """Return a call of an aggregate whose arguments are texts of all rows; `first` to `last` is its FILTER.

        Raises:
            AICallError: the call has no field.
        """
        if not bound.arguments:
            raise AICallError(f"{bound.call.text} needs a field, because all rows would have the same answer")
        found = self._tokens[first:last]
        condition = self.render(first, last, found[0].start, found[-1].end, depth - 1) if found else ""
        return replace(bound, arguments=tuple(values_of_group(one, condition) for one in bound.arguments))

    def _checked_end(self, index: int, depth: int, *, known: bool, aggregate: bool) -> int:
        """Return the last token of a call, which is checked as far as its arguments do not matter."""
        if not known:
            close = " or ".join(self._catalog.registry.suggest(self._tokens[index].text))
            raise self._error(index, f"is not an AI function{f'; did you mean {close}?' if close else ''}")
        if depth == 0:
            raise self._error(index, f"is nested more than {_MAX_NESTING} calls deep")
        if (closing := self._scopes.closing.get(index + 1)) is None:
            raise self._error(index, "has no closing parenthesis")
        self._check_after(index, closing + 1, aggregate=aggregate)
        return closing

    def _arguments(self, index: int, closing: int, depth: int) -> list[Argument]:
        ranges = split_arguments(self._tokens, index + 2, closing, self._scopes.closing)
        return [self._argument(index, first, last, depth) for first, last in ranges]

    def _with_number(self, bound: BoundCall, first: int, last: int) -> BoundCall:
        """Return a call whose answers are numbers if an aggregate such as `avg` takes its texts.

        A text without a number is an unusable answer.
        """
        wanted = self._aggregates.wanted(first, last) if bound.call.type == pa.string() else None
        if wanted is None:
            return bound
        return replace(bound, call=with_number(bound.call, whole=wanted == "whole"))

    def _with_lists(self, bound: BoundCall) -> BoundCall:
        """Pass lists as texts.

        The elements of an ordered list are lines of one field. The elements of other lists are fields of one name.
        """
        lists = self._catalog.lists.get(bound.call.stub)
        if lists is None:
            return bound
        end = "\n" if bound.ordered else ELEMENT_END
        arguments = tuple(
            f"array_to_string({sql}, '{end}')" if place in lists else sql for place, sql in enumerate(bound.arguments)
        )
        call = bound.call if bound.ordered else name_stub(replace(bound.call, lists=lists))
        return BoundCall(_with_listed_examples(call, lists, end), arguments)

    def _stub(self, bound: BoundCall) -> str:
        self.calls.setdefault(bound.call.stub, bound.call)
        return f"{bound.call.stub}({', '.join(bound.arguments) or NO_FIELDS})"

    def _stored(
        self, function: StoredFunction, arguments: Sequence[Argument], text: str, depth: int
    ) -> tuple[pa.DataType, str]:
        """Return the type and the text of a function's expression with the values of a call.

        An expression that is one AI call gets the text of the call of the function, for names of columns and EXPLAIN.
        """
        self._catalog.names.function(function.name, function.owner)
        if any(argument.star or argument.values is not None for argument in arguments):
            raise AICallError(f"a star or PROMPT(…) has no single value. Usage: {function.signature}")
        given = [(argument.name, f"({argument.expressions[0].sql})") for argument in arguments]
        values = function.values(given)
        body = ParsedText(function.body)
        tokens = body.tokens
        inner = _Extractor(body, self._catalog, depth - 1, values)
        if function.learned is not None:
            return inner.learned(function.learned, text, self.calls, function.name)
        sql = inner.render(0, len(tokens), 0, len(function.body), depth - 1)
        alone = len(inner.calls) == 1 and inner.is_one_call()
        type_ = pa.null()
        for stub, call in inner.calls.items():
            type_ = call.type if alone else type_
            self.calls.setdefault(stub, replace(call, text=text, joined=True) if alone else call)
        return type_, sql if alone else f"({sql})"

    def learned(
        self, use: LearnedUse, text: str, calls: dict[str, AICall], name_of_filter: str = ""
    ) -> tuple[pa.DataType, str]:
        """Return the type and the text of a decision about the one AI call of this text; add its calls to `calls`.

        `ai_filter('Is {t} spam?', t)` → `__learned_filter('id', answer, probabilities, ai_embed(t))`.
        """
        name = self._tokens[0].text.lower()
        function = self._catalog.registry.get(name)
        if function is None or not self.is_one_call():
            cut = excerpt(self._sql, 60)
            error = AICallError(f"a learned filter is one call of ai_filter, ai_classify or ai_score, not {cut}")
            error.placed = True  # the call around it has a name of the server
            raise error
        arguments = self._arguments(0, len(self._tokens) - 1, self._depth)
        bound = bind_call(function, name, arguments, self._sql, self._catalog.names, self._catalog.indexes)
        kind_of(bound.call)
        answer, probabilities = "CAST(NULL AS VARCHAR)", "arrow_cast(NULL, 'List(Float64)')"
        if "model" in use.features:
            text = text if use.fit is not None else self._sql  # while a filter is fitted, no function has a name
            shown = replace(with_probabilities(bound.call), text=text, joined=True, learned_by=name_of_filter)
            asked = self._stub(replace(bound, call=replace(shown, uncalibrated=use.told) if use.told else shown))
            answer, probabilities = f"CAST({asked}['answer'] AS VARCHAR)", f"{asked}['probabilities']"
        vector = "arrow_cast(NULL, 'List(Float32)')"
        if "embedding" in use.features:
            vector = self._vector(bound)
        calls.update(self.calls)
        if use.fit is None:
            sql = f"named_struct('answer', {answer}, 'probabilities', {probabilities}, 'vector', {vector})"
            return pa.null(), sql
        self._catalog.names.hold(use.fit, bound)
        return pa.null(), f"{decision(use.fit.kind)}('{opened(use.fit)}', {answer}, {probabilities}, {vector})"

    def _labelled(
        self, function: AIFunction, index: int, closing: int, arguments: list[Argument], table: str, depth: int
    ) -> tuple[pa.DataType, str]:
        """Return the type and the text of a decision by the labels in a table."""
        name, text = self._tokens[index].text.lower(), self._sql[self._tokens[index].start : self._tokens[closing].end]
        kept = [one for one in arguments if one.name != LABELS_OPTION.name]
        bound = bind_call(function, name, kept, text, self._catalog.names, self._catalog.indexes)
        kind_of(bound.call)
        options, fields, parts = {one.name for one in function.all_options}, iter(bound.call.fields), list[str]()
        ranges = split_arguments(self._tokens, index + 2, closing, self._scopes.closing)
        for place, ((first, last), argument) in enumerate(zip(ranges, arguments, strict=True)):
            is_prompt = place == 0 if argument.name is None else argument.name == function.parameters[0].name
            stored = argument.name is not None and argument.word is not None
            if argument.star or (is_prompt and argument.text is None and not stored):
                raise AICallError("with labels =>, the prompt is a text, and a star cannot name the fields")
            if argument.name == LABELS_OPTION.name:
                continue
            plain = is_prompt or argument.name in options
            own = "" if plain else _quoted(next(fields))
            given = self._sql[self._tokens[first].start : self._tokens[last - 1].end]
            parts.append(given if plain else f"{own} => {own}")
        call = StoredFunction(text, bound.call.fields, f"{name}({', '.join(parts)})", "")
        use = self._catalog.names.learned(call, table, bound.call)
        values = {field: f"({sql})" for field, sql in zip(bound.call.fields, bound.arguments, strict=True)}
        return _Extractor(ParsedText(call.body), self._catalog, depth - 1, values).learned(use, text, self.calls)

    def _vector(self, bound: BoundCall) -> str:
        """Return the text of the vector of a call's fields: of the value of one field, or of lines `name: value`."""
        function = self._catalog.registry.get("ai_embed")
        if function is None:
            raise AICallError("the server has no function ai_embed")
        text = bound.arguments[0]
        if len(bound.arguments) > 1:
            pairs = zip(bound.call.fields, bound.arguments, strict=True)
            lines = [f"{text_literal(f'{name}: ')}, {value}" for name, value in pairs]
            text = f"concat({', chr(10), '.join(lines)})"
        given = [Argument((Expression(text),))]
        return self._stub(
            bind_call(function, "ai_embed", given, f"ai_embed({', '.join(bound.call.fields)})", self._catalog.names)
        )

    def is_one_call(self) -> bool:
        """Return whether the whole text is one AI call."""
        return self._is_call(0) and self._scopes.closing.get(1) == len(self._tokens) - 1

    def _lifted(self, scalar: ScalarFunction, function: AIFunction, arguments: Sequence[Argument], text: str) -> str:
        """Return the call of an ordinary function on an AI function's answers, with one answer for each argument."""
        if len(arguments) != len(scalar.arguments) or any(argument.name or argument.star for argument in arguments):
            raise AICallError(f"takes {len(scalar.arguments)} texts. Usage: {scalar.signature()}")
        names = self._catalog.names
        bound = (bind_call(function, function.name, [argument], text, names) for argument in arguments)
        return f"{scalar.name}({', '.join(map(self._stub, bound))})"

    def _around(self, first: int, last: int) -> int:
        """Return how many pairs of parentheses enclose only a call, as in `(llm(a)).b`."""
        pairs = 0
        while first > pairs and self._scopes.closing.get(first - pairs - 1) == last + pairs + 1:
            opening = first - pairs - 1
            named = opening > 0 and self._tokens[opening - 1].kind is not TokenKind.SYMBOL
            if named and not follows_keyword(self._tokens, opening):
                break  # a function's own parentheses
            pairs += 1
        return pairs

    def _fields(self, index: int, type_: pa.DataType) -> tuple[int, str]:
        """Turn `.a.b` after a call's last token into `['a']['b']`, DataFusion's syntax for fields of a result.

        Return the index of the last token read, and the new text. An unquoted name matches a field's exact spelling
        first, then its name in lower case, then the only field that is equal without case.
        """
        text = ""
        while index + 2 < len(self._tokens) and self._tokens[index + 1].is_symbol("."):
            token = self._tokens[index + 2]
            if (name := identifier(token)) is None:
                break
            names = [field.name for field in type_] if pa.types.is_struct(type_) else []
            name = token.text if token.text in names else name
            if name not in names and token.kind is TokenKind.WORD:
                alike = [one for one in names if one.casefold() == name.casefold()]
                name = alike[0] if len(alike) == 1 else name
            type_ = type_.field(name).type if name in names else pa.null()
            text += "['" + name.replace("'", "''") + "']"
            index += 2
        return index, text

    def _check_after(self, index: int, after: int, *, aggregate: bool) -> None:
        following = self._tokens[after : after + 2]
        if aggregate and following and following[0].is_word("over", "within"):
            raise self._error(index, f"works on groups of rows: {following[0].text} cannot follow it; use GROUP BY")
        if following and following[0].is_word("over", "within"):
            raise self._error(index, f"is not a window or aggregate function: {following[0].text} cannot follow it")
        if self._has_filter(after) and not aggregate:
            raise self._error(index, "is not an aggregate function: FILTER cannot follow it")

    def _argument(self, call: int, first: int, last: int, depth: int) -> Argument:
        tokens = self._tokens[first:last]
        name = None
        if len(tokens) >= 2 and tokens[1].is_symbol("=>"):
            name, first, tokens = identifier(tokens[0]), first + 2, tokens[2:]
            if name is None:
                raise AICallError("the name before => must be an identifier")
        if not tokens:
            raise AICallError("an argument is empty")
        if (
            (own := self._catalog.registry.get(self._tokens[call].text))
            and own.aggregate
            and tokens[0].is_word("distinct")
        ):
            raise AICallError("it takes all rows of a group: for distinct ones, write SELECT DISTINCT in a subquery")
        if tokens[0].is_word("distinct") or tokens[0].is_word("order"):
            raise AICallError(f"{tokens[0].text.upper()} works only in aggregate functions: leave it out")
        if (qualifier := read_star(tokens)) is not None:
            if name is not None:
                raise AICallError(f"a star stands for many fields and cannot be named {name}")
            return Argument(tuple(self._expand(call, qualifier)), star=True)
        if tokens[0].is_word("prompt") and first + 1 < last and self._scopes.closing.get(first + 1) == last - 1:
            return self._template(call, first, last, name, depth - 1)
        parts = read_prompt_parts(self._tokens, first, last, self._scopes.closing) if self._joins else None
        if parts is not None:
            return self._joined(parts, tokens[0].start, tokens[-1].end, name, depth - 1)
        sql = self.render(first, last, tokens[0].start, tokens[-1].end, depth - 1)
        return Argument((Expression(sql, read_column(tokens), len(tokens) == 1),), name, read_constant(tokens))

    def _joined(self, parts: Sequence[Part], start: int, end: int, name: str | None, depth: int) -> Argument:
        """Return the argument `sql[start:end]`, which joins texts and values; render each part once."""
        whole: list[str] = []
        told: list[str | Expression] = []
        for part in parts:
            if isinstance(part, str):
                told.append(part)
                continue
            tokens = self._tokens[part.first : part.last]
            sql = self.render(part.first, part.last, tokens[0].start, tokens[-1].end, depth)
            whole += (self._sql[start : tokens[0].start], sql)
            start = tokens[-1].end
            told.append(Expression(f"concat({sql})" if part.filled else sql, read_column(tokens)))
        expression = Expression("".join([*whole, self._sql[start:end]]))
        return Argument((expression,), name, parts=tuple(told))

    def _template(self, call: int, first: int, last: int, name: str | None, depth: int) -> Argument:
        """Return `PROMPT('… {0} …', a)` as its text and its other arguments, which become the call's first fields."""
        if depth <= 0:
            raise AICallError(f"PROMPT is nested more than {_MAX_NESTING} deep")
        closing = self._scopes.closing
        ranges = split_arguments(self._tokens, first + 2, last - 1, closing)
        template, *values = [self._argument(call, *one, depth) for one in ranges] or [Argument(())]
        text = template.text
        if text is None or template.name is not None:
            raise AICallError("PROMPT takes a text literal first, as in PROMPT('Is {0} kind?', review)")
        return Argument((), name, Constant(text), values=tuple(values))

    def _expand(self, call: int, qualifier: str) -> list[Expression]:
        """Return the columns of `qualifier.*`, or of all tables of the SELECT around the call."""
        scope = self._scopes.of[call]
        if not qualifier:
            if not scope.tables:
                raise AICallError("* needs a FROM clause")
            return [expression for table in scope.tables for expression in self._columns(table)]
        while True:
            for table in scope.tables:
                if table.alias == qualifier:
                    return self._columns(table)
            if scope.parent is None:
                raise AICallError(f"no table {qualifier} in FROM for {qualifier}.*")
            scope = scope.parent

    def _columns(self, table: Table) -> list[Expression]:
        query = self._query_of(table)
        if query is not None:
            columns = self._columns_of_query(query, table.alias)
        elif table.name is not None:
            columns = self._catalog.columns_of(table.name)
        else:
            raise AICallError(f"the columns of {table.alias} are not known: name them instead of {table.alias}.*")
        return [Expression(f"{_quoted(table.alias)}.{_quoted(column)}", column) for column in columns]

    def _query_of(self, table: Table) -> str | None:
        """Return SQL that has the columns of a subquery or CTE, or None for a table of the catalog."""
        if table.subquery is not None:
            opening, closing = table.subquery
            inner = self._sql[self._tokens[opening].start : self._tokens[closing].end]
            visible = [c for c in self._scopes.common_tables if c.end < table.first < c.until]
            prefix = self._with(visible[-1].start, visible[-1].end) if visible else ""
            return f"{prefix}SELECT * FROM {inner} AS {_quoted(table.alias)}{self._column_list(table)}"
        common = self._scopes.common_table(table.parts, table.first)
        if common is None or table.first < common.end:
            return None
        return f"{self._with(common.start, common.end)}SELECT * FROM {_quoted(common.name)}"

    def _column_list(self, table: Table) -> str:
        """Return the `(a, b)` after the alias of a subquery, if there is one."""
        if table.columns is None:
            return ""
        opening, closing = table.columns
        return self._sql[self._tokens[opening].start : self._tokens[closing].end]

    def _with(self, start: int, end: int) -> str:
        return f"{self._sql[self._tokens[start].start : self._tokens[end].end]} "

    def _columns_of_query(self, query: str, alias: str) -> Sequence[str]:
        catalog = self._catalog
        if catalog.columns_of_query is None or self._depth == 0:
            raise AICallError(f"{alias} is a subquery: name its columns instead of {alias}.*")
        if query not in catalog.known:
            catalog.known[query] = catalog.columns_of_query(_extract(ParsedText(query), catalog, self._depth - 1))
        return catalog.known[query]

    def _error(self, index: int, message: str) -> AICallError:
        token = self._tokens[index]
        joint = "" if message.startswith(":") else " "
        error = AICallError(f"{token.text} at {position(self._sql, token.start)}{joint}{message}")
        error.placed = True
        return error


def _labels_of(function: AIFunction, arguments: Sequence[Argument]) -> str | None:
    """Return the table that `labels =>` names, or None if the call has no such option."""
    given = [one.constant.value for one in arguments if one.name == LABELS_OPTION.name and one.constant is not None]
    table = given[0] if given and LABELS_OPTION in function.options else None
    return table if isinstance(table, str) else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _with_listed_examples(call: AICall, lists: Collection[int], end: str) -> AICall:
    """Return a call whose examples have their lists in the form in which the rows have theirs."""
    if call.labelled is None:
        return call
    examples = tuple(
        replace(one, values=tuple(_elements(text, end) if at in lists else text for at, text in enumerate(one.values)))
        for one in call.labelled.examples
    )
    return replace(call, labelled=replace(call.labelled, examples=examples))


def _elements(text: str | None, end: str) -> str | None:
    """Return the elements of a list in JSON, with `end` between them; other texts stay as they are."""
    try:
        found = None if text is None else json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, list):
        return text
    there = [one for one in found if one is not None]  # as `array_to_string` does
    return end.join(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in there)
