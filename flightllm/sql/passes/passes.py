"""List the passes in their order. Each has words and a test that tell, at little cost, whether it can change a text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from flightllm.sql.alignment import edited, replacements
from flightllm.sql.element_rows import FUNCTIONS
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.any_arrays import any_arrays, has_any_array
from flightllm.sql.passes.array_elements import FUNCTIONS as ELEMENT_FUNCTIONS
from flightllm.sql.passes.array_elements import array_elements
from flightllm.sql.passes.array_order import COMPARED as ORDERED
from flightllm.sql.passes.array_order import array_order
from flightllm.sql.passes.array_values import WORDS as ARRAY_WORDS
from flightllm.sql.passes.array_values import array_values, has_array
from flightllm.sql.passes.assignments import CHANGES, assignments, stores_fractions
from flightllm.sql.passes.base64 import FUNCTIONS as CODES
from flightllm.sql.passes.base64 import base64, has_base64
from flightllm.sql.passes.byte_literals import byte_literals, has_byte_cast
from flightllm.sql.passes.collations import collations
from flightllm.sql.passes.column_patterns import COLUMNS, column_patterns
from flightllm.sql.passes.computed_lists import LISTS as LISTED
from flightllm.sql.passes.computed_lists import computed_lists, has_computed_item
from flightllm.sql.passes.constant_keys import WORDS as TESTS
from flightllm.sql.passes.constant_keys import constant_keys, has_test_as_key
from flightllm.sql.passes.date_differences import DIFFERENCES, date_differences
from flightllm.sql.passes.date_parts import NAMES as DATE_PARTS
from flightllm.sql.passes.date_parts import date_parts
from flightllm.sql.passes.date_truncs import date_truncs
from flightllm.sql.passes.decimal_literals import BESIDE_DECIMALS, decimal_literals
from flightllm.sql.passes.distinct_keys import distinct_keys, has_distinct_order
from flightllm.sql.passes.distinct_lists import FUNCTIONS as LISTS
from flightllm.sql.passes.distinct_lists import can_have_orders, distinct_lists
from flightllm.sql.passes.duckdb_calls import CALLS, duckdb_calls
from flightllm.sql.passes.duckdb_texts import VALUES, duckdb_texts
from flightllm.sql.passes.element_fields import AFTER_BRACKET, element_fields
from flightllm.sql.passes.empty_grouping import empty_grouping, has_empty_grouping
from flightllm.sql.passes.exact_numbers import ARITHMETIC, exact_numbers, has_decimal
from flightllm.sql.passes.extremes import EXTREMES, extremes
from flightllm.sql.passes.grand_totals import CONDITIONS, grand_totals, has_total
from flightllm.sql.passes.grouping_modifiers import MODIFIERS, grouping_modifiers, has_grouping_modifier
from flightllm.sql.passes.in_lists import has_two_lists, in_lists
from flightllm.sql.passes.integer_ranges import OPERATORS as INTEGER_OPERATORS
from flightllm.sql.passes.integer_ranges import has_integer_operator, integer_ranges
from flightllm.sql.passes.interval_arithmetic import interval_arithmetic
from flightllm.sql.passes.interval_sums import FUNCTIONS as SUMS
from flightllm.sql.passes.interval_sums import has_difference, interval_sums
from flightllm.sql.passes.interval_texts import interval_texts
from flightllm.sql.passes.intervals import intervals
from flightllm.sql.passes.json_calls import MARKS as JSON_MARKS
from flightllm.sql.passes.json_calls import can_have_json, json_calls
from flightllm.sql.passes.jsonb_order import jsonb_order
from flightllm.sql.passes.lambda_bodies import lambda_bodies
from flightllm.sql.passes.like_lists import has_like_list, like_lists
from flightllm.sql.passes.meetings import WORDS as MEETING
from flightllm.sql.passes.meetings import meetings
from flightllm.sql.passes.moments import MOMENTS, moments
from flightllm.sql.passes.null_safe_joins import has_null_safe, null_safe_joins
from flightllm.sql.passes.numbered_keys import has_numbered_key, numbered_keys
from flightllm.sql.passes.numeric_division import numeric_division
from flightllm.sql.passes.offset_defaults import FUNCTIONS as OFFSETS
from flightllm.sql.passes.offset_defaults import offset_defaults
from flightllm.sql.passes.order_by_all import has_order_by_all, order_by_all
from flightllm.sql.passes.order_by_columns import has_order_by_expression, order_by_columns
from flightllm.sql.passes.ordered_aggregates import AGGREGATES, has_ordered_aggregate, ordered_aggregates
from flightllm.sql.passes.ordered_tables import ordered_tables
from flightllm.sql.passes.parsed_times import READERS, parsed_times
from flightllm.sql.passes.postgres_calls import CALLS as POSTGRES_CALLS
from flightllm.sql.passes.postgres_calls import postgres_calls
from flightllm.sql.passes.precedence import OPERATORS, can_differ, precedence
from flightllm.sql.passes.random_queries import RANDOM, random_queries
from flightllm.sql.passes.regular_expressions import MATCHES, regular_expressions
from flightllm.sql.passes.repeated_keys import has_ordered_rows, repeated_keys
from flightllm.sql.passes.rounding import CASTS, has_integer_cast, integer_casts, round_calls
from flightllm.sql.passes.row_comparisons import COMPARED, has_row_comparison, row_comparisons
from flightllm.sql.passes.row_values import TAKING, row_values
from flightllm.sql.passes.series_items import series_items
from flightllm.sql.passes.set_operations_all import has_all_rows, set_operations_all
from flightllm.sql.passes.shifts import SHIFTS, shifts
from flightllm.sql.passes.spark_values import CALLS as SPARK_CALLS
from flightllm.sql.passes.spark_values import spark_values
from flightllm.sql.passes.stored_texts import default_texts, has_default_text
from flightllm.sql.passes.struct_stars import struct_stars
from flightllm.sql.passes.subqueries.subqueries import subqueries
from flightllm.sql.passes.substring_places import SUBSTRINGS, substring_places
from flightllm.sql.passes.table_functions import has_table_function, table_functions
from flightllm.sql.passes.table_rows import present_rows, table_rows
from flightllm.sql.passes.text_calls import CALLS as TEXT_CALLS
from flightllm.sql.passes.text_calls import text_calls
from flightllm.sql.passes.text_lengths import TYPES, text_lengths
from flightllm.sql.passes.text_lists import TEXT_LISTS, text_lists
from flightllm.sql.passes.text_slices import OPENED, text_slices
from flightllm.sql.passes.text_values import has_text_of_value, text_values
from flightllm.sql.passes.time_texts import TYPES as TIME_TYPES
from flightllm.sql.passes.time_texts import has_time_text, time_texts
from flightllm.sql.passes.time_units import UNITS, time_units
from flightllm.sql.passes.time_zones import time_zones
from flightllm.sql.passes.typed_calls import TYPED, typed_calls
from flightllm.sql.passes.using import check_unread, using
from flightllm.sql.passes.variances import VARIANCES, variances
from flightllm.sql.passes.variants import MARKS as VARIANTS
from flightllm.sql.passes.variants import variants
from flightllm.sql.passes.whole_division import whole_division
from flightllm.sql.passes.whole_rows import has_count_of_rows, whole_rows
from flightllm.sql.passes.windows import has_named_windows, windows
from flightllm.sql.passes.years import has_year, years
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, parse, with_numbers

_NamesTable = Callable[[ParsedText], bool]


@dataclass(frozen=True, slots=True)
class Pass:
    """A function from a tree to a tree.

    A text that it can change has all of the `words`, one of `some` words or marks if there are any, and passes the
    `test`.

    With `of_columns`, a text that names a table with intervals or arrays needs no `words` and no test; with `of_bytes`,
    also one that names a table with bytes. With `of_postgres`, a text of a dialect that computes in another way stays.
    """

    change: Callable[[Tree, TableColumns], Tree]
    words: frozenset[str]
    test: Callable[[ParsedText], bool] = lambda _: True
    some: frozenset[str] = frozenset()
    of_columns: bool = False
    of_bytes: bool = False
    of_postgres: bool = False
    of_duckdb: bool = False
    """Whether the pass reads functions as DuckDB does; a dialect that means others by their names is not changed."""
    since: int = 2
    """The first version of the passes with this one; a new pass takes `VERSION` + 1. See `passed`."""
    check_unread: Callable[[ParsedText], None] = lambda _: None
    """Raises an error for a text without a tree in which DataFusion would read wrong rows."""

    def can_change(self, text: ParsedText, names_compared: _NamesTable, names_bytes: _NamesTable) -> bool:
        """Return whether the pass can change a text."""
        if self.some and self.some.isdisjoint(text.words) and self.some.isdisjoint(text.marks):
            return False
        named = (self.of_columns and names_compared(text)) or (self.of_bytes and names_bytes(text))
        return named or (self.words <= text.words and self.test(text))


def _has_subquery(text: ParsedText) -> bool:
    """Return whether a text can have a subquery in an expression, or a query that reads the tables before it."""
    return text.has_subquery() or not FUNCTIONS.isdisjoint(text.words)


def _has_time_zone(text: ParsedText) -> bool:
    """Return whether a text can have AT TIME ZONE or call timezone(…)."""
    return "zone" in text.words or "timezone" in text.words


def _has_ordered_table(text: ParsedText) -> bool:
    """Return whether a text has ORDER BY in a query of FROM or WITH."""
    return any(
        token.is_word("order") and _is_table_query(text, text.scopes.around[index])
        for index, token in enumerate(text.tokens)
    )


def _is_table_query(text: ParsedText, opening: int | None) -> bool:
    if not opening or not text.is_word(opening + 1, "select", "with", "values"):
        return False
    return text.is_word(opening - 1, "from", "as", "materialized") or text.is_symbol(opening - 1, "(")


def _names_row(text: ParsedText) -> bool:
    """Return whether a text can have the name or the alias of a table in the place of a column."""
    scopes = {id(scope): scope for scope in text.scopes.of}
    names = {table.alias.lower() for scope in scopes.values() for table in scope.tables if table.alias}
    lowered = text.sql.lower()
    if not any(lowered.count(name) > 1 or '"' in name for name in names):
        return False  # most texts name a table once, and this needs no look at each token
    return any(
        token.text.lower() in names and not text.is_symbol(index + 1, ".") and not _is_table_name(text, index)
        for index, token in enumerate(text.tokens)
    )


def _is_table_name(text: ParsedText, index: int) -> bool:
    begins = text.is_word(index - 1, "from", "join", "as", "update", "into", "table", "view")
    return begins or text.is_symbol(index - 1, ".")


PASSES = (
    # Before the passes that read columns.
    Pass(column_patterns, frozenset(), some=COLUMNS, of_duckdb=True, since=9),
    Pass(random_queries, frozenset({"with", "from"}), some=RANDOM, of_duckdb=True, since=1),
    # Before all rows become structs: `json_build_object` has the spaces of PostgreSQL.
    Pass(row_values, frozenset({"from"}), some=TAKING, of_postgres=True, since=9),
    # Before DuckDB's: a row that an outer join lacks is NULL in the other dialects.
    Pass(present_rows, frozenset({"from"}), _names_row, of_postgres=True, since=9),
    Pass(table_rows, frozenset({"from"}), _names_row, of_duckdb=True, since=9),
    Pass(present_rows, frozenset({"from"}), _names_row, TYPED, since=9),
    Pass(order_by_all, frozenset({"order", "by", "all"}), has_order_by_all, since=9),
    Pass(using, frozenset({"join"}), some=frozenset({"using", "natural"}), check_unread=check_unread),
    Pass(precedence, frozenset(), can_differ, OPERATORS, since=1),
    Pass(collations, frozenset({"collate"}), since=6),
    Pass(any_arrays, frozenset(), has_any_array, frozenset({"any", "some"}), since=1),
    Pass(row_comparisons, frozenset(), has_row_comparison, COMPARED, since=1),
    Pass(in_lists, frozenset(), has_two_lists, frozenset({"and", "or"}), since=1),
    Pass(windows, frozenset({"over"}), has_named_windows, since=1),
    # Before the passes that write such keys: theirs have a second condition.
    Pass(constant_keys, frozenset(), has_test_as_key, TESTS, since=4),
    Pass(struct_stars, frozenset(), some=frozenset({".*"}), since=7),
    # Before all passes that read types: the value at a path is a call or a field.
    Pass(variants, frozenset(), some=VARIANTS),
    Pass(lambda_bodies, frozenset({"lambda"})),
    # Before the passes over dates and intervals: it writes these.
    Pass(spark_values, frozenset(), some=SPARK_CALLS),
    Pass(time_units, frozenset(), some=UNITS),
    Pass(typed_calls, frozenset(), some=TYPED),
    # Before the passes that read types and that correct the functions which these write.
    Pass(extremes, frozenset(), some=EXTREMES, of_duckdb=True),
    Pass(date_differences, frozenset(), some=DIFFERENCES, of_duckdb=True),
    Pass(duckdb_calls, frozenset(), some=CALLS, of_duckdb=True),
    Pass(postgres_calls, frozenset(), some=POSTGRES_CALLS, of_postgres=True),
    Pass(parsed_times, frozenset(), some=READERS),
    Pass(text_lists, frozenset(), some=TEXT_LISTS),
    Pass(json_calls, frozenset(), can_have_json, JSON_MARKS, of_columns=True, of_postgres=True),
    # After the functions of JSON: the parts of a jsonb are calls.
    Pass(jsonb_order, frozenset(), lambda _: False, of_columns=True, of_postgres=True, since=9),
    Pass(text_calls, frozenset(), some=TEXT_CALLS, of_duckdb=True),
    Pass(moments, frozenset(), some=MOMENTS, of_duckdb=True),
    Pass(whole_division, frozenset(), some=frozenset({"//"}), of_duckdb=True),
    Pass(element_fields, frozenset(), some=AFTER_BRACKET),
    Pass(text_slices, frozenset(), some=OPENED, of_duckdb=True),
    Pass(like_lists, frozenset(), has_like_list, frozenset({"any", "some"})),
    # Before the passes that read types: the series in SELECT become rows, which have the type of one item.
    Pass(series_items, frozenset({"generate_series"}), of_postgres=True),
    Pass(exact_numbers, frozenset(), has_decimal, ARITHMETIC, of_duckdb=True),
    Pass(decimal_literals, frozenset(), has_decimal, BESIDE_DECIMALS, of_duckdb=True, since=5),
    # After the passes over decimals: the digits of a decimal are part of its text.
    Pass(duckdb_texts, frozenset(), some=VALUES, of_duckdb=True),
    Pass(integer_casts, frozenset(), has_integer_cast, CASTS, of_duckdb=True),
    Pass(round_calls, frozenset({"round"}), of_postgres=True),
    Pass(date_truncs, frozenset({"date_trunc"}), of_postgres=True),
    # Before the texts of values: a date with a zone has another text.
    Pass(meetings, frozenset(), some=MEETING, of_postgres=True, since=6),
    Pass(text_values, frozenset(), has_text_of_value, CASTS | {"||", "concat", "concat_ws"}, of_postgres=True),
    Pass(text_lengths, frozenset(), some=TYPES),
    Pass(substring_places, frozenset(), some=SUBSTRINGS, since=7),
    Pass(ordered_aggregates, frozenset(), has_ordered_aggregate, AGGREGATES),
    Pass(byte_literals, frozenset(), has_byte_cast, frozenset({"bytea", "encode"})),
    Pass(base64, frozenset(), has_base64, CODES),
    Pass(array_elements, frozenset(), some=ELEMENT_FUNCTIONS),
    Pass(distinct_lists, frozenset(), can_have_orders, LISTS),
    Pass(offset_defaults, frozenset({"over"}), some=OFFSETS),
    Pass(variances, frozenset(), some=VARIANCES, of_postgres=True),
    Pass(regular_expressions, frozenset(), some=MATCHES, of_postgres=True),
    Pass(whole_rows, frozenset({"count"}), has_count_of_rows),
    Pass(time_texts, frozenset(), has_time_text, TIME_TYPES, of_postgres=True),
    Pass(numeric_division, frozenset(), some=frozenset({"/", "%"}), of_postgres=True),
    Pass(integer_ranges, frozenset(), has_integer_operator, INTEGER_OPERATORS | {"sum", "avg"}, since=9),
    Pass(shifts, frozenset(), some=SHIFTS, of_postgres=True),
    Pass(array_values, frozenset(), has_array, ARRAY_WORDS, of_postgres=True),
    Pass(assignments, frozenset(), stores_fractions, CHANGES, of_columns=True, of_bytes=True, of_postgres=True),
    Pass(default_texts, frozenset({"create", "default"}), has_default_text, of_postgres=True),
    Pass(grouping_modifiers, frozenset({"group"}), has_grouping_modifier, MODIFIERS, since=8),
    Pass(empty_grouping, frozenset({"group"}), has_empty_grouping),
    Pass(ordered_tables, frozenset({"order", "by", "from"}), _has_ordered_table),
    Pass(repeated_keys, frozenset({"order", "by"}), has_ordered_rows),
    Pass(distinct_keys, frozenset({"distinct", "order", "by"}), has_distinct_order, since=9),
    Pass(numbered_keys, frozenset({"group", "order", "by"}), has_numbered_key, since=9),
    Pass(order_by_columns, frozenset({"order", "by"}), has_order_by_expression),
    Pass(set_operations_all, frozenset({"all"}), has_all_rows, since=1),
    Pass(time_zones, frozenset(), _has_time_zone),
    Pass(array_order, frozenset(), ParsedText.makes_arrays, ORDERED, of_columns=True, of_postgres=True),
    Pass(interval_arithmetic, frozenset({"interval"}), of_columns=True),
    Pass(interval_sums, frozenset(), has_difference, SUMS, of_columns=True),
    Pass(date_parts, frozenset(), some=DATE_PARTS, of_postgres=True),
    # After the parts: it reads the years that are left.
    Pass(years, frozenset(), has_year, DATE_PARTS, since=9),
    Pass(intervals, frozenset({"interval"}), of_columns=True, since=1),
    # After the intervals: it casts the texts beside them.
    Pass(interval_texts, frozenset({"interval"}), of_columns=True, since=6),
    Pass(table_functions, frozenset(), has_table_function, FUNCTIONS),
    Pass(subqueries, frozenset(), _has_subquery),
    Pass(computed_lists, frozenset(), has_computed_item, LISTED),
    # After the subqueries: a LATERAL total that reads other tables is a join by then, and has no limit.
    Pass(grand_totals, frozenset({"select"}), has_total, CONDITIONS, since=4),
    Pass(null_safe_joins, frozenset(), has_null_safe, frozenset({"distinct", "<=>"})),
)


VERSION: int = max(one.since for one in PASSES)
"""The version of the passes: a text that has passed them needs only those that are newer."""


def passed(text: ParsedText, columns_of: TableColumns, *, version: int = 0) -> ParsedText:
    """Return a query that no client sent, such as the text of a view, after the passes; see `edits`.

    A text that has passed the passes of a `version` needs the newer ones. A pass can read its own result wrongly.
    """
    newer = [one for one in PASSES if one.since > version]
    return text.replaced(edited(text.sql, edits(text, columns_of, lambda _: True, passes=newer)))


def edits(
    text: ParsedText,
    columns_of: TableColumns,
    names_compared: _NamesTable,
    names_bytes: _NamesTable = lambda _: True,
    *,
    as_postgres: bool = True,
    as_duckdb: bool = True,
    passes: Sequence[Pass] = PASSES,
) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the new text of each place that a pass changes.

    A text without a construct that a pass changes is not parsed. Of a statement that the parser does not read, its
    query is parsed, as in `SUMMARIZE SELECT …`. A text that cannot be parsed has no edits.
    `names_compared` tells quickly whether a text can name a table that has a column of intervals or arrays.
    `names_bytes` tells the same of a column of bytes.
    `as_postgres` tells whether the dialect of the text computes as PostgreSQL does, and `as_duckdb` whether it has the
    functions of DuckDB.

    Raises:
        FlightLLMError: a construct gives wrong rows in DataFusion, and no pass can put it right.
    """
    meant = [one for one in passes if (as_postgres or not one.of_postgres) and (as_duckdb or not one.of_duckdb)]
    chosen = [one for one in meant if one.can_change(text, names_compared, names_bytes)]
    if not chosen:
        return
    before, tree = 0, parse(text)
    if tree is None and (before := _first_query(text)):
        text = ParsedText(text.sql[before:])
        tree = parse(text)
    if tree is None:
        for one in chosen:
            one.check_unread(text)
        return
    changed = tree = with_numbers(tree)
    for one in chosen:
        changed = one.change(changed, columns_of)
    if changed is not tree:
        for start, end, written in replacements(text, ParsedText(changed.printed())):
            yield before + start, before + end, written


def _first_query(text: ParsedText) -> int:
    """Return the offset of the query of a statement of another kind; 0 for a query or a statement without a query."""
    return next((token.start for token in text.tokens if token.is_word("select", "with", "values")), 0)
