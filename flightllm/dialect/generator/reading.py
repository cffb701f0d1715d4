"""Read a text of a dialect with sqlglot's parser; the dialect's table of functions takes its calls as written."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flightllm.dialect.generator.calls import vendor_call
from flightllm.dialect.generator.tables import table_of

if TYPE_CHECKING:
    from sqlglot import exp

    _Parser = Any
else:
    _Parser = object

_WITH_WORDS = ("POSITION", "SUBSTR", "SUBSTRING", "TRIM")
"""Functions whose arguments can have words between them, as in SUBSTRING(text FROM 2 FOR 3)."""
_OF_CLASS = " for <class 'sqlglot."
"""A part of sqlglot's errors about arguments that an expression lacks."""
_TOO_MANY = re.compile(r"The number of provided arguments \((\d+)\) is greater than .* \((\d+)\)")
_WITH_LAMBDAS = re.compile(r"(?:list|array)_(?:transform|filter|reduce|any_match)|(?:any|all|none)_match|exists|forall")
"""Functions in whose arguments `x -> 1` is a lambda; in those of others the arrow of postgres reads a field of JSON."""
_NUMBERS = ("NUMBER", "DASH", "PLUS")
"""The kinds of words that begin a number."""
_NAME = "written_name"
"""The key under which a function keeps its name in the text."""


def read(text: str, dialect: str, own_functions: frozenset[str] = frozenset()) -> "list[exp.Expr | None]":
    """Return the trees of the statements in a text; calls of `own_functions`, in lower case, stay as they are.

    Raises:
        sqlglot.errors.SqlglotError: the text is invalid in this dialect.
    """
    from sqlglot import ErrorLevel

    read_by, made = _parser(dialect, own_functions)
    parser = made(dialect=read_by, error_level=ErrorLevel.RAISE)
    parser.around = []
    return list(parser.parse(read_by.tokenize(text), text))


@lru_cache(maxsize=32)
def _parser(dialect: str, own_functions: frozenset[str]) -> tuple[Any, Any]:
    """Return a dialect that keeps the names of functions, and the class of its parser."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokenizer_core import TokenType

    read_by = Dialect.get_or_raise(dialect)
    names = {TokenType.TABLE_SAMPLE} if dialect == "snowflake" else set[Any]()
    read_by.ORIGINAL_NAME_META_KEY = _NAME
    usual: Any = read_by.parser_class
    table = table_of(dialect)

    class Parser(_Reading, usual):  # type: ignore[misc] # a class that sqlglot chooses
        """The parser of the dialect, which knows the functions of its table."""

        dialect_name = dialect
        lambdas_by_place = (
            {kind: one for kind, one in usual.LAMBDAS.items() if kind.name != "ARROW"},
            usual.LAMBDAS,
        )
        ID_VAR_TOKENS = usual.ID_VAR_TOKENS | names
        """Kinds of words that can be names: a table of Snowflake can have the name `sample`."""
        FUNCTIONS = {  # noqa: RUF012 - as sqlglot declares it
            name: one
            for name, one in (usual.FUNCTIONS | {name: _builder(name) for name in table}).items()
            if name.lower() not in own_functions
        }
        FUNCTION_PARSERS = {  # noqa: RUF012 - as sqlglot declares it
            name: one
            for name, one in usual.FUNCTION_PARSERS.items()
            if (name not in table or name in _WITH_WORDS) and name.lower() not in own_functions
        }
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012 - as sqlglot declares it
            name: one for name, one in usual.NO_PAREN_FUNCTION_PARSERS.items() if name != "TRANSFORM"
        }

    return read_by, Parser


class _Reading(_Parser):  # type: ignore[misc] # a class that sqlglot chooses
    """Reads some parts otherwise than the parser of each dialect, and names functions in errors."""

    dialect_name: str = ""
    lambdas_by_place: Sequence[Any] = ()
    """The forms of a lambda in the arguments of postgres: those of most calls, and those of calls with lambdas."""
    around: list[str]
    """The names of the calls around the current token, from the outermost."""

    def raise_error(self, message: str, *args: Any, **options: Any) -> None:
        """Report an error with the name of the call: sqlglot names a class of its own, or no function."""
        if _OF_CLASS in message:
            message = _missing(self.around[-1]) if self.around else "a part is missing"
        elif (counts := _TOO_MANY.match(message)) and self.around:
            message = f"{self.around[-1].upper()} takes at most {counts[2]} of the {counts[1]} arguments"
        super().raise_error(message, *args, **options)

    def _parse_function_call(self, *args: Any, **options: Any) -> Any:
        """Parse a call; what it becomes keeps the name in the text."""
        from sqlglot import ParseError

        token = self._curr
        name = str(token.text) if token else ""
        self.around.append(name)
        try:
            found = super()._parse_function_call(*args, **options)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, ParseError) as error:
            if isinstance(error, ParseError) and error.errors:
                raise
            # sqlglot builds some calls without a look at the number of their arguments, or without a position
            said = f"{name.upper()}: {error}" if isinstance(error, ParseError) else _missing(name)
            raise ParseError.new(str(error), said, token.line, token.col, highlight=name) from error
        finally:
            self.around.pop()
        if found is not None:
            _keep_name(found, name)
        return found

    def _parse_lambda(self, *args: Any, **options: Any) -> Any:
        """Parse an argument; `j -> 'a'` of postgres reads a field of JSON."""
        if self.dialect_name == "postgres":
            has_lambdas = bool(self.around and _WITH_LAMBDAS.fullmatch(self.around[-1].lower()))
            self.LAMBDAS = self.lambdas_by_place[has_lambdas]
        return super()._parse_lambda(*args, **options)

    def _parse_parameter(self) -> Any:
        """Parse a parameter; `@ -5` of postgres is an operator, and sqlglot reads `@ 5` as `$5`."""
        from sqlglot import exp

        if self.dialect_name != "postgres" or self._prev.text != "@" or self._curr.token_type.name not in _NUMBERS:
            return super()._parse_parameter()
        return exp.Parameter(this=exp.paren(self._parse_unary()))

    def _parse_having_max(self, this: Any) -> Any:
        """Parse `ANY_VALUE(a HAVING MAX b + c)`; sqlglot reads only a column."""
        from sqlglot import exp
        from sqlglot.tokenizer_core import TokenType

        if not self._match(TokenType.HAVING):
            return this
        self._match_texts(("MAX", "MIN"))
        largest = self._prev.text.upper() != "MIN"
        return exp.HavingMax(this=this, expression=self._parse_disjunction(), max=largest)

    def _parse_type(self, *args: Any, **options: Any) -> Any:
        """Parse a value; sqlglot reads `DATE '2024-01-05'::text` as a date of a cast text."""
        from sqlglot import exp

        begin = self._index
        found = super()._parse_type(*args, **options)
        made = isinstance(found, exp.Cast) and not isinstance(found.this, exp.Literal)
        return _typed_first(found) if made and _begins_with_type(self._tokens[begin : begin + 8]) else found


def _missing(name: str) -> str:
    return f"an argument of {name.upper()} is missing or wrong"


def _keep_name(found: "exp.Expr", name: str) -> None:
    """Give the name of a call to each function without a name in it: sqlglot names some calls, and makes two of one.

    An operator in an argument does not belong to the call. The calls in its arguments already have their names.
    """
    from sqlglot import exp

    def is_named(one: Any) -> bool:
        return one is not found and _NAME in one.meta

    for one in found.walk(prune=is_named):
        if isinstance(one, exp.Func) and (one is found or not isinstance(one, exp.Binary | exp.Cast)):
            one.meta.setdefault(_NAME, name)


def written_name(found: Any) -> str:
    """Return the name in capitals that the text has for a function, or for the call around it."""
    named = found
    while named is not None and _NAME not in named.meta:
        named = named.parent
    return str(found.key if named is None else named.meta[_NAME]).upper()


def _begins_with_type(tokens: Sequence[Any]) -> bool:
    """Return whether tokens begin with a type and a text literal, as in TIMESTAMP(3) '2024-01-05'."""
    from sqlglot.tokenizer_core import TokenType

    kinds = [token.token_type for token in tokens]
    place = kinds.index(TokenType.STRING) if TokenType.STRING in kinds else 0
    opened = [kinds[at + 1] for at in range(place) if kinds[at] == TokenType.L_PAREN]
    return place > 0 and set(opened) <= {TokenType.NUMBER} and kinds[place - 1] != TokenType.COMMA


def _typed_first(found: "exp.Cast") -> "exp.Expr":
    """Return the operations on a literal of a type, in place of a type of the operations on its text."""
    from sqlglot import exp

    operations: exp.Expr = found.this
    literal = operations
    while isinstance(literal, exp.Cast | exp.Bracket | exp.Dot):
        literal = literal.this
    if not (isinstance(literal, exp.Literal) and literal.is_string):
        return found
    literal.replace(exp.Cast(this=literal.copy(), to=found.to))
    return operations


def _builder(name: str) -> "Callable[[list[Any]], exp.Expr]":
    made = vendor_call()
    return lambda args: made(this=name, expressions=args)


def typed_form(tree: "exp.Expr", dialect: str) -> "exp.Expr":
    """Return a copy of a tree in which calls are sqlglot's own expressions, whose types sqlglot knows."""
    from sqlglot.dialects.dialect import Dialect

    read_by = Dialect.get_or_raise(dialect)
    known: Any = read_by.parser_class.FUNCTIONS
    made: Any = vendor_call()

    def built(node: Any) -> Any:
        builder = known.get(str(node.this)) if isinstance(node, made) else None
        if builder is None:
            return node
        args = [one.transform(built) for one in node.expressions]
        try:
            return builder(args)
        except TypeError:
            return builder(args, dialect=read_by)

    typed: exp.Expr = tree.transform(built)
    return typed
