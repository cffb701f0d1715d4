"""Read the texts of a session's statements, and plan those that return rows."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from flightllm.catalog import Catalog
from flightllm.catalog.attached_names import with_attached_names
from flightllm.catalog.entries import Entry
from flightllm.common.names import TableName, quoted, table_name
from flightllm.config import LimitsConfig
from flightllm.config.session_settings import Settings
from flightllm.ddl.dispatch import explain_change
from flightllm.dialect import sent_texts
from flightllm.dialect.output_names import output_names, without_marks
from flightllm.dialect.rewriting import DEFAULT
from flightllm.errors import FlightLLMError, NotFoundError, SqlError
from flightllm.execution.context import Services
from flightllm.execution.planning import plan
from flightllm.execution.query import Query
from flightllm.execution.summarize import SummarizeQuery, summary
from flightllm.execution.utility import (
    DescribedQuery,
    DescribeQuery,
    ExplainQuery,
    ShowColumnsQuery,
    ShowFunctionsQuery,
    ShowQuery,
)
from flightllm.functions.own import OWN_PREFIX
from flightllm.pg_catalog.words import CALLS, QUERY, WORDS
from flightllm.session.place import SessionPlace
from flightllm.session.script_variables import DIALECT as WITH_DECLARE
from flightllm.session.script_variables import ScriptVariables
from flightllm.session.variables import DIALECT as WITH_VARIABLES
from flightllm.session.variables import Assignment, Variables, read_assignment
from flightllm.sql.classify import classify
from flightllm.sql.client_parameters import ParameterTable
from flightllm.sql.error_positions import explain_error
from flightllm.sql.guard import check_bound, check_sql, check_text
from flightllm.sql.keys import NO_KEYS, TableKeys
from flightllm.sql.literals import text_literal
from flightllm.sql.names import NO_NAMES, OutputNames, read_parts
from flightllm.sql.own_calls import check_no_own_calls
from flightllm.sql.parameters import bind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.statement import CatalogPlace, Statement

_MOST_PARTS = 3
"""Catalog, schema and name."""


class Rewritten(NamedTuple):
    """A statement as DataFusion reads it."""

    text: ParsedText
    names: Callable[[], OutputNames]
    """Reads the names of its columns from the sent text."""
    catalog: CatalogPlace | None = None
    """Set for a query that asks only the catalog of PostgreSQL's clients; its text is as it was sent."""


class StatementReader:
    """Reads the statements of one session.

    `services` returns the services of the server as the session sees them now; `attaches` tells whether databases are
    attached.
    """

    def __init__(
        self,
        place: SessionPlace,
        services: Callable[[], Services],
        limits: LimitsConfig,
        session_id: Callable[[], str],
        attaches: Callable[[], bool],
    ) -> None:
        self._place = place
        self._services = services
        self._limits = limits
        self._session_id = session_id
        self._attaches = attaches
        self.as_postgres = False
        """Whether the client speaks PostgreSQL's protocol; then `information_schema` names types as PostgreSQL does."""
        self.restores = False
        """Whether the user can send the definitions of views again, with calls of the server's own functions."""
        self.parameters: ParameterTable | None = None
        """The parameters of such a client's connection."""
        self.variables = Variables()
        """The variables of the session in Snowflake's dialect."""
        self.script_variables = ScriptVariables()
        """The variables of the session in BigQuery's dialect."""

    def _catalog(self, sql: str, settings: Settings) -> CatalogPlace | None:
        """Return where a query about the catalog looks names up; None for another statement."""
        as_postgres = self.as_postgres or settings.dialect == "postgres"
        if settings.dialect not in {DEFAULT, "postgres"} or QUERY.match(sql) is None:
            return None
        if WORDS.search(sql) is None and not (as_postgres and CALLS.search(sql)):
            return None
        from flightllm.pg_catalog.parsing import read

        asked = read(sql)
        if asked is None or self._is_hidden(asked.names):
            return None
        if asked.mixed:
            self._check_mixed(asked.names)
        if not asked.asks(as_postgres=as_postgres):
            return None
        return CatalogPlace(tuple(filter(None, self._place.standing)), self._session_id(), self.parameters)

    def _is_hidden(self, names: frozenset[str]) -> bool:
        """Return whether a temporary table has the name of a relation of the catalog, and so comes before it."""
        temporary = self._place.temporary
        return bool(temporary) and any(TableName(temporary, name) in self._services().catalog.entries for name in names)

    def _check_mixed(self, names: frozenset[str]) -> None:
        """Refuse a query in which a name would mean a table, and would mean the catalog without other tables.

        Raises:
            SqlError: the query has such a name.
        """
        entries = self._services().catalog.entries
        for schema in self._place.standing:
            for name in sorted(names):
                if TableName(schema, name) in entries:
                    raise SqlError(
                        f"{name} is a relation of pg_catalog, and a query cannot read it beside tables: "
                        f"for your table, write {quoted(schema)}.{quoted(name)}"
                    )

    def rewritten(self, sql: str, settings: Settings, parameters: pa.Schema | None = None) -> Rewritten:
        """Return a statement as DataFusion reads it.

        The sent text is checked, and so is the rewritten text if it differs. `parameters` are the types of the values
        that are bound to the statement; None before they are known.

        Raises:
            FlightLLMError: the statement cannot be parsed, or its rewritten text is too large.
        """
        check_text(sql, self._limits)
        sql = self._with_attached_names(sql, settings.dialect)
        if settings.dialect == WITH_VARIABLES:
            sql = self.variables.written(sql, () if parameters is None else parameters.names)
        elif settings.dialect == WITH_DECLARE:
            sql = self.script_variables.written(sql, () if parameters is None else parameters.names)
        if (place := self._catalog(sql, settings)) is not None:
            asked = ParsedText(sql)
            check_sql(asked, self._limits, by_datafusion=False)
            return Rewritten(asked, lambda: NO_NAMES, place)
        found = sent_texts(sql, settings.dialect)
        sent = ParsedText(found.text)
        try:
            check_sql(sent, self._limits)
            if OWN_PREFIX in sent.sql:
                check_no_own_calls(sent, restores=self.restores)
        except FlightLLMError as error:
            error.args = (found.said(str(error)),)
            raise
        rewritten = self._place.read(sent.replaced(sql), settings.dialect, parameters)
        read = rewritten.parsed or ParsedText(rewritten.text)
        if read.sql == sent.sql:
            sent = read
        else:
            check_sql(read, self._limits)
        return Rewritten(read, cache(lambda: output_names(sent, as_postgres=self.as_postgres)))

    def _with_attached_names(self, sql: str, dialect: str) -> str:
        if not self._attaches():  # the rights of a user who is gone are an error, which parsing comes before
            return sql
        services = self._services()
        return with_attached_names(sql, services.catalog.store, services.rights, dialect)

    def assignment(self, sql: str, settings: Settings) -> Assignment | None:
        """Return the variables that a statement of Snowflake or BigQuery sets; None for any other statement.

        Raises:
            FlightLLMError: the text is too long, or sets variables in a wrong way.
        """
        if settings.dialect not in {WITH_VARIABLES, WITH_DECLARE}:
            return None
        check_text(sql, self._limits)
        return read_assignment(sql) if settings.dialect == WITH_VARIABLES else self.script_variables.assignment(sql)

    def statement(self, sql: str, settings: Settings, parameters: pa.Schema | None = None) -> Statement:
        """Parse a text into the statement that all later steps take; its parameters keep their places.

        `parameters` are the types of their values; None before they are known.

        Raises:
            FlightLLMError: see `rewritten`; or the kind of the statement is unknown.
        """
        if self.assignment(sql, settings) is not None:
            return Statement("parameter", sql)
        found = self.rewritten(sql, settings, parameters)
        return replace(classify(found.text), names=found.names, catalog=found.catalog)

    def bound(self, sql: str, settings: Settings, parameters: pa.RecordBatch | None) -> Statement:
        """Parse a text as `statement` does, with values in the places of its parameters.

        Raises:
            FlightLLMError: see `statement`; or the parameters do not fit.
        """
        if self.assignment(sql, settings) is not None:
            return Statement("parameter", sql)
        found = self.rewritten(sql, settings, None if parameters is None else parameters.schema)
        if parameters is None and settings.dialect == WITH_VARIABLES:
            self.variables.check_set(found.text)
        bind_values = self.with_values if found.catalog is None else self._with_catalog_values
        return replace(classify(bind_values(found.text, parameters)), names=found.names, catalog=found.catalog)

    def with_values(self, read: ParsedText, parameters: pa.RecordBatch | None) -> ParsedText:
        """Bind parameters and check the bound text; see `bind`.

        Raises:
            FlightLLMError: the parameters do not fit, or the bound text is too large.
        """
        text = bind(read, parameters)
        if text is not read:
            check_bound(text, self._limits)
        return text

    def _with_catalog_values(self, read: ParsedText, parameters: pa.RecordBatch | None) -> ParsedText:
        text = bind(read, parameters)
        if text is not read:
            check_bound(text, self._limits, by_datafusion=False)
        return text

    def explain(self, error: Exception, sql: str, dialect: str) -> None:
        """Rewrite an error's message: quote the statement as it was sent, and only tables that the user can read.

        The message stays the same if the user was dropped in the meantime.
        """
        if not isinstance(error, SqlError):
            return
        with suppress(FlightLLMError):
            read = self._place.read(ParsedText(sql), dialect)
            services = self._services()
            catalog, rights = services.catalog, services.rights

            def tables() -> list[TableName]:
                return [*catalog.entries, *(info.name for info in catalog.store.system_tables())]

            def is_view(name: TableName) -> bool:
                entry = catalog.store.entries.get(name)
                return entry is not None and entry.kind == "view" and rights.may("SELECT", name, entry.owner)

            explain_error(error, read.text, tables, is_view, unlimited=rights.unlimited)
            error.args = (without_marks(read.said(str(error))),)


def plan_statement(statement: Statement, services: Services, settings: Settings) -> Query:
    """Plan a statement that returns rows.

    Raises:
        FlightLLMError: the statement is wrong.
    """
    if statement.kind == "show":
        return ShowQuery(settings.show(statement.key or "all"))
    if statement.explained is not None:
        return explain_change(statement, statement.explained, services, settings)
    if statement.described is not None:
        described = plan(ParsedText(statement.described), services, settings, names=statement.names())
        return DescribedQuery(described.planned_schema, described.schema.names)
    if statement.catalog is not None:
        from flightllm.execution.catalog_query import CatalogQuery

        return CatalogQuery(statement.parsed_query.sql, statement.catalog, services, settings)
    if (view := _listed_view(statement, services.catalog)) is not None:
        return DescribeQuery(DescribedQuery(view.schema, view.schema.names), NO_KEYS)
    query = plan(_columns_asked(statement, services.catalog), services, settings, names=statement.names())
    if statement.summarized and statement.query is not None:
        columns = query.schema
        query = plan(ParsedText(summary(statement.query, columns)), services, settings)
        if statement.kind == "query":
            return SummarizeQuery(query, columns)
    if statement.kind == "query" and statement.target is not None:
        return DescribeQuery(query, _keys(statement.target, services.catalog))
    if statement.kind == "query" and statement.parsed_query.is_word(0, "show"):
        return _shown(query)
    return ExplainQuery(query, statement) if statement.kind == "explain" else query


def _shown(query: Query) -> Query:
    """Return SHOW as users see it: with SQL's names of types, and without the server's own functions."""
    if "data_type" in query.schema.names:
        return ShowColumnsQuery(query)
    return ShowFunctionsQuery(query) if "function_name" in query.schema.names else query


def _listed_view(statement: Statement, catalog: Catalog) -> Entry | None:
    """Return the AI view that a DESCRIBE names. Its entry has the columns, because DESCRIBE reads no WITH query."""
    if statement.kind != "query" or statement.summarized or statement.target is None:
        return None
    entry = catalog.entries.get(statement.target)
    return entry if entry is not None and entry.kind == "ai_view" else None


def _columns_asked(statement: Statement, catalog: Catalog) -> ParsedText:
    """Return the query of a statement; that of SHOW COLUMNS of an AI view reads the list of columns."""
    text = statement.parsed_query
    if statement.kind != "query" or not text.is_word(0, "show"):
        return text
    at = next((place for place, token in enumerate(text.tokens) if token.is_word("from", "in")), None)
    parts = () if at is None else read_parts(text.tokens, at + 1)[0]
    entry = catalog.entries.get(table_name(parts)) if parts and len(parts) <= _MOST_PARTS else None
    if entry is None or entry.kind != "ai_view":
        return text
    name = entry.name
    return ParsedText(
        "SELECT table_catalog, table_schema, table_name, column_name, data_type, is_nullable"
        f" FROM information_schema.columns WHERE table_schema = {text_literal(name.schema)}"
        f" AND table_name = {text_literal(name.name)} ORDER BY ordinal_position"
    )


def _keys(table: TableName, catalog: Catalog) -> TableKeys:
    """Return a table's keys; DataFusion's own tables in `information_schema` have no keys."""
    with suppress(NotFoundError):
        return catalog.table(table).keys
    return NO_KEYS
