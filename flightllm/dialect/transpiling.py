"""Rewrite whole texts of another dialect: sqlglot reads them, and writes them as DataFusion reads them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flightllm.dialect.bigquery_values import write_bigquery_values
from flightllm.dialect.cast_names import name_casts
from flightllm.dialect.catalog_names import compare_catalog_names, read_catalogs
from flightllm.dialect.counterparts import check_counterparts, order_any_values, refuse_null_items, write_limits
from flightllm.dialect.distances import distances
from flightllm.dialect.generator.calls import TooLongError
from flightllm.dialect.generator.ours import write
from flightllm.dialect.generator.reading import read, written_name
from flightllm.dialect.generator.variants import makes_json
from flightllm.dialect.generator.written import SPARKS
from flightllm.dialect.inner_names import name_inner_columns
from flightllm.dialect.inserted_times import cast_inserted_times
from flightllm.dialect.integer_casts import ROUNDING, round_integer_casts
from flightllm.dialect.json_fields import write_json_fields
from flightllm.dialect.json_operators import operand
from flightllm.dialect.kept_names import keep_names, quote_error_fields
from flightllm.dialect.path_orders import order_by_paths
from flightllm.dialect.plain_texts import plain_texts
from flightllm.dialect.postgres_forms import write_postgres_forms
from flightllm.dialect.quoted_columns import check_quoted_columns
from flightllm.dialect.row_sources import write_row_sources
from flightllm.dialect.source import NameContext, Source
from flightllm.dialect.spark_clauses import write_clauses
from flightllm.dialect.struct_literals import write_structs
from flightllm.dialect.text import Edit, Rewritten
from flightllm.dialect.value_places import write_value_places
from flightllm.dialect.vendor_calls import vendor_calls
from flightllm.errors import SqlError, UnsupportedError
from flightllm.functions.json_texts import JSON_LIST
from flightllm.sql.object_statements import changes_object
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, TokenKind, position, tokenize

if TYPE_CHECKING:
    from sqlglot import exp

DIALECTS = ("snowflake", "bigquery", "databricks", "duckdb", "postgres", "spark")
_STATEMENTS = ("select", "with", "from", "values", "pivot", "insert", "update", "delete")
_MADE = ("table", "view")
_COPIED = ("div0", "div0null", "zeroifnull", "nullifzero", "sort_array")
"""Functions whose arguments sqlglot copies while it reads a text."""
_MOST_COPIED = 5
"""The most nested calls of these functions."""
_FIRST_MATCHES = {"duckdb": 0, "spark": 1, "databricks": 1}
"""For each dialect, the group that `regexp_extract` returns by default."""
_JOINED_CLOSELY = ("snowflake", *SPARKS)
"""Dialects whose LISTAGG has an empty separator by default."""
_AI = "_of_flightllm"
"""Follows the name of an AI function while sqlglot reads."""
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
    if sum(_is_parameter(source, index, dialect) for index in range(len(source.tokens))) > 1:
        raise UnsupportedError("parameters of a text in another dialect need numbers: write $1, $2 in place of ?")
    _check_nesting(plain, source, dialect)
    check_quoted_columns(plain, source, dialect)
    if dialect == "postgres" and (found := list(distances(plain, source))):
        plain = plain.with_edits(found)
        source = Source(ParsedText(plain.text), place)
    if dialect == "snowflake":
        _check_stages(source)
    source.dialect = dialect
    try:
        ours = plain.with_edits([*vendor_calls(source), *_pivot_in_from(source, start, dialect)])
    except (SqlError, UnsupportedError) as error:
        raise type(error)(plain.said(str(error))) from error
    begin = source.tokens[start].start
    written = _written(ours, begin, dialect, place)
    edit = Edit(begin, len(plain.text), written)
    return Rewritten(sql, plain.text[:begin] + written, (*plain.edits, (edit,)), read_from=dialect)


def _start(source: Source) -> int | None:
    """Return the first token of a query or a change of rows, after EXPLAIN or SUMMARIZE; a CREATE is included."""
    if source.is_word(1, "model", "prompt") and changes_object(source.tokens):
        return None
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


def _is_parameter(source: Source, index: int, dialect: str) -> bool:
    """Return whether a token is the parameter `?`; between two values of postgres it is an operator of JSON."""
    token = source.tokens[index]
    if token.kind is not TokenKind.PLACEHOLDER or token.text != "?":
        return False
    return dialect != "postgres" or operand(source, index - 1) is None


def _pivot_in_from(source: Source, start: int, dialect: str) -> list[Edit]:
    """Rewrite `PIVOT t ON a USING sum(b) ORDER BY c` as `SELECT * FROM (PIVOT …) ORDER BY c`, which sqlglot reads."""
    if dialect != "duckdb" or not source.is_word(start, "pivot"):
        return []
    at = start
    while at < len(source.tokens) and not source.is_word(at, "order", "limit"):
        at = source.closing.get(at, at) + 1
    if at >= len(source.tokens):
        return []
    begin, end = source.tokens[start].start, source.tokens[at].start
    return [Edit(begin, begin, "SELECT * FROM ("), Edit(end, end, ") ")]


def _check_stages(source: Source) -> None:
    """Raise `UnsupportedError` for `FROM @stage`."""
    for index, token in enumerate(source.tokens):
        if source.is_word(index - 1, "from", "join") and token.text.startswith("@"):
            raise UnsupportedError(
                "there are no stages here: write CREATE EXTERNAL TABLE name STORED AS"
                " PARQUET LOCATION 'folder', and read this table"
            )


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
    """Replace literals that a dialect can read differently by marks; return the texts by their marks.

    Also mark the names of AI functions: sqlglot knows some of them with fewer arguments than they have here.
    """
    sign = _SIGN
    while sign in ours.text:
        sign += _SIGN
    marks = dict[str, str]()
    edits = list[Edit]()
    tokens = tokenize(ours.text)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if following is not None and following.is_symbol("(") and _is_ai(token) and token.start >= begin:
            edits.append(Edit(token.end, token.end, _AI))
        quoted = token.kind is TokenKind.STRING and token.start >= begin and ours.text[token.start] == "'"
        if quoted and ("'" in token.text or "\\" in token.text):
            mark = f"{sign}{len(marks)}{sign}"
            marks[mark] = token.text
            edits.append(Edit(token.start, token.end, f"'{mark}'"))
    return ours.with_edits(edits), marks


def _unmask(tree: "exp.Expr", marks: Mapping[str, str], dialect: str) -> None:
    """Put the texts of marks into a tree: also into paths of JSON values, which sqlglot reads before."""
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect

    for call in tree.find_all(exp.Anonymous):
        call.set("this", str(call.this).removesuffix(_AI))
    for literal in tree.find_all(exp.Literal):
        if literal.is_string and (value := marks.get(str(literal.this))) is not None:
            literal.set("this", value)
    for path in list(tree.find_all(exp.JSONPath)):
        mark = next((str(one.this) for one in path.expressions if str(one.this) in marks), None)
        if mark is not None:
            read_path: Any = Dialect.get_or_raise(dialect).to_json_path(exp.Literal.string(marks[mark]))
            path.replace(read_path)


def _without_marks(written: str, marks: Mapping[str, str], dialect: str) -> str:
    """Return a text that has no marks any more.

    Raises:
        UnsupportedError: a mark is left, because sqlglot reads the literal in its place while it reads the text.
    """
    lost = next((value for mark, value in marks.items() if mark in written), None)
    if lost is not None:
        raise UnsupportedError(
            f"the text {lost[:100]!r} has quotes or backslashes that have no meaning here in {dialect}: leave them out"
        )
    return written


def _is_ai(token: Token) -> bool:
    return token.kind is TokenKind.WORD and token.text[:3].lower() == "ai_"


def _written(ours: Rewritten, begin: int, dialect: str, place: NameContext) -> str:
    """Return a text of a dialect as DataFusion reads it; its literals are already in standard form."""
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError
    from sqlglot.errors import UnsupportedError as NoCounterpart

    marked, marks = _masked(ours, begin)
    text = marked.text[begin:]
    try:
        parsed = read(text, dialect, place.own_functions)
        statements = [one for one in parsed if one is not None and not isinstance(one, exp.Semicolon)]
        if len(statements) != 1:
            raise SqlError("one statement at a time: send the statements separated by ';' one after the other")
        tree = statements[0]
        if isinstance(tree, exp.Command):
            raise SqlError(f"the text cannot be read as {dialect}")
        _unmask(tree, marks, dialect)
        if dialect == "snowflake":
            cast_inserted_times(tree, place)
        _make_exact(tree, dialect)
        return _without_marks(write(tree, dialect), marks, dialect)
    except TooLongError as error:
        raise UnsupportedError(f"a call in the text {_too_deep(dialect)}") from error
    except ParseError as error:
        said = error.errors[0] if error.errors else {}
        raise SqlError(
            f"the text cannot be read as {dialect}{_place(marked, begin, text, said)}: {_reason(said)}"
        ) from error
    except NoCounterpart as error:
        raise UnsupportedError(f"a part of the text in {dialect} has no counterpart here: {error}") from error
    except RecursionError as error:
        raise UnsupportedError(f"the text is nested too deep for {dialect}: compute a part in a subquery") from error
    except SqlglotError as error:
        raise SqlError(f"the text cannot be read as {dialect}: {error}") from error


def _make_exact(tree: "exp.Expr", dialect: str) -> None:
    """Write out defaults of a dialect that differ from the defaults here.

    Raises:
        UnsupportedError: a default cannot be written out.
    """
    _name_groups(tree, dialect)
    _write_places(tree, dialect)
    write_row_sources(tree, dialect)
    if dialect == "postgres":
        write_postgres_forms(tree)
    if dialect == "bigquery":
        read_catalogs(tree)
        refuse_null_items(tree)
        write_limits(tree)
    if dialect == "snowflake":
        compare_catalog_names(tree)
    elif dialect == "duckdb":
        order_any_values(tree)
    check_counterparts(tree, dialect)
    keep_names(tree, dialect)
    name_casts(tree, dialect)
    if dialect == "duckdb":
        name_inner_columns(tree)
    if dialect in SPARKS:
        write_clauses(tree)
        quote_error_fields(tree)
    if dialect == "bigquery":
        write_json_fields(tree)
        _order_unpivots(tree)
    _name_pivots(tree, dialect)
    if dialect in ROUNDING:
        round_integer_casts(tree, dialect)
    _make_joins_exact(tree, dialect)
    if dialect in SPARKS or dialect == "snowflake":
        _make_lists_exact(tree, dialect)


def _name_groups(tree: "exp.Expr", dialect: str) -> None:
    """Write out which part of a match REGEXP_EXTRACT returns.

    Raises:
        UnsupportedError: the call is NULL where nothing matches.
    """
    from sqlglot import exp

    for found in list(tree.find_all(exp.RegexpExtract)):
        if dialect not in _FIRST_MATCHES or any(found.args.get(name) for name in ("position", "occurrence")):
            raise UnsupportedError(
                f"{written_name(found)} of {dialect} is NULL where nothing matches: write regexp_match(text,"
                " pattern)[1] in the default dialect, after RESET flightllm.dialect"
            )
        if found.args.get("group") is None:
            found.set("group", exp.Literal.number(_FIRST_MATCHES[dialect]))


def _order_unpivots(tree: "exp.Expr") -> None:
    """Rewrite `t UNPIVOT (v FOR k IN (a, b))` as a query whose last columns are `v` and `k`, as in BigQuery."""
    from sqlglot import exp

    for found in list(tree.find_all(exp.Pivot)):
        table, fields = found.parent, found.args.get("fields") or []
        if table is None or len(table.args.get("pivots") or []) != 1 or len(fields) != 1:
            continue
        if not (found.args.get("unpivot") and isinstance(found.expressions[0], exp.Column | exp.Identifier)):
            continue
        name = exp.to_identifier(fields[0].this.name, quoted=True)
        alias = found.args.get("alias")
        found.set("alias", None)
        star = exp.Star(except_=[name.copy()])
        query = exp.select(star, exp.column(name)).from_(table.copy())
        table.replace(query.subquery(alias.name if alias is not None else None))


def _write_places(tree: "exp.Expr", dialect: str) -> None:
    """Write structs of BigQuery, and the places and names of VALUES and UNPIVOT of Snowflake."""
    if dialect == "bigquery":
        write_structs(tree)
        write_bigquery_values(tree)
    elif dialect == "snowflake":
        write_value_places(tree)
        order_by_paths(tree)
        _name_unpivots(tree)


def _name_unpivots(tree: "exp.Expr") -> None:
    """Rewrite `UNPIVOT (v FOR k IN (a))` as `… IN (a AS 'A')`: an unquoted name has capitals in Snowflake."""
    from sqlglot import exp

    for found in tree.find_all(exp.Pivot):
        for field in (found.args.get("fields") or []) if found.args.get("unpivot") else []:
            for one in [one for one in field.expressions if isinstance(one, exp.Column) and not one.this.quoted]:
                one.replace(exp.PivotAlias(this=one.copy(), alias=exp.to_identifier(one.name.upper(), quoted=True)))


def _name_pivots(tree: "exp.Expr", dialect: str) -> None:
    """Write out the names that a dialect gives to the columns of PIVOT.

    Raises:
        UnsupportedError: aliases cannot express the names.
    """
    from sqlglot import exp

    for found in tree.find_all(exp.Pivot):
        if dialect in SPARKS:
            _count_as_spark(found)
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


def _count_as_spark(pivot: "exp.Pivot") -> None:
    """Rewrite counts of PIVOT as sums, which are NULL for a cell without rows.

    Raises:
        UnsupportedError: a count is of different values.
    """
    from sqlglot import exp

    for count in [one for aggregate in pivot.expressions for one in aggregate.find_all(exp.Count)]:
        if isinstance(count.this, exp.Distinct) or count.expressions:
            raise UnsupportedError(
                "count(DISTINCT x) in PIVOT has no counterpart: write count(DISTINCT x) FILTER (WHERE a = 'x') AS x"
            )
        one, zero = exp.Literal.number(1), exp.Literal.number(0)
        known = (
            one
            if isinstance(count.this, exp.Star)
            else exp.case().when(count.this.copy().is_(exp.null()), zero).else_(one)
        )
        count.replace(exp.Sum(this=known))


def _make_joins_exact(tree: "exp.Expr", dialect: str) -> None:
    """Write out LISTAGG's default separator, and its result for a group without texts."""
    from sqlglot import exp

    for joined in tree.find_all(exp.GroupConcat):
        if dialect in _JOINED_CLOSELY and joined.args.get("separator") is None:
            joined.set("separator", exp.Literal.string(""))
    for joined in list(tree.find_all(exp.GroupConcat)) if dialect == "snowflake" else []:
        if not isinstance(joined.parent, exp.Window | exp.Filter):  # snowflake returns '' for a group without texts
            joined.replace(exp.Coalesce(this=joined.copy(), expressions=[exp.Literal.string("")]))


def _make_lists_exact(tree: "exp.Expr", dialect: str) -> None:
    """Write out the empty list that Spark and Snowflake collect of no values, and the set that they collect."""
    from sqlglot import exp

    for unique in list(tree.find_all(exp.ArrayUniqueAgg)):
        values = exp.Distinct(expressions=[unique.this.copy()])
        unique.replace(exp.ArrayAgg(this=values, nulls_excluded=True))
    for collected in list(tree.find_all(exp.ArrayAgg)):
        whole: exp.Expr = collected
        while isinstance(whole.parent, exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
            whole = whole.parent
        listed = exp.Coalesce(this=whole.copy(), expressions=[exp.Array(expressions=[])])
        is_json = dialect == "snowflake" and makes_json(collected.this)
        whole.replace(exp.Anonymous(this=JSON_LIST, expressions=[listed]) if is_json else listed)


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
