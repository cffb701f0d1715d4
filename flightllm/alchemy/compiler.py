"""SQL of SQLAlchemy's statements and types. The base is SQL of PostgreSQL."""

from typing import Any

from sqlalchemy import cast, types
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGDDLCompiler, PGIdentifierPreparer, PGTypeCompiler
from sqlalchemy.exc import CompileError
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.sql.elements import BinaryExpression, BindParameter
from sqlalchemy.util import warn

NO_INDEX = "-- the server needs no index over columns"
"""The text of CREATE INDEX and DROP INDEX, which the dialect does not send."""

_WORDS = frozenset(
    ("cluster", "cube", "distribute", "exclude", "exists", "index", "interval", "key", "lateral", "minus")
)
_WORDS |= frozenset(("qualify", "rollup", "sort", "struct", "tablesample", "top", "values"))
"""Names that fail without quotes somewhere, though PostgreSQL takes them."""
_SINGLE_BITS = 24
"""Most bits of a number that a REAL keeps."""


class FlightLLMCompiler(PGCompiler):
    """Writes statements."""

    def visit_insert(self, insert_stmt: Any, *args: Any, **kw: Any) -> str:
        """Return an INSERT.

        Raises:
            CompileError: a primary key has no value, and no default makes one.
        """
        key = insert_stmt.table._autoincrement_column  # noqa: SLF001 -- SQLAlchemy's own compilers ask it
        is_made = key is None or key.default is not None or key.server_default is not None
        given = None if is_made else self._given(insert_stmt, **kw)
        if given is not None and key.key not in given:
            raise CompileError(
                f"the server numbers no keys: give {key.table.name}.{key.name} a value, or make it with a default of"
                " Python, such as mapped_column(default=uuid.uuid4)"
            )
        return str(super().visit_insert(insert_stmt, *args, **kw))

    def _given(self, insert: Any, **kw: Any) -> set[str] | None:
        """Return the columns that get values, by their keys; None if nothing says which."""
        # SQLAlchemy's own compiler calls this: it reads rows that are tuples, dicts or a SELECT.
        named = insert._compile_state_factory(insert, self, **kw)._dict_parameters  # noqa: SLF001
        if named is None and self.column_keys is None:
            return None
        return {getattr(column, "key", column) for column in named or ()} | set(self.column_keys or ())

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """Return nothing: the server has no locks of rows."""
        del select, kw
        return ""

    def visit_truediv_binary(self, binary: BinaryExpression, operator: Any, **kw: Any) -> str:
        """Return a quotient; that of two whole numbers is a double."""
        del operator
        left, right = (self.process(side, **kw) for side in (binary.left, binary.right))
        is_whole = binary.right.type._type_affinity is types.Integer  # noqa: SLF001 -- SQLAlchemy's own compilers ask it
        return f"{left} / CAST({right} AS DOUBLE PRECISION)" if is_whole else f"{left} / {right}"

    def visit_json_getitem_op_binary(self, binary: BinaryExpression, operator: Any, **kw: Any) -> str:
        """Return `j['a']` as a call of a function, because the server reads no parameters after `->`."""
        del operator
        return self._json(binary, kw)

    def visit_json_path_getitem_op_binary(self, binary: BinaryExpression, operator: Any, **kw: Any) -> str:
        """Return `j[('a', 'b', 0)]` as a call of a function."""
        del operator
        return self._json(binary, kw)

    def _json(self, binary: BinaryExpression, kw: dict[str, Any]) -> str:
        as_text = kw.pop("_as_text", False)
        kind = binary.type
        if not as_text and not isinstance(kind, types.JSON | types.NullType):
            if isinstance(kind, types.String):
                return self._json(binary, kw | {"_as_text": True})
            return str(self.process(cast(binary, kind), **kw, _as_text=True))
        right = binary.right
        steps = kw | {"literal_execute": True} if isinstance(right, BindParameter) else kw
        function = "json_as_text" if as_text else "json_get_json"
        return f"{function}({self.process(binary.left, **kw)}, {self.process(right, **steps)})"


class FlightLLMDDLCompiler(PGDDLCompiler):
    """Writes CREATE and DROP."""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        """Return a column with its type, default and NOT NULL. No column is numbered."""
        return str(DDLCompiler.get_column_specification(self, column, **kw))

    def visit_create_index(self, create: Any, **_: Any) -> str:
        """Return a comment, and warn: the server has no index over columns, and needs no such index."""
        index = create.element
        advice = "; it does not check that the values differ" if index.unique else ""
        warn(f"the server needs no index over columns, so {index.name!r} is not made{advice}")
        return NO_INDEX

    def visit_drop_index(self, drop: Any, **_: Any) -> str:
        """Return a comment: no index over columns was made."""
        del drop
        return NO_INDEX

    def visit_computed_column(self, generated: Any, **_: Any) -> str:
        """Refuse computed columns.

        Raises:
            CompileError: always.
        """
        raise CompileError(f"the server has no computed columns: make a view with {generated.sqltext}")


class FlightLLMTypeCompiler(PGTypeCompiler):
    """Writes types."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- SQLAlchemy's name
        """Return REAL for up to 24 bits: FLOAT(53) would be one too."""
        del kw
        return "REAL" if type_.precision is not None and type_.precision <= _SINGLE_BITS else "DOUBLE PRECISION"

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- see above
        """Return a timestamp of microseconds, as Python's: nanoseconds end in the year 2262."""
        del kw
        precision = getattr(type_, "precision", None)
        zone = " WITH TIME ZONE" if type_.timezone else ""
        return f"TIMESTAMP({6 if precision is None else precision}){zone}"

    def visit_TIME(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- see above
        """Return a time without a zone: the server has no other."""
        del type_, kw
        return "TIME"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- see above
        """Return an interval, which has no fields and no precision."""
        del type_, kw
        return "INTERVAL"

    def visit_STRUCT(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- see above
        """Return a struct with its fields."""
        quote = self.dialect.identifier_preparer.quote
        return f"STRUCT<{', '.join(f'{quote(name)} {self.process(kind, **kw)}' for name, kind in type_.fields)}>"

    def visit_MAP(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- see above
        """Return a map."""
        return f"MAP<{self.process(type_.key, **kw)}, {self.process(type_.value, **kw)}>"

    def visit_UNSIGNED(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- see above
        """Return the type of unsigned numbers."""
        del type_, kw
        return "BIGINT UNSIGNED"

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        """Return UUID, which the server keeps as text."""
        del type_, kw
        return "UUID"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:  # noqa: N802 -- see above
        """Return a list's type."""
        return str(self.process(type_.item_type, **kw)) + "[]" * (type_.dimensions or 1)


class FlightLLMIdentifierPreparer(PGIdentifierPreparer):
    """Quotes names: PostgreSQL's words, and those that the server reads in its own way."""

    reserved_words = PGIdentifierPreparer.reserved_words | _WORDS
