"""Rewrite whole texts of another dialect: sqlglot reads them, and writes them as DataFusion reads them."""

from functools import cache
from typing import TYPE_CHECKING, Any

from flightllm.dialect.counterparts import check_counterparts, counterparts
from flightllm.dialect.integer_casts import ROUNDING, round_integer_casts
from flightllm.dialect.plain_texts import plain_texts
from flightllm.dialect.source import NameContext, Source
from flightllm.dialect.text import Edit, Rewritten
from flightllm.dialect.vendor_calls import vendor_calls
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import TokenKind, position, tokenize

if TYPE_CHECKING:
    from sqlglot import exp

DIALECTS = ("snowflake", "bigquery", "databricks", "duckdb", "postgres", "spark")
_STATEMENTS = ("select", "with", "from", "values", "pivot", "insert", "update", "delete")
_MADE = ("table", "view")
_COPIED = ("div0", "div0null", "zeroifnull", "nullifzero", "sort_array")
"""Functions whose arguments sqlglot copies while it reads a text."""
_MOST_COPIED = 5
"""The most nested calls of these functions."""
_MOST_PARTS, _MOST_COPIES = 50_000, 20
"""The most parts that sqlglot can write for a short text, and the parts for each part of a long text."""
_FIRST_MATCHES = {"duckdb": 0, "spark": 1, "databricks": 1}
"""For each dialect, the group that `regexp_extract` returns by default."""
_JOINED_CLOSELY = ("snowflake", "databricks", "spark")
"""Dialects whose LISTAGG has an empty separator by default."""
_SIGN = "\ufdd2"
"""Encloses the number that replaces a text literal while sqlglot reads. It is repeated if the text contains it."""


def transpile(sql: str, dialect: str, place: NameContext) -> Rewritten:
    """Return a statement of a dialect as DataFusion reads it; a statement that only this server has stays as it is.

    Raises:
        SqlError: the text is invalid in this dialect; the message has the position.
        UnsupportedError: a part of the text has no counterpart.
    """
    plain = plain_texts(sql, dialect)
    source = Source(ParsedText(plain.text), place)
    start = _start(source)
    if start is None:
        return Rewritten(sql, sql)
    if sum(token.kind is TokenKind.PLACEHOLDER and token.text == "?" for token in source.tokens) > 1:
        raise UnsupportedError("parameters of a text in another dialect need numbers: write $1, $2 in place of ?")
    _check_nesting(plain, source, dialect)
    try:
        ours = plain.with_edits(vendor_calls(source))
    except (SqlError, UnsupportedError) as error:
        raise type(error)(plain.said(str(error))) from error
    begin = source.tokens[start].start
    written = _written(ours, begin, dialect)
    edit = Edit(begin, len(plain.text), written)
    return Rewritten(sql, plain.text[:begin] + written, (*plain.edits, (edit,)), read_from=dialect)


def _start(source: Source) -> int | None:
    """Return the first token of a query or a change of rows, after EXPLAIN or SUMMARIZE; a CREATE is included."""
    first = 0
    while source.is_word(first, "explain", "analyze", "verbose", "summarize"):
        first += 1
    if source.is_word(first, "create"):
        made = any(source.is_word(index, *_MADE) for index in range(first + 1, first + 5))
        external = source.is_word(first + 1, "external")
        return first if made and "as" in source.words and not external else None
    opened = first
    while source.is_symbol(opened, "("):
        opened += 1
    return first if source.is_word(opened, *_STATEMENTS) else None


def _check_nesting(plain: Rewritten, source: Source, dialect: str) -> None:
    """Raise `UnsupportedError` for too deep nesting of functions whose arguments sqlglot copies."""
    around: list[int] = []
    for index, token in enumerate(source.tokens):
        while around and around[-1] < index:
            around.pop()
        closing = source.closing.get(index + 1)
        if closing is None or not token.is_word(*_COPIED):
            continue
        around.append(closing)
        if len(around) > _MOST_COPIED:
            place = position(plain.sent, plain.sent_at(token.start))
            raise UnsupportedError(f"{token.text} at {place} {_too_deep(dialect)}")


def _too_deep(dialect: str) -> str:
    return (
        f"is nested too deep: its replacement for {dialect} repeats its arguments; compute the inner"
        " calls in a subquery"
    )


def _masked(ours: Rewritten, begin: int) -> tuple[Rewritten, dict[str, str]]:
    """Replace literals that a dialect can read differently by marks; return the texts by their marks."""
    sign = _SIGN
    while sign in ours.text:
        sign += _SIGN
    marks = dict[str, str]()
    edits = list[Edit]()
    for token in tokenize(ours.text):
        quoted = token.kind is TokenKind.STRING and token.start >= begin and ours.text[token.start] == "'"
        if quoted and ("'" in token.text or "\\" in token.text):
            mark = f"{sign}{len(marks)}{sign}"
            marks[mark] = token.text
            edits.append(Edit(token.start, token.end, f"'{mark}'"))
    return ours.with_edits(edits), marks


def _written(ours: Rewritten, begin: int, dialect: str) -> str:
    """Return a text of a dialect as DataFusion reads it; its literals are already in standard form."""
    from sqlglot import ErrorLevel, exp, parse
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.errors import UnsupportedError as NoCounterpart

    marked, marks = _masked(ours, begin)
    text = marked.text[begin:]
    try:
        parsed = parse(text, read=dialect, error_level=ErrorLevel.RAISE)
        statements = [one for one in parsed if one is not None and not isinstance(one, exp.Semicolon)]
        if len(statements) != 1:
            raise SqlError("one statement at a time: send the statements separated by ';' one after the other")
        tree = statements[0]
        if isinstance(tree, exp.Command):
            raise SqlError(f"the text cannot be read as {dialect}")
        for literal in tree.find_all(exp.Literal):
            if literal.is_string and (value := marks.get(str(literal.this))) is not None:
                literal.set("this", value)
        _make_exact(tree, dialect)
        generator = _ours().generator(unsupported_level=ErrorLevel.RAISE)
        generator.left = _MOST_PARTS + _MOST_COPIES * sum(1 for _ in tree.walk())
        return str(generator.generate(tree))
    except _TooLongError as error:
        raise UnsupportedError(f"a call in the text {_too_deep(dialect)}") from error
    except ParseError as error:
        said = error.errors[0] if error.errors else {}
        raise SqlError(
            f"the text cannot be read as {dialect}{_place(marked, begin, text, said)}: {_reason(said)}"
        ) from error
    except NoCounterpart as error:
        raise UnsupportedError(f"a part of the text in {dialect} has no counterpart here: {error}") from error
    except (SqlglotError, RecursionError) as error:
        raise SqlError(f"the text cannot be read as {dialect}: {error}") from error


def _make_exact(tree: "exp.Expr", dialect: str) -> None:
    """Write out defaults of a dialect that differ from the defaults here.

    Raises:
        UnsupportedError: a default cannot be written out.
    """
    from sqlglot import exp

    for found in list(tree.find_all(exp.RegexpExtract)):
        if dialect not in _FIRST_MATCHES or any(found.args.get(name) for name in ("position", "occurrence")):
            raise UnsupportedError(
                f"a pattern match of {dialect} is NULL where nothing matches: write regexp_match(text,"
                " pattern)[1] in the default dialect, after RESET flightllm.dialect"
            )
        if found.args.get("group") is None:
            found.set("group", exp.Literal.number(_FIRST_MATCHES[dialect]))
    check_counterparts(tree, dialect)
    if dialect == "bigquery":
        _make_weeks_exact(tree)
    _name_pivots(tree, dialect)
    if dialect in ROUNDING:
        round_integer_casts(tree, dialect)
    _make_joins_exact(tree, dialect)


def _make_weeks_exact(tree: "exp.Expr") -> None:
    """Rewrite `EXTRACT(ISOWEEK FROM day)` as `EXTRACT(WEEK FROM day)`, whose weeks begin on Mondays.

    Raises:
        UnsupportedError: the weeks begin on another day.
    """
    from sqlglot import exp

    for found in tree.find_all(exp.Extract):
        unit = found.this.name.upper()
        if isinstance(found.this, exp.WeekStart) or unit == "WEEK":
            raise UnsupportedError("weeks begin on Sundays in bigquery and on Mondays here: write ISOWEEK")
        if unit == "ISOWEEK":
            found.set("this", exp.Var(this="WEEK"))


def _name_pivots(tree: "exp.Expr", dialect: str) -> None:
    """Write out the names that a dialect gives to the columns of PIVOT.

    Raises:
        UnsupportedError: aliases cannot express the names.
    """
    from sqlglot import exp

    for found in tree.find_all(exp.Pivot):
        names, aggregates, fields = found.args.get("columns"), found.expressions, found.args.get("fields") or []
        if not names or found.args.get("unpivot") or len(fields) != 1:
            continue
        if len(aggregates) > 1:
            if dialect == "bigquery":
                raise UnsupportedError(
                    "PIVOT of bigquery with several aggregates names its columns differently: write one FILTER for each"
                    " column, as in sum(b) FILTER (WHERE a = 'x') AS x"
                )
            continue
        aggregates[0].replace(aggregates[0].unalias())
        values = fields[0].expressions
        for value, name in zip(list(values), names, strict=False):
            value.replace(exp.PivotAlias(this=value.unalias().copy(), alias=exp.to_identifier(name.name, quoted=True)))


def _make_joins_exact(tree: "exp.Expr", dialect: str) -> None:
    """Write out LISTAGG's default separator, and its result for a group without texts."""
    from sqlglot import exp

    for joined in tree.find_all(exp.GroupConcat):
        if dialect in _JOINED_CLOSELY and joined.args.get("separator") is None:
            joined.set("separator", exp.Literal.string(""))
    for joined in list(tree.find_all(exp.GroupConcat)) if dialect == "snowflake" else []:
        if not isinstance(joined.parent, exp.Window | exp.Filter):  # snowflake returns '' for a group without texts
            joined.replace(exp.Coalesce(this=joined.copy(), expressions=[exp.Literal.string("")]))


def _place(ours: Rewritten, begin: int, text: str, said: dict[str, Any]) -> str:
    """Return the position in the sent text of sqlglot's error; empty if sqlglot has no position."""
    line, column = said.get("line"), said.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return ""
    lines = text.splitlines(keepends=True)
    offset = begin + sum(map(len, lines[: line - 1])) + max(0, column - len(str(said.get("highlight") or "")))
    return f" at {position(ours.sent, ours.sent_at(offset))}"


def _reason(said: dict[str, Any]) -> str:
    return str(said.get("description") or "it is not a statement").rstrip(".")


class _TooLongError(Exception):
    """The text that sqlglot writes is many times as long as the text it read."""


@cache
def _ours() -> Any:
    """Return the dialect in which sqlglot writes for DataFusion."""
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.generators.duckdb import DuckDBGenerator

    def aggregated(generator: Any, found: "exp.GroupConcat") -> str:
        between = generator.sql(found.args.get("separator") or exp.Literal.string(","))
        ordered = found.this if isinstance(found.this, exp.Order) else None
        text = generator.sql(ordered.this if ordered is not None else found.this)
        keys = f" ORDER BY {generator.expressions(ordered, flat=True)}" if ordered is not None else ""
        return f"STRING_AGG({text}, {between}{keys})"

    def extracted(generator: Any, found: "exp.RegexpExtract") -> str:
        return str(generator.func("REGEXP_EXTRACT", found.this, found.expression, found.args.get("group")))

    def read_as_text(generator: Any, found: "exp.JSONExtractScalar") -> str:
        name = "JSON_VALUE" if found.args.get("scalar_only") else "JSON_EXTRACT_STRING"
        return str(generator.func(name, found.this, found.expression))

    class FlightLLM(DuckDB):
        """DuckDB's dialect, with PostgreSQL's order of NULLs and division of integers."""

        NULL_ORDERING = "nulls_are_large"
        TYPED_DIVISION = True
        SAFE_DIVISION = False

        class Generator(DuckDBGenerator):
            """Writes functions by DataFusion's names, and at most `left` parts of a text."""

            left = 0

            TRANSFORMS = {  # noqa: RUF012 - as sqlglot declares it
                **DuckDBGenerator.TRANSFORMS,
                **counterparts(),
                exp.GroupConcat: aggregated,
                exp.JSONExtractScalar: read_as_text,
                exp.ParseJSON: lambda generator, found: f"({generator.sql(found, 'this')})::JSON",
                exp.RegexpExtract: extracted,
                exp.ToChar: lambda generator, found: generator.func("TO_CHAR", found.this, found.args.get("format")),
            }

            def sql(self, *args: Any, **options: Any) -> str:
                """Write one part, and count it."""
                self.left -= 1
                if self.left < 0:
                    raise _TooLongError
                return str(super().sql(*args, **options))

    return FlightLLM()
