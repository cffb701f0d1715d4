"""Statements that this protocol answers itself: parameters, transactions, prepared statements, cursors and COPY."""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from flightllm.errors import UnsupportedError
from flightllm.pg_catalog.types import type_oid
from flightllm.postgres import copying
from flightllm.postgres.failures import WireError, notice
from flightllm.postgres.local_settings import SEARCH_PATH, key_of
from flightllm.postgres.messages import FAILED
from flightllm.postgres.modes import LEVEL, LEVELS, Modes, read_modes, read_switch, set_modes
from flightllm.postgres.prepared import Portal, Prepared
from flightllm.postgres.results import Result, done, texts_result
from flightllm.postgres.talk import Talk
from flightllm.postgres.transaction import is_transaction
from flightllm.postgres.types import UNKNOWN, arrow_of
from flightllm.sql.cursor import Cursor
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis, tokenize

_ALL = 1 << 62
Words = Sequence[Token]


class Commands:
    """Runs such statements for one conversation. Each method returns None for a statement that the engine runs."""

    def __init__(self, conversation: Talk) -> None:
        self._talk = conversation
        self._by_word: Mapping[str, Callable[[Words, str, Portal], Result | None]] = {
            "set": self._set,
            "show": self._show,
            "reset": self._reset,
            "discard": self._discard,
            "deallocate": self._deallocate,
            "prepare": self._prepare,
            "execute": self._execute,
            "declare": self._declare,
            "fetch": self._fetch,
            "move": self._fetch,
            "close": self._close,
            "copy": self._copy,
            "listen": self._listen,
            "notify": self._listen,
            "unlisten": lambda _tokens, _text, _portal: done("UNLISTEN"),
            "lock": self._lock,
            "analyze": self._maintain,
            "vacuum": self._maintain,
        }

    def run(self, tokens: Words, text: str, portal: Portal) -> Result | None:
        """Run a statement, or return None if it is not one of these.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        if is_transaction(tokens):
            return self._transaction(tokens, text)
        if _word(tokens) == "use":
            self._talk.settings.local.drop(SEARCH_PATH)
        found = self._by_word.get(_word(tokens))
        return None if found is None else found(tokens, text, portal)

    def columns(self, tokens: Words) -> tuple[bool, pa.Schema | None]:
        """Return whether a statement is one of these, and the columns of its result, without running it."""
        word = _word(tokens)
        if word in ("fetch", "move"):
            name = _fetched(tokens)[1]
            return True, None if word == "move" else self._talk.columns_of(self._talk.names.portal(name, "cursor"))
        if word == "execute" and len(tokens) > 1:
            return True, self._talk.described(self._talk.names.statement(_name(tokens[1]))).schema or None
        if word == "show" and (shown := self._shown(tokens)) is not None:
            return True, shown.schema
        if word == "set" and not self._is_own_setting(tokens):
            return False, None
        return (word in self._by_word and word != "show") or is_transaction(tokens), None

    # --- transactions

    def _transaction(self, tokens: Words, text: str) -> Result:
        talk, state, word = self._talk, self._talk.transaction, tokens[0].text.lower()
        if word in ("begin", "start"):
            if state.is_open:
                talk.tell(notice("there is already a transaction in progress", "25001"))
                return done("BEGIN" if word == "begin" else "START TRANSACTION")
            modes = read_modes(tokens[2 if len(tokens) > 1 and tokens[1].is_word("work", "transaction") else 1 :])
            talk.engine.start("BEGIN")
            state.begin(talk.kept_settings())
            talk.settings.transaction_read_only = talk.settings.is_read_only
            self._take_modes(modes)
            talk.engine.changes_at_begin = talk.engine.changes
            return done("BEGIN" if word == "begin" else "START TRANSACTION")
        if word == "savepoint":
            state.save(_last_name(tokens), talk.engine.changes, talk.kept_settings())
            return done("SAVEPOINT")
        if word == "release":
            state.release(_last_name(tokens))
            return done("RELEASE")
        if any(token.is_word("to") for token in tokens[1:4]):
            state.roll_back_to(_last_name(tokens), talk.engine.changes)
            return done("ROLLBACK")
        failed, was_open = state.state == FAILED, state.is_open
        if not was_open:
            talk.tell(notice("there is no transaction in progress", "25P01"))
        state.end(undone=failed or word in ("rollback", "abort"))
        talk.settings.local.end()
        talk.settings.transaction_read_only = None
        talk.names.close_portals()
        result = talk.engine.start(text)
        if failed and result.final_tag == "COMMIT":
            if talk.engine.changes > talk.engine.changes_at_begin:
                talk.tell(notice("the changes before the failed statement have taken effect, as every statement does"))
            return done("ROLLBACK")
        return done(result.final_tag)

    def _take_modes(self, modes: Modes) -> None:
        """Take the modes of the open transaction."""
        settings = self._talk.settings
        if modes.read_only is not None:
            if settings.is_read_only and not modes.read_only and self._talk.transaction.has_run:
                raise WireError("25001", "transaction read-write mode must be set before any query")
            settings.transaction_read_only = modes.read_only
        self._tell_level(modes.level)

    def _tell_level(self, level: str) -> None:
        if level not in (*LEVELS[:2], "default"):
            self._talk.tell(notice(f"the isolation level is {LEVEL} here, instead of {level}", "01000"))

    def _set_transaction(self, for_all: bool, words: Words) -> Result:  # noqa: FBT001 - as `set_modes` returns it
        modes, talk = read_modes(words), self._talk
        if for_all:
            if modes.read_only is not None:
                talk.settings.set("default_transaction_read_only", "on" if modes.read_only else "off")
            self._tell_level(modes.level)
        elif talk.transaction.is_open:
            self._take_modes(modes)
        else:
            talk.tell(notice("SET TRANSACTION can only be used in transaction blocks", "25P01"))
        return done("SET")

    # --- parameters

    def _is_own_setting(self, tokens: Words) -> bool:
        if set_modes(tokens) is not None:
            return True
        name, _ = _setting(tokens)
        return self._talk.settings.show(name) is not None

    def _set(self, tokens: Words, text: str, _portal: Portal) -> Result | None:
        if (found := set_modes(tokens)) is not None:
            return self._set_transaction(*found)
        if len(tokens) > 1 and tokens[1].is_word("local"):
            if not self._talk.transaction.is_open:
                self._talk.tell(notice("SET LOCAL can only be used in transaction blocks", "25P01"))
                return done("SET")
            text = text[: tokens[1].start] + text[tokens[1].end :]
            tokens = tokenize(text)
            name, local = _changed(tokens), self._talk.settings.local
            put_back = local.standing(name) or self._talk.kept_setting(name)
            result = self._set_one(tokens, text)
            local.add(name, put_back)
            return result
        return self._set_one(tokens, text)

    def _set_one(self, tokens: Words, text: str) -> Result | None:
        name, value = _setting(tokens)
        self._talk.settings.local.drop(_changed(tokens))
        if name == "transaction_read_only":
            modes = tokenize("READ ONLY" if read_switch(name, value) else "READ WRITE")
            return self._set_transaction(False, modes)  # noqa: FBT003 - as `set_modes` returns it
        if name in ("transaction_isolation", "default_transaction_isolation"):
            self._tell_level(value.lower())
        if value.lower() == "default" and self._talk.restore(name):
            return done("SET")
        if name == "statement_timeout":
            self._talk.set_timeout(value)
            return done("SET")
        if not self._talk.settings.set(name, value):
            result = self._talk.engine.start(text)
            return done(result.final_tag)
        return done("SET")

    def _show(self, tokens: Words, _text: str, _portal: Portal) -> Result | None:
        return self._shown(tokens)

    def _shown(self, tokens: Words) -> Result | None:
        words = " ".join(token.text.lower() for token in tokens[1:])
        name = {"time zone": "timezone", "transaction isolation level": "transaction_isolation"}.get(words, words)
        name = "session_authorization" if name == "session authorization" else name
        settings = self._talk.settings
        if name == "all":
            found = list(settings.all())
            columns = [("name", [one for one, _ in found]), ("setting", [one for _, one in found])]
            return texts_result([*columns, ("description", [""] * len(found))], "SHOW")
        value = settings.show(name)
        return None if value is None else texts_result([(name, [value])], "SHOW")

    def _reset(self, tokens: Words, text: str, _portal: Portal) -> Result | None:
        self._talk.settings.local.drop(_changed(tokens))
        words = " ".join(token.text.lower() for token in tokens[1:]).replace(" . ", ".")
        if words == "all":
            self._talk.reset_all()
            return done("RESET")
        if self._talk.restore(words):
            return done("RESET")
        if words == "statement_timeout":
            self._talk.set_timeout("0")
            return done("RESET")
        if not self._talk.settings.reset(words):
            self._talk.engine.start(text)
        return done("RESET")

    def _discard(self, tokens: Words, _text: str, _portal: Portal) -> Result:
        what = tokens[1].text.lower() if len(tokens) == 2 else ""
        if what == "all":
            if self._talk.transaction.is_open:
                raise WireError("25001", "DISCARD ALL cannot run inside a transaction block")
            self._talk.start_again()
        elif what == "plans":
            for prepared in self._talk.names.statements.values():
                prepared.description = None
        elif what in ("temp", "temporary"):
            raise UnsupportedError("DISCARD TEMP is not supported: write DISCARD ALL, or drop the tables")
        elif what != "sequences":
            raise WireError("42601", "write DISCARD ALL, DISCARD PLANS or DISCARD SEQUENCES")
        return done(f"DISCARD {what.upper()}")

    # --- prepared statements

    def _prepare(self, tokens: Words, text: str, _portal: Portal) -> Result:
        if len(tokens) < 4:
            raise WireError("42601", "write PREPARE name [(type, …)] AS statement")
        name, at, oids = _name(tokens[1]), 2, list[int]()
        if tokens[2].is_symbol("("):
            end = closing_parenthesis(tokens, 2)
            oids = [_oid(word) for word in _items(tokens[3:end])]
            at = end + 1
        if at + 1 >= len(tokens) or not tokens[at].is_word("as"):
            raise WireError("42601", "write PREPARE name [(type, …)] AS statement")
        before = tokens[at + 1].start
        prepared = Prepared(text[before:], tuple(oids), from_sql=True)
        with self._talk.blaming(prepared.text, before):
            self._talk.described(prepared)
        self._talk.names.add_statement(name, prepared)
        return done("PREPARE")

    def _execute(self, tokens: Words, text: str, portal: Portal) -> Result:
        if len(tokens) < 2:
            raise WireError("42601", "write EXECUTE name [(value, …)]")
        prepared = self._talk.names.statement(_name(tokens[1]))
        values = None
        if len(tokens) > 2:
            if not tokens[2].is_symbol("(") or closing_parenthesis(tokens, 2) != len(tokens) - 1:
                raise WireError("42601", "write EXECUTE name [(value, …)]")
            given = text[tokens[2].end : tokens[-1].start]
            values = self._talk.table_of(f"SELECT {given}", portal.values)
            values = values.rename_columns([str(index) for index in range(values.num_columns)])
            kinds = [field.type for field in self._talk.described(prepared).parameters]
            if len(kinds) != values.num_columns:
                raise WireError(
                    "42601", f"wrong number of parameters: expected {len(kinds)} but got {values.num_columns}"
                )
            values = _cast(values, kinds)
        description = self._talk.described(prepared)
        if portal.promised is None and len(description.schema):
            portal.promised = description.schema
        with self._talk.blaming(""):
            return self._talk.engine.start(prepared.text, values, description)

    def _deallocate(self, tokens: Words, _text: str, _portal: Portal) -> Result:
        names = [token for token in tokens[1:] if not token.is_word("prepare")]
        if len(names) != 1:
            raise WireError("42601", "write DEALLOCATE name, or DEALLOCATE ALL")
        if names[0].is_word("all"):
            self._talk.names.statements.clear()
            return done("DEALLOCATE ALL")
        self._talk.names.statement(_name(names[0]))
        del self._talk.names.statements[_name(names[0])]
        return done("DEALLOCATE")

    # --- cursors

    def _declare(self, tokens: Words, text: str, portal: Portal) -> Result:
        at = next((index for index, token in enumerate(tokens) if token.is_word("for")), len(tokens))
        words = [token.text.lower() for token in tokens[2:at]]
        if at + 1 >= len(tokens) or "cursor" not in words:
            raise WireError("42601", "write DECLARE name CURSOR FOR query")
        if "scroll" in words and "no" not in words:
            raise UnsupportedError("a SCROLL cursor is not supported: write NO SCROLL, and fetch forward")
        hold = "hold" in words and "without" not in words
        if not hold and not self._talk.transaction.is_open:
            raise WireError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
        before = tokens[at + 1].start
        query = text[before:]
        if self._talk.engine.is_update(query):
            raise WireError("42601", "a cursor reads a query, not a change")
        cursor = Portal(Prepared(query), portal.values, (1,) if "binary" in words else (), hold=hold, is_cursor=True)
        name = _name(tokens[1])
        self._talk.names.add_portal(name, cursor)
        try:
            with self._talk.blaming(query, before):
                self._talk.columns_of(cursor)
        except BaseException:
            self._talk.names.close_portal(name)
            raise
        return done("DECLARE CURSOR")

    def _fetch(self, tokens: Words, _text: str, _portal: Portal) -> Result:
        count, name = _fetched(tokens)
        cursor = self._talk.names.portal(name, "cursor")
        schema = self._talk.columns_of(cursor)
        result = cursor.result
        if result is None or schema is None:
            raise WireError("24000", f'cursor "{name}" has no rows')
        self._talk.engine.check_rights(cursor)
        if tokens[0].is_word("move"):
            moved = sum(batch.num_rows for batch in result.read(count)) if count else 0
            return done(f"MOVE {moved}")
        return Result(
            schema,
            result.read(count) if count else iter(()),
            lambda rows: f"FETCH {rows}",
            is_stopped=result.is_stopped,
        )

    def _close(self, tokens: Words, _text: str, _portal: Portal) -> Result:
        if len(tokens) == 2 and tokens[1].is_word("all"):
            for name in [name for name, one in self._talk.names.portals.items() if one.is_cursor]:
                self._talk.names.close_portal(name)
            return done("CLOSE CURSOR ALL")
        if len(tokens) != 2:
            raise WireError("42601", "write CLOSE name")
        self._talk.names.portal(_name(tokens[1]), "cursor")
        self._talk.names.close_portal(_name(tokens[1]))
        return done("CLOSE CURSOR")

    # --- others

    def _copy(self, tokens: Words, text: str, portal: Portal) -> Result:
        return copying.copy(self._talk, tokens, text, portal.values)

    def _listen(self, tokens: Words, _text: str, _portal: Portal) -> Result:
        raise UnsupportedError(f"{tokens[0].text.upper()} is not supported: the server sends no notifications")

    def _maintain(self, tokens: Words, text: str, _portal: Portal) -> Result:
        """Accept ANALYZE and VACUUM: the server keeps its statistics and files in order by itself."""
        at = 1
        while at < len(tokens) and tokens[at].is_word("verbose", "full", "freeze", "analyze"):
            at += 1
        if at < len(tokens) and tokens[at].is_symbol("("):
            at = closing_parenthesis(tokens, at) + 1
        while at < len(tokens) and not tokens[at].is_symbol(";"):
            first = at
            while at < len(tokens) and not any(tokens[at].is_symbol(symbol) for symbol in "(,;"):
                at += 1
            table, columns = text[tokens[first].start : tokens[at - 1].end], "*"
            if at < len(tokens) and tokens[at].is_symbol("("):
                end = closing_parenthesis(tokens, at) + 1
                columns, at = text[tokens[at].end : tokens[end - 1].start], end
            self._talk.engine.describe(f"SELECT {columns} FROM {table}")  # refuses what is not there
            at += at < len(tokens) and tokens[at].is_symbol(",")
        return done(tokens[0].text.upper())

    def _lock(self, _tokens: Words, _text: str, _portal: Portal) -> Result:
        raise UnsupportedError("LOCK is not supported: every statement reads committed rows and takes effect by itself")


def _word(tokens: Words) -> str:
    return tokens[0].text.lower() if tokens and tokens[0].kind is TokenKind.WORD else ""


def _name(token: Token) -> str:
    if token.kind is TokenKind.QUOTED:
        return token.text
    if token.kind is not TokenKind.WORD:
        raise WireError("42601", f"a name was expected, found {token.text[:40]!r}")
    return token.text.lower()


def _last_name(tokens: Words) -> str:
    return _name(tokens[-1])


def _setting(tokens: Words) -> tuple[str, str]:
    """Return the name and the value of SET; the value is empty for forms that only the engine reads."""
    cursor = Cursor(tokens, 1)
    _ = cursor.take("session") or cursor.take("local")
    if cursor.take("time", "zone"):
        return "time zone", ""
    token = cursor.next()
    if token is None:
        return "", ""
    if not (cursor.symbol("=") or cursor.take("to")):
        return "", ""
    return token.text.lower(), ", ".join(one.text for one in tokens[cursor.at :] if not one.is_symbol(","))


def _changed(tokens: Words) -> str:
    """Return the name under which the value is kept that SET or RESET changes."""
    cursor = Cursor(tokens, 1)
    _ = cursor.take("session") or cursor.take("local")
    rest = tokens[cursor.at :]
    end = next((at for at, one in enumerate(rest) if one.is_symbol("=") or one.is_word("to")), len(rest))
    return key_of("".join(one.text for one in rest[:end]))


def _fetched(tokens: Words) -> tuple[int, str]:
    """Return the number of rows that FETCH or MOVE asks for, which can be 0, and the cursor's name.

    Raises:
        WireError: the cursor would move back.
    """
    words = [token for token in tokens[1:-1] if not token.is_word("from", "in", "forward")]
    text = "".join(token.text.lower() for token in words)
    if len(tokens) < 2:
        raise WireError("42601", "write FETCH [count] FROM cursor")
    name = _name(tokens[-1])
    if text == "all":
        return _ALL, name
    if text in ("", "next"):
        return 1, name
    if not text.removeprefix("+").isdecimal():
        raise WireError(
            "55000", "cursor can only scan forward", hint="write FETCH FORWARD count, FETCH NEXT or FETCH ALL"
        )
    return min(int(text), _ALL), name


def _items(tokens: Words) -> list[str]:
    """Return the texts between commas."""
    items, depth = [""], 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if token.is_symbol(",") and not depth:
            items.append("")
        else:
            items[-1] += f" {token.text.lower()}"
    return [item.strip() for item in items]


def _oid(name: str) -> int:
    """Return the oid of a parameter's declared type, and 0 for `unknown`."""
    found = type_oid(name)
    if found == UNKNOWN:
        return 0
    if found is None or arrow_of(found) is None:
        raise WireError("42704", f'type "{name}" does not exist')
    return found


def _cast(values: pa.Table, kinds: Sequence[pa.DataType]) -> pa.Table:
    """Return values in the types of a statement's parameters where they can be cast."""
    columns = []
    for column, kind in zip(values.columns, kinds, strict=True):
        try:
            columns.append(column.cast(kind))
        except pa.ArrowException:
            columns.append(column)
    return pa.table(columns, names=values.column_names)
