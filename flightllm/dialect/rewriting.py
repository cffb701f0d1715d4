"""List the rules in their order. Each has triggers that tell, at little cost, whether it can apply to a text."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from flightllm.common.stopping import check_wanted
from flightllm.dialect.cast_aggregates import calls_aggregate, cast_aggregates
from flightllm.dialect.column_spellings import column_spellings
from flightllm.dialect.column_words import WORDS as COLUMN_WORDS
from flightllm.dialect.column_words import column_words
from flightllm.dialect.dual import dual
from flightllm.dialect.escapes import WORDS as ESCAPES
from flightllm.dialect.escapes import escapes
from flightllm.dialect.evaluations import evaluations
from flightllm.dialect.fetch_first import fetch_first
from flightllm.dialect.field_names import field_names, has_inner_query
from flightllm.dialect.from_first import from_first
from flightllm.dialect.functions import NAMES as FUNCTIONS
from flightllm.dialect.functions import functions
from flightllm.dialect.half_joins import half_joins
from flightllm.dialect.identity import NAMES as IDENTITIES
from flightllm.dialect.identity import identity
from flightllm.dialect.information_schema import information_schema
from flightllm.dialect.json_casts import NAMES as JSON_CASTS
from flightllm.dialect.json_casts import json_casts
from flightllm.dialect.json_operators import NAMES as JSON_FUNCTIONS
from flightllm.dialect.json_operators import OPERATORS as JSON_OPERATORS
from flightllm.dialect.json_operators import json_operators
from flightllm.dialect.json_rows import NAMES as JSON_ROWS
from flightllm.dialect.json_rows import json_rows
from flightllm.dialect.label_tables import label_tables
from flightllm.dialect.lambdas import NAMES as WITH_LAMBDA
from flightllm.dialect.lambdas import lambdas
from flightllm.dialect.lateral_aliases import DIALECTS as WITH_ALIASES
from flightllm.dialect.lateral_aliases import has_aliases, lateral_aliases
from flightllm.dialect.like_escapes import like_escapes
from flightllm.dialect.materialized import materialized
from flightllm.dialect.national_texts import national_texts
from flightllm.dialect.output_names import duplicates
from flightllm.dialect.pattern_rows import NAMES as PATTERN_ROWS
from flightllm.dialect.pattern_rows import pattern_rows
from flightllm.dialect.pivot import pivot
from flightllm.dialect.postgres_formats import WORD as TO_CHAR
from flightllm.dialect.postgres_formats import postgres_formats
from flightllm.dialect.regexp_operators import NAMES as REGEXP_OPERATORS
from flightllm.dialect.regexp_operators import regexp_operators
from flightllm.dialect.series_names import series_names
from flightllm.dialect.show import show, show_without_case
from flightllm.dialect.similar_to import similar_to
from flightllm.dialect.source import NameContext, Source
from flightllm.dialect.stars import stars
from flightllm.dialect.storage_parameters import WORDS as STORAGE
from flightllm.dialect.storage_parameters import storage_parameters
from flightllm.dialect.summarize import summarize
from flightllm.dialect.table_names import INFORMATION, TEMPORARY, table_names
from flightllm.dialect.table_spellings import table_spellings
from flightllm.dialect.text import Edit, Rewritten
from flightllm.dialect.timestamps import timestamps
from flightllm.dialect.top import top
from flightllm.dialect.types import WITH_DOUBLES, types, wide_floats
from flightllm.dialect.unpivot import unpivot
from flightllm.dialect.using_spellings import using_spellings
from flightllm.dialect.vendor_calls import FLAGGED, FLAGS, PROMPTED, vendor_calls
from flightllm.dialect.vendor_calls import NAMES as VENDOR_FUNCTIONS
from flightllm.errors import FlightLLMError
from flightllm.sql.element_rows import SERIES
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits

DEFAULT = "default"
"""The server's own dialect."""
_AS_POSTGRES = (DEFAULT, "postgres")
"""The dialects that compute as PostgreSQL does."""
_WITH_CASE = (DEFAULT, "bigquery", "databricks", "duckdb", "postgres", "spark")
"""Dialects in which the pattern of SHOW … LIKE has a case."""
_AS_DUCKDB = (*_AS_POSTGRES, "duckdb")
"""The dialects in which the functions of DuckDB have their meaning there."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A condition on a text: it has one of `words`, one of `marks` (see `ParsedText.marks`), and passes `test`.

    An empty part always holds.
    """

    words: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    test: Callable[[ParsedText], bool] | None = None

    def is_in(self, text: ParsedText) -> bool:
        """Return whether all parts hold for a text."""
        if self.words and self.words.isdisjoint(text.words):
            return False
        if self.marks and self.marks.isdisjoint(text.marks):
            return False
        return self.test is None or self.test(text)


class Rule:
    """One rule and its triggers; the driver calls the rule only for a text with at least one of these triggers."""

    def __init__(
        self,
        edits: Callable[[Source], Iterable[Edit]],
        *triggers: Trigger,
        in_other_schemas: bool = False,
        of_spellings: bool = False,
        of_dialects: tuple[str, ...] = (),
    ) -> None:
        """Take a rule; with `in_other_schemas` it also applies to every text outside the usual schema.

        With `of_spellings` it needs a text in which an unquoted name can mean a name with capitals. With `of_dialects`
        it applies only to the texts of some dialects.
        """
        self.edits = edits
        self._triggers = triggers
        self._in_other_schemas = in_other_schemas
        self._of_spellings = of_spellings
        self._of_dialects = of_dialects

    def applies(self, source: Source, dialect: str = DEFAULT) -> bool:
        """Return whether the rule can change a text that was read in a dialect."""
        if self._of_dialects and dialect not in self._of_dialects:
            return False
        if self._in_other_schemas and not source.place.usual:
            return True
        if not any(trigger.is_in(source) for trigger in self._triggers):
            return False
        return not self._of_spellings or source.may_be_spelt


def _words(*words: str) -> Trigger:
    return Trigger(frozenset(words))


def _marks(*marks: str) -> Trigger:
    return Trigger(marks=frozenset(marks))


def _names_information(text: ParsedText) -> bool:
    """Return whether a text can name `information_schema`, with or without quotes."""
    return "information_schema" in text.sql.lower()


def _has_lambda(text: ParsedText) -> bool:
    """Return whether a text can have the word LAMBDA, or a comprehension of a list."""
    return "lambda" in text.words or {"for", "in"} <= text.words


RULES: tuple[Rule, ...] = (
    # First, because its texts are SQL for all other rules.
    Rule(evaluations, _words("ai_evaluate", "ai_next_labels")),
    Rule(label_tables, _words("filter"), _words("labels")),
    Rule(escapes, Trigger(ESCAPES, frozenset({"{"}))),
    # Before the rules that read names of tables.
    Rule(table_spellings, Trigger(), of_spellings=True),
    Rule(summarize, _words("summarize")),
    Rule(from_first, Trigger(frozenset({"from"}), test=ParsedText.has_leading_from)),
    # UNPIVOT writes the names of its columns into rows.
    Rule(column_spellings, _words("pivot", "unpivot"), of_spellings=True),
    # Before the operators of JSON and the paths of vendors: `->` and `:` are theirs too.
    Rule(lambdas, Trigger(WITH_LAMBDA, frozenset({"->"})), Trigger(WITH_LAMBDA, test=_has_lambda)),
    Rule(pivot, _words("pivot")),
    Rule(unpivot, _words("unpivot")),
    Rule(
        vendor_calls,
        Trigger(VENDOR_FUNCTIONS),
        Trigger(FLAGGED, frozenset({"{"})),
        Trigger(FLAGGED, test=lambda text: not FLAGS.isdisjoint(text.words)),
        Trigger(PROMPTED, frozenset({"((", ",(", "=>("})),
        _words("struct"),
        _marks(":"),
    ),
    # Before the functions: these refuse the formats that chrono lacks.
    Rule(postgres_formats, _words(TO_CHAR), of_dialects=_AS_POSTGRES),
    Rule(functions, Trigger(FUNCTIONS)),
    Rule(json_rows, Trigger(JSON_ROWS)),
    Rule(pattern_rows, Trigger(PATTERN_ROWS), of_dialects=(DEFAULT,)),
    Rule(series_names, Trigger(SERIES)),
    Rule(json_operators, Trigger(JSON_FUNCTIONS), Trigger(marks=JSON_OPERATORS)),
    Rule(json_casts, Trigger(JSON_CASTS), of_dialects=_AS_POSTGRES),
    Rule(show, _words("show", "describe", "desc"), of_dialects=_WITH_CASE),
    Rule(show_without_case, _words("show", "describe", "desc"), of_dialects=("snowflake",)),
    Rule(top, _words("top")),
    Rule(fetch_first, _words("fetch")),
    Rule(dual, _words("dual")),
    Rule(half_joins, _words("semi", "anti", "asof")),
    Rule(materialized, _words("materialized")),
    Rule(storage_parameters, Trigger(STORAGE)),
    Rule(national_texts, _marks("n'")),
    Rule(similar_to, _words("similar")),
    Rule(like_escapes, _words("escape")),
    Rule(regexp_operators, Trigger(REGEXP_OPERATORS)),
    Rule(timestamps, _words("timestamp", "timestamptz"), Trigger(frozenset({"ts"}), frozenset({"{"}))),
    Rule(wide_floats, _words("float"), of_dialects=WITH_DOUBLES),
    Rule(types, _words("cast", "try_cast", "safe_cast", "create"), _marks("::")),
    # After the rules that read units, such as the day of DATEADD(day, 1, at).
    Rule(using_spellings, _words("using", "natural"), of_spellings=True),
    Rule(column_spellings, Trigger(), of_spellings=True),
    # After the names have their spelling.
    Rule(lateral_aliases, Trigger(frozenset({"select"}), test=has_aliases), of_dialects=WITH_ALIASES),
    Rule(field_names, Trigger(frozenset({"select"}), frozenset({"."}), has_inner_query)),
    Rule(column_words, Trigger(COLUMN_WORDS)),
    Rule(identity, Trigger(IDENTITIES)),
    Rule(stars, _marks(".*")),
    Rule(information_schema, Trigger(test=_names_information)),
    Rule(table_names, _words(*TEMPORARY, *INFORMATION), in_other_schemas=True),
    Rule(
        duplicates,
        Trigger(frozenset({"select"}), test=ParsedText.has_similar_items),
        _words("cast", "try_cast"),
        _marks("::"),
    ),
    Rule(
        cast_aggregates,
        Trigger(frozenset({"cast", "try_cast"}), test=calls_aggregate),
        Trigger(marks=frozenset({"::"}), test=calls_aggregate),
    ),
)


def sent_texts(sql: str, dialect: str = DEFAULT) -> Rewritten:
    """Return a statement of a dialect with its literals as this server's lexer reads them; see `plain_texts`.

    Raises:
        SqlError: the text cannot be split into tokens of this dialect.
    """
    if dialect == DEFAULT:
        return Rewritten(sql, sql)
    from flightllm.dialect.plain_texts import plain_texts

    return plain_texts(sql, dialect)


def rewrite(text: ParsedText, place: NameContext, dialect: str = DEFAULT) -> Rewritten:
    """Return a statement as DataFusion reads it, with the names of tables as its session means them.

    A query or a change of rows is first read in `dialect`, if that is not the server's own.

    Raises:
        FlightLLMError: the text cannot be read, or it names a table that its kind of statement cannot use.
    """
    if dialect == DEFAULT:
        found = Rewritten(text.sql, text.sql)
    else:
        from flightllm.dialect.transpiling import transpile

        found = transpile(text.sql, dialect, place)
    source = Source(text.replaced(found.text), place)
    if not source.tokens:  # nothing, or a comment: the parser's own error says so
        return found
    for rule in RULES:
        check_wanted()
        if not rule.applies(source, dialect):
            continue
        try:
            edits = list(rule.edits(source))
        except FlightLLMError as error:
            error.args = (found.said(str(error)),)
            raise
        after = found.with_edits(edits)
        if after is not found:
            found, source = after, Source(ParsedText(after.text), place)
    return _passed(found, source, dialect)


def _passed(found: Rewritten, source: Source, dialect: str) -> Rewritten:
    """Return a text after the passes over its tree."""
    try:
        changes = edits(
            source,
            source.known,
            source.place.names_compared,
            source.place.names_bytes,
            as_postgres=dialect in _AS_POSTGRES,
            as_duckdb=dialect in _AS_DUCKDB,
        )
        made = [Edit(*one) for one in changes]
    except FlightLLMError as error:
        error.args = (found.said(str(error)),)
        raise
    return found.with_edits(made) if made else replace(found, parsed=source)
