"""The talk of a logged-in client: simple and extended queries, one message after the other."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flightllm.common.names import CATALOG
from flightllm.errors import CancelledError, FlightLLMError, StatementTimeoutError
from flightllm.execution.describe import Description
from flightllm.flight.core import Core
from flightllm.pg_catalog.rows import process_number
from flightllm.postgres.calls import PostgresCall
from flightllm.postgres.commands import Commands
from flightllm.postgres.engine import Engine
from flightllm.postgres.failures import ClientGoneError, WireError, fatal, fields_of, notice
from flightllm.postgres.local_settings import SEARCH_PATH, TIMEOUT, PutBack
from flightllm.postgres.messages import (
    BOUND,
    CLOSED,
    EMPTY,
    NO_DATA,
    PARSED,
    SUSPENDED,
    Body,
    backend_key,
    complete,
    malformed,
    parameter_description,
    parameter_status,
    ready,
    response,
)
from flightllm.postgres.parameters import value_of
from flightllm.postgres.prepared import Names, Portal, Prepared
from flightllm.postgres.results import Result, as_promised, check_promise
from flightllm.postgres.rows import data_rows, pieces
from flightllm.postgres.settings import ClientSettings
from flightllm.postgres.talk import Link
from flightllm.postgres.times import millis_of, time_text
from flightllm.postgres.transaction import Transaction
from flightllm.postgres.types import arrow_of, column_of, oid_of_field, row_description
from flightllm.postgres.uuids import with_uuids
from flightllm.sql import splitting
from flightllm.sql.batch_results import has_late_id
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import tokenize

_IGNORED = frozenset({"user", "database", "options", "replication"})
_LOOSE = frozenset({"timezone", "datestyle"})
"""Startup parameters whose value drivers choose by themselves: the server tells its own, and goes on."""


class Conversation:
    """Answers the messages of one client, one at a time, in any thread. `leave` and `cancel` can come meanwhile."""

    def __init__(self, core: Core, link: Link, call: PostgresCall, *, has_tls: bool = False) -> None:
        self.core = core
        self.link = link
        self.call = call
        self.engine = Engine(core, call)
        self.names = Names()
        self.transaction = Transaction()
        self.settings = ClientSettings(call.principal.name, is_superuser=call.principal.is_admin, has_tls=has_tls)
        call.parameters = self.settings
        self.engine.is_read_only = lambda: self.settings.is_read_only
        self._first: dict[str, str] = {}
        """The settings of the session that the client's first message gave, by their names in lower case."""
        self._commands = Commands(self)
        self._skips = False
        """Whether messages are skipped up to the next Sync, because an earlier one failed."""
        self._before = 0
        """The characters of the client's text before the statement that is worked on."""
        self._blamed: tuple[BaseException, str, int] | None = None
        """The last error, the statement that it is about, and the characters before that statement."""
        self._changes_at_sync = 0
        """The statements that had changed something at the last Sync."""
        self._is_stopped: Callable[[], bool] = lambda: False
        self._closing = threading.Lock()
        self._closed = False
        self._by_kind: Mapping[bytes, Callable[[Body], None]] = {
            b"Q": self._query,
            b"P": self._parse,
            b"B": self._bind,
            b"D": self._describe,
            b"E": self._execute,
            b"C": self._close,
            b"H": self._flush,
            b"F": self._function,
        }

    # --- begin and end

    def begin(self, user: str, parameters: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Open the session with the parameters of the client's first message.

        Raises:
            WireError: a parameter is unknown or wrong, or there is no such database.
        """
        database = parameters.get("database", user)
        if database not in (CATALOG, "postgres", user, ""):
            raise fatal("3D000", f'database "{database}" does not exist', f"the only database is {CATALOG!r}")
        if parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise fatal("0A000", "replication is not supported")
        try:
            for name, value in {**options, **parameters}.items():
                key = name.lower()
                if key in _IGNORED or key.startswith("_pq_.") or self.settings.set(key, value) or key in _LOOSE:
                    continue
                if key not in ("search_path", "statement_timeout") and not key.startswith("flightllm."):
                    raise _unknown(name)
                self._first[key] = value
            self._apply_first()
        except WireError as error:
            raise fatal(error.code, str(error), error.hint) from error
        except FlightLLMError as error:
            found = fields_of(error)
            raise fatal(found["C"], found["M"]) from error
        self.settings.begin()

    def welcome(self, key: tuple[int, int]) -> None:
        """Tell the client the server's parameters, and that it can send statements."""
        self._report()
        self.send(backend_key(*key))
        self.send(ready(self.transaction.state))

    @property
    def number(self) -> int:
        """Return what `pg_backend_pid()` returns; it changes with `DISCARD ALL`, which begins another session.

        Raises:
            BusyError: the maximum number of sessions is open.
        """
        return process_number(self.call.session(self.core).id)

    def start_again(self) -> None:
        """Forget all that the client has set up: settings, prepared statements, cursors and temporary tables."""
        self.names.close_portals(also_held=True)
        self.names.statements.clear()
        self.settings.reset("all")
        self.call.close_session(self.core)
        try:
            self._apply_first()
        except FlightLLMError as error:  # without its own settings the session must not go on
            raise fatal(fields_of(error)["C"], str(error)) from error

    def reset_all(self) -> None:
        """Go back to the settings of the client's first message.

        Raises:
            PermissionDeniedError: the session was made read-only since.
        """
        session = self.call.session(self.core)
        for key in sorted(session.get_options(), key=lambda key: key != "read_only"):  # the one that can be refused
            if key != "catalog" and f"flightllm.{key}" not in self._first:
                session.reset_option(key)
        self.settings.reset("all")
        self._apply_first()

    def kept_settings(self) -> PutBack:
        """Return a function that goes back to the present settings."""
        session = self.call.session(self.core)
        standing, go_back = session.kept(), self.settings.kept()

        def undo() -> None:
            session.go_back(standing)
            go_back()

        return undo

    def kept_setting(self, name: str) -> PutBack:
        """Return a function that gives a setting of the client or of the session its present value again."""
        if (found := self.settings.kept_value(name)) is not None:
            return found
        session, timeout = self.call.session(self.core), self.settings.timeout
        values, path = session.kept()

        def put_back() -> None:
            now, here = session.kept()
            if name == SEARCH_PATH:
                session.go_back((now, path))
            elif name in now.as_text():
                session.go_back((now.with_value_of(name, values), here))
            if name == TIMEOUT:
                self.settings.timeout = timeout

        return put_back

    def restore(self, name: str) -> bool:
        """Go back to the first value of a setting; return False if the client's first message did not give it."""
        if name not in self._first:
            return False
        self._apply(name, self._first[name])
        return True

    def _apply_first(self) -> None:
        for name in sorted(self._first, key=lambda name: name == "search_path"):  # its schema can be gone meanwhile
            self._apply(name, self._first[name])

    def _apply(self, name: str, value: str) -> None:
        key = name.removeprefix("flightllm.")
        if name == "search_path":
            self.engine.start(f"SET search_path TO {value}")
        elif name == "statement_timeout":
            self.set_timeout(value)
        else:
            session = self.call.session(self.core)
            if session.get_options().get(key) != value:  # read_only cannot be set twice
                session.set_option(key, value)

    def leave(self) -> None:
        """Stop what runs, because the client left."""
        self.call.leave()

    def cancel(self) -> None:
        """Stop what runs, because the client asked for it over another connection."""
        self.call.cancel()

    @property
    def is_cancelled(self) -> bool:
        """Return whether what runs is to stop."""
        return self.call.is_cancelled()

    @property
    def is_stopped(self) -> bool:
        """Return whether the query whose rows are sent was stopped."""
        return self._is_stopped()

    def close(self) -> None:
        """End the session. Idempotent."""
        with self._closing:
            closed, self._closed = self._closed, True
        if not closed:
            self.call.leave()
            self.names.close_portals(also_held=True)
            self.call.close_session(self.core)

    # --- messages

    def answer(self, kind: bytes, data: bytes) -> None:
        """Answer one message of the client.

        Raises:
            WireError: the connection must end.
            ClientGoneError: it has ended.
        """
        if kind == b"S":
            self._sync()
        elif kind == b"X":
            self.link.close()
        elif not self._skips and kind in self._by_kind:
            if kind == b"Q":
                self._query(Body(data))
                return
            try:
                self._by_kind[kind](Body(data))
            except ClientGoneError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: the client gets the error, the log gets defects
                self._fail(error)
                self._skips = True

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        self.link.send(data)

    def tell(self, fields: Mapping[str, str]) -> None:
        """Send a notice."""
        self.send(response(fields, notice=True))

    @contextmanager
    def blaming(self, sql: str, before: int = 0) -> Iterator[None]:
        """Let the errors of the block tell places in `sql`, which begins `before` characters later than the last text.

        An inner block comes before an outer one. An empty `sql` is one whose places the client cannot see.
        """
        outer, self._before = self._before, self._before + before
        try:
            yield
        except Exception as error:
            if self._blamed is None or self._blamed[0] is not error:
                self._blamed = (error, sql, self._before)
            raise
        finally:
            self._before = outer

    def _fail(self, error: BaseException) -> None:
        """Send an error; the transaction fails with it."""
        blamed, self._blamed = self._blamed, None
        sql, before = blamed[1:] if blamed is not None and blamed[0] is error else ("", 0)
        self.core.refusals.note(error)
        if isinstance(error, StatementTimeoutError) and self.settings.timeout != "0":
            hint = f"statement_timeout is {self.settings.timeout}: SET statement_timeout to more, or to 0"
            error = WireError("57014", "canceling statement due to statement timeout", hint=hint)
        if isinstance(error, WireError) and error.fatal:
            raise error
        if not self.transaction.is_open and self.engine.changes > self._changes_at_sync:
            self.tell(notice("the statements before the failed one have taken effect: each takes effect by itself"))
        self.transaction.fail()
        self.send(response(fields_of(error, sql, before)))

    def _report(self) -> None:
        """Tell the parameters that changed, by whatever statement or function."""
        for name, value in self.settings.untold():
            self.send(parameter_status(name, value))

    def _sync(self) -> None:
        self._skips = False
        self._changes_at_sync = self.engine.changes
        if not self.transaction.is_open:
            self.names.close_portals()
        self._report()
        self.send(ready(self.transaction.state))

    def _flush(self, body: Body) -> None:
        body.end()
        self.link.flush()

    def _function(self, _body: Body) -> None:
        raise WireError("0A000", "function calls by message are not supported: send SELECT function(…)")

    # --- simple queries

    def _query(self, body: Body) -> None:
        self.call.renew()
        try:
            text = body.text()
            body.end()
            self.names.statements.pop("", None)
            self.names.close_portal("")
            found = list(splitting.pieces(text)) if text.strip() else []
            if not found:
                self.send(EMPTY)
            for piece in found:
                sql = text[piece.first : piece.end]
                with self.blaming(sql, piece.first):
                    self._simple(sql)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: the client gets the error, the log gets defects
            self._fail(error)
        self._sync()

    def _warn(self, result: Result) -> None:
        for text in result.warnings():
            self.tell(notice(text))

    def _simple(self, sql: str) -> None:
        portal = Portal(Prepared(sql))
        try:
            result = self._started(portal)
            if result.schema is not None:
                columns = [column_of(field) for field in result.schema]
                self.send(row_description(columns, [0] * len(columns)))
                self._send_rows(portal, result)
            self._warn(result)
            self.send(complete(result.final_tag))
        finally:
            portal.close()

    def _started(self, portal: Portal) -> Result:
        """Return a portal's result; run a change, or plan a query, unless it was started before."""
        if portal.result is not None:
            self.engine.check_rights(portal)
            return portal.result
        prepared = portal.prepared
        rights = self.engine.rights
        tokens = tokenize(prepared.text)
        self.transaction.check(tokens)
        result = self._commands.run(tokens, prepared.text, portal)
        if result is None:
            self.transaction.has_run = True
            result = self.engine.start(prepared.text, portal.values, prepared.description)
        portal.result, portal.rights = result, rights
        if portal.promised is None:
            portal.promised = result.schema
        elif result.schema is not None:
            check_promise(result.schema, portal.promised)
        return result

    def _send_rows(self, portal: Portal, result: Result, most: int = 0) -> None:
        """Send rows of a result; a slow client makes this wait."""
        schema = portal.promised if portal.promised is not None else result.schema
        if schema is None:
            return
        codes = portal.formats(len(schema))
        with self.stopping(result):
            for batch in result.read(most):
                for piece in pieces(as_promised(batch, schema)):
                    if self.call.is_cancelled():
                        raise CancelledError("the client cancelled the statement")
                    self.send(data_rows(piece, codes, self.settings.interval_style))

    @contextmanager
    def stopping(self, result: Result) -> Iterator[None]:
        """Let the block end if a query is stopped while a slow client makes it wait."""
        self._is_stopped = result.is_stopped
        try:
            yield
        finally:
            self._is_stopped = lambda: False

    def table_of(self, sql: str, values: pa.Table | None) -> pa.Table:
        """Return the rows of a query in memory."""
        result = self.engine.start(sql, values)
        if result.schema is None:
            raise WireError("42601", "a query was expected")
        try:
            return pa.Table.from_batches(list(result.read()), result.schema)
        finally:
            result.close()

    # --- extended queries

    def _parse(self, body: Body) -> None:
        name, text = body.text(), body.text()
        oids = tuple(body.int32() & 0xFFFF_FFFF for _ in range(body.count()))
        body.end()
        found = list(splitting.pieces(text))
        if len(found) > 1:
            raise WireError("42601", "cannot insert multiple commands into a prepared statement")
        before = found[0].first if found else 0
        sql = text[before : found[0].end] if found else ""
        if sql:
            self.transaction.check(tokenize(sql))
        self.names.add_statement(name, Prepared(sql, oids, before=before))
        self.send(PARSED)

    def _bind(self, body: Body) -> None:
        name, statement = body.text(), body.text()
        formats = [body.count() for _ in range(body.count())]
        values = [body.value() for _ in range(body.count())]
        codes = tuple(body.count() for _ in range(body.count()))
        body.end()
        if any(code not in (0, 1) for code in (*formats, *codes)):
            raise WireError("22023", "unsupported format code: only 0 (text) and 1 (binary) exist")
        if len(formats) not in (0, 1, len(values)):
            raise malformed(f"bind message has {len(formats)} parameter formats but {len(values)} parameters")
        prepared = self.names.statement(statement)
        if prepared.text:
            self.transaction.check(tokenize(prepared.text))
        each = list(formats or (0,)) * len(values) if len(formats) <= 1 else formats
        with self.blaming(*prepared.place):
            table = self._values(prepared, values, each)
        size = sum(len(value) for value in values if value is not None)
        promised = None if prepared.description is None else prepared.description.schema
        portal = Portal(prepared, table, codes, size=size, promised=promised or None)
        self.names.add_portal(name, portal)
        self.send(BOUND)

    def _values(self, prepared: Prepared, values: list[bytes | None], formats: list[int]) -> pa.Table | None:
        """Return the bound values as a row of a table; without values there is no table."""
        oids = [*prepared.oids, *[0] * (len(values) - len(prepared.oids))]
        if prepared.oids and len(values) != len(prepared.oids) and len(values) < len(prepared.oids):
            raise malformed(f"bind message supplies {len(values)} parameters, but {len(prepared.oids)} are declared")
        if not values:
            return None
        untyped = any(not arrow_of(oid) and value is not None for oid, value in zip(oids, values, strict=False))
        kinds: list[Any] = [None] * len(values)
        if untyped and has_late_id(ParsedText(prepared.text)):  # nothing is known of the statement without its values
            kinds = [pa.field(str(index), pa.string()) for index in range(len(values))]
        elif untyped:
            wanted = self.described(prepared).parameters
            if len(wanted) != len(values):
                raise malformed(
                    f"bind message supplies {len(values)} parameters, but prepared statement requires {len(wanted)}"
                )
            kinds = list(wanted)
        columns = []
        for value, oid, code, wanted_field in zip(values, oids, formats, kinds, strict=False):
            known = arrow_of(oid) is not None or wanted_field is None
            wire, kind = (oid, None) if known else (oid_of_field(wanted_field), wanted_field.type)
            columns.append(pa.nulls(1) if value is None else value_of(value, wire, binary=bool(code), kind=kind))
        return pa.table(columns, names=[str(index) for index in range(len(columns))])

    def described(self, prepared: Prepared) -> Description:
        """Return the description of a statement, planned once."""
        if prepared.description is None:
            tokens = tokenize(prepared.text)
            kinds = [arrow_of(oid) for oid in prepared.oids]
            if tokens and tokens[0].is_word("declare", "copy", "execute"):
                return Description(pa.schema([]), is_update=True, parameters=_declared(kinds))
            found = self.engine.describe(prepared.text, kinds)
            prepared.description = replace(found, parameters=with_uuids(found.parameters, tokens))
        return prepared.description

    def columns_of(self, portal: Portal) -> pa.Schema | None:
        """Return the columns of a portal, or None if it has no columns; a query is planned with its values."""
        prepared = portal.prepared
        if portal.result is None and prepared.text:
            tokens = tokenize(prepared.text)
            is_own, schema = self._commands.columns(tokens)
            if is_own:
                return schema
            if self.engine.is_update(prepared.text):
                returned = self.described(prepared).schema
                portal.promised = returned if len(returned) else None
                return portal.promised
            self._started(portal)
        return portal.promised

    def _describe(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        body.end()
        self.call.renew()
        if kind == b"P":
            portal = self.names.portal(name)
            self.transaction.check(tokenize(portal.prepared.text))
            with self.blaming(*portal.prepared.place):
                columns = self.columns_of(portal)
            portal.prepared.told = columns
            self._send_columns(columns, portal)
            return
        if kind != b"S":
            raise malformed("it describes neither a statement nor a portal")
        prepared = self.names.statement(name)
        tokens = tokenize(prepared.text)
        self.transaction.check(tokens)
        is_own, schema = (True, None) if not tokens else self._commands.columns(tokens)
        oids = list(prepared.oids)
        if not is_own:
            with self.blaming(*prepared.place):
                found = self.described(prepared)
            schema = found.schema if len(found.schema) or not found.is_update else None
            declared = [*prepared.oids, *[0] * len(found.parameters)]
            oids = [oid or oid_of_field(field) for oid, field in zip(declared, found.parameters, strict=False)]
        self.send(parameter_description(oids))
        self._send_columns(schema, Portal(prepared))

    def _send_columns(self, schema: pa.Schema | None, portal: Portal) -> None:
        if schema is None:
            self.send(NO_DATA)
        else:
            self.send(row_description([column_of(field) for field in schema], portal.formats(len(schema))))

    def _execute(self, body: Body) -> None:
        name, most = body.text(), body.int32()
        body.end()
        self.call.renew()
        portal = self.names.portal(name)
        if not portal.prepared.text:
            self.send(EMPTY)
            return
        if portal.is_over:
            self._execute_again(name, portal)
            return
        self.transaction.check(tokenize(portal.prepared.text))
        before = 0 if portal.result is None else portal.result.rows
        if portal.result is None and portal.promised is None:
            portal.promised = portal.prepared.told
        with self.blaming(*portal.prepared.place):
            result = self._started(portal)
        self._send_rows(portal, result, max(most, 0))
        if result.schema is not None and most > 0 and not result.is_over:
            self.send(SUSPENDED)
            return
        portal.is_over = True
        result.close()
        self._warn(result)
        self.send(complete(result.tag(result.affected if result.schema is None else result.rows - before)))

    def _execute_again(self, name: str, portal: Portal) -> None:
        """Answer for a portal that has run to its end: no further rows."""
        if portal.result is None or portal.result.schema is None:
            raise WireError("55000", f'portal "{name}" cannot be run anymore')
        self.send(complete(portal.result.tag(0)))

    def _close(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        body.end()
        if kind == b"S":
            self.names.statements.pop(name, None)
        elif kind == b"P":
            self.names.close_portal(name)
        else:
            raise malformed("it closes neither a statement nor a portal")
        self.send(CLOSED)

    # --- settings

    def set_timeout(self, value: str) -> None:
        """Limit the time of each further statement; 0 means no limit.

        Raises:
            WireError: the value is not a time.
        """
        millis = 0 if value.lower() == "default" else millis_of(value)
        session = self.call.session(self.core)
        if millis:
            session.set_option("timeout", f"{millis / 1000:.10g}")
        else:
            session.reset_option("timeout")
        self.settings.timeout = time_text(millis)


def _unknown(name: str) -> WireError:
    return WireError("42704", f'unrecognized configuration parameter "{name}"')


def _declared(kinds: list[pa.DataType | None]) -> pa.Schema:
    return pa.schema([pa.field(str(index), kind or pa.string()) for index, kind in enumerate(kinds)])
