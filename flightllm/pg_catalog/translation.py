"""Write a statement about the catalog for the engine: PostgreSQL's names, casts and operators become the engine's."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Final

import structlog
from sqlglot import exp

from flightllm.errors import FlightLLMError, InternalError, SqlError, UnsupportedError
from flightllm.pg_catalog.columns import VECTORS, columns_of_kind
from flightllm.pg_catalog.data import Relation, relations
from flightllm.pg_catalog.functions import ENGINE_TYPES, Function, name_parts
from flightllm.pg_catalog.growing import GROWING, HELPERS
from flightllm.pg_catalog.parsing import cast_name, names_common, relation_of
from flightllm.pg_catalog.views import local_name

_log = structlog.get_logger(__name__)
_CATALOGS: Final = frozenset(("pg_catalog", "information_schema"))
_SAME: Final = frozenset(
    (
        *("count", "sum", "min", "max", "avg", "bool_and", "bool_or", "array_agg", "coalesce", "nullif", "greatest"),
        *("least", "lower", "upper", "length", "split_part", "substr", "left"),
        *("right", "strpos", "translate", "starts_with", "chr", "ascii", "reverse", "md5"),
        *("abs", "ceil", "ceiling", "floor", "round", "mod", "sign", "now", "row_number", "rank", "dense_rank", "lag"),
        *("lead", "first_value", "last_value", "ltrim", "rtrim", "trim", "unnest", "row", "array", "date_trunc"),
        *("generate_series", "date_part", "substring", "exists", "char_length"),
    )
)
"""Functions that mean the same in the engine."""
_RENAMED: Final[Mapping[str, str]] = {
    "every": "bool_and",
    "btrim": "trim",
    "character_length": "length",
    "octet_length": "strlen",
    "string_to_array": "string_split",
    "cardinality": "len",
    "array_append": "list_append",
    "array_cat": "list_concat",
    "array_position": "list_position",
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "to_json": "to_json",
    "clock_timestamp": "now",
    "transaction_timestamp": "now",
    "statement_timestamp": "now",
}
_TEXTS: Final = frozenset(
    ("name", "char", "text", "varchar", "bpchar", "sql_identifier", "character_data", "yes_or_no", "aclitem", "nchar")
)
_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_TEXTS, "VARCHAR"),
    "cardinal_number": "INTEGER",
    "time_stamp": "TIMESTAMPTZ",
    "int2vector": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
    **dict.fromkeys(("xid", "cid", "uint"), "UINTEGER"),
    "inet": "VARCHAR",
    "pg_node_tree": "VARCHAR",
}
_REGISTERED: Final = frozenset(
    ("regclass", "regtype", "regnamespace", "regrole", "regproc", "regprocedure", "regcollation")
)
_WRITTEN: Final = "written"
"""Marks the calls that are already those of the engine."""
_COMMON: Final = "common"
"""Marks the tables in FROM that name a query of WITH."""
_NO_COLUMN: Final = "?column?"
_NAMED_NODES: Final[Mapping[type[exp.Expression], str]] = {
    exp.Case: "case",
    exp.Exists: "exists",
    exp.Array: "array",
    exp.GroupConcat: "string_agg",
    exp.Substring: "substring",
    exp.StrPosition: "position",
    exp.Extract: "extract",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentSchema: "current_schema",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentDate: "current_date",
    exp.Localtimestamp: "localtimestamp",
    exp.Tuple: "row",
    exp.Interval: "interval",
    exp.Overlay: "overlay",
    exp.AtTimeZone: "timezone",
}
_LISTS: Final = frozenset(
    (
        *("array_agg", "string_split", "list_append", "list_concat", "pg_array_remove", "pg_schemas", "pg_series"),
        *("string_to_array", "array_append", "array_cat", "array_remove", "current_schemas"),
    )
)
"""Functions whose values are lists, by their names in PostgreSQL and in the engine."""
_COUNTS: Final = frozenset(("array_lower", "array_upper", "array_length", "cardinality", "len"))
"""Functions whose values are whole numbers of 32 bits."""
_BARE: Final = frozenset(("user", "current_role"))
"""Functions without parentheses that the parser reads as columns."""


_REPLACED: Final = _BARE | {"xmin", "tableoid"}
"""Columns in whose place there is a value."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement for the engine, the relations that it reads, and the names of its functions of this package.

    `kinds` has the names in `pg_type` of the result's columns that are columns of relations. `shape` is a text that
    statements with the same columns share: the statement without the constants that it casts or compares, and `kinds`.
    """

    sql: str
    shape: str
    kinds: Mapping[str, str]
    relations: frozenset[Relation]
    functions: frozenset[str]


def _written(tree: exp.Expression) -> str:
    text: str = tree.sql("duckdb", identify=True, normalize_functions=False, comments=False)
    return text


def translate(tree: exp.Query, functions: Mapping[str, Function]) -> Translated:
    """Translate a statement; the tree stays as it is.

    Raises:
        FlightLLMError: the statement calls a function or names a relation that is unknown here.
        InternalError: the statement has a form that nobody thought of; the log has the details.
    """
    try:
        return _Translator(tree.copy(), functions).translated()
    except (FlightLLMError, RecursionError, MemoryError):
        raise
    except Exception as error:
        _log.exception("a query about the catalog cannot be translated")
        raise InternalError(
            "the query about the catalog has a part that is unknown here: write it in another way"
        ) from error


class _Translator:
    """One pass over one tree, which it changes."""

    def __init__(self, tree: exp.Query, functions: Mapping[str, Function]) -> None:
        self._tree = tree
        self._functions = {**functions, **GROWING, **HELPERS}
        self._relations: set[Relation] = set()
        self._used: set[str] = set()

    def translated(self) -> Translated:
        if any(one.args.get("rows_from") for one in self._tree.find_all(exp.Table)):
            raise UnsupportedError(
                "ROWS FROM is not supported in queries about the catalog: join the functions instead"
            )
        self._fold_names()
        self._name_common()
        self._name_outputs()
        kinds = self._kinds()
        self._show_registered()
        root = exp.Paren(this=self._tree)  # so that the top node can be replaced, too
        for node in list(self._tree.find_all(exp.Expression, bfs=False))[::-1]:
            self._change(node)
        tree = root.this
        sql = _written(tree)
        for literal in list(tree.find_all(exp.Literal)):
            if isinstance(literal.parent, exp.Cast | exp.Predicate):
                literal.replace(exp.Null())
        shape = f"{_written(tree)} {kinds}"
        return Translated(sql, shape, kinds, frozenset(self._relations), frozenset(self._used))

    # --- names

    def _fold_names(self) -> None:
        """Write all names in quotes, as PostgreSQL reads them."""
        for name in self._tree.find_all(exp.Identifier):
            if not name.args.get("quoted"):
                name.set("this", name.name.lower())
                name.set("quoted", True)  # noqa: FBT003 - an argument of the parser's tree

    def _name_common(self) -> None:
        """Give the queries of WITH names that no table of the engine has, and keep their names as aliases."""
        for table in [one for one in self._tree.find_all(exp.Table) if names_common(one)]:
            table.meta[_COMMON] = True
            if not table.alias:
                columns = table.args["alias"].columns if table.args.get("alias") else []
                name = exp.to_identifier(table.name, quoted=True)
                table.set("alias", exp.TableAlias(this=name, columns=columns))
        for table in self._tree.find_all(exp.Table):
            if table.meta.get(_COMMON):
                table.set("this", _common_name(table.name))
        for query in self._tree.find_all(exp.CTE):
            query.args["alias"].set("this", _common_name(query.alias))

    def _name_outputs(self) -> None:
        """Give each column without an alias the name that PostgreSQL gives it."""
        for select in self._tree.find_all(exp.Select):
            for item in list(select.expressions):
                if isinstance(item, exp.Alias | exp.Star) or item.is_star:
                    continue
                name = _output_name(item)
                if not isinstance(item, exp.Column) or name in _REPLACED:
                    item.replace(exp.alias_(item.copy(), name, quoted=True))

    def _kinds(self) -> Mapping[str, str]:
        """Return the types of the columns of the result that are columns of relations, or casts."""
        select = _outer_selects(self._tree)[0]
        found: dict[str, str] = {}
        for item in select.expressions:
            if item.is_star:
                found |= {column.name: column.kind for relation in self._read(select) for column in relation.columns}
                continue
            value = _inside(item.this if isinstance(item, exp.Alias) else item)
            if isinstance(value, exp.Cast):
                found[item.alias_or_name] = _type_name(value.to)
            elif isinstance(value, exp.Column):
                kinds = {
                    column.kind
                    for relation in self._read(select, value.table)
                    for column in relation.columns
                    if column.name == value.name
                }
                if len(kinds) == 1:
                    found[item.alias_or_name] = kinds.pop()
        return found

    def _read(self, select: exp.Select, alias: str = "") -> list[Relation]:
        """Return the relations in FROM of a query; with an alias, only the relation that the alias names."""
        tables = [one for one in _sources(select) if not alias or one.alias_or_name == alias]
        found = [relation_of(one) for one in tables if not one.meta.get(_COMMON)]
        return [one for one in found if one is not None]

    def _show_registered(self) -> None:
        """Write the names of objects in the columns of the result that have a type such as `regclass`."""
        inner = self._inner_kinds()
        for select in _outer_selects(self._tree):
            for item in select.expressions:
                if item.is_star:
                    self._show_in_star(item, select)
                    continue
                value = item.this if isinstance(item, exp.Alias) else item
                if _is_vector(value):
                    item.replace(exp.alias_(_vector_text(value), item.alias_or_name, quoted=True))
                    continue
                kind = _registered(value) or (inner.get(value.name) if isinstance(value, exp.Column) else None)
                if kind is not None:
                    shown = exp.alias_(_call(f"f_out_{kind}", value.copy()), item.alias_or_name, quoted=True)
                    self._used.add(f"out_{kind}")
                    item.replace(shown)

    def _show_in_star(self, item: exp.Expression, select: exp.Select) -> None:
        """Write the names of objects, and vectors, in the columns for which `*` stands."""
        star = item.this if isinstance(item, exp.Column) else item
        wanted = item.args.get("table")
        shown: dict[str, exp.Expr] = {}
        for table in _sources(select):
            relation = None if table.meta.get(_COMMON) else relation_of(table)
            if relation is None or (wanted is not None and wanted.name != table.alias_or_name):
                continue
            for column in relation.columns:
                value = exp.column(column.name, table=table.alias_or_name, quoted=True)
                if column.kind == "regproc":
                    self._used.add("out_regproc")
                    shown[column.name] = exp.alias_(_call("f_out_regproc", value), column.name, quoted=True)
                elif column.kind in VECTORS:
                    shown[column.name] = exp.alias_(_vector_text(value), column.name, quoted=True)
        if shown and isinstance(star, exp.Star):
            star.set("replace", list(shown.values()))

    def _inner_kinds(self) -> Mapping[str, str]:
        """Return the types such as `regclass` of the named columns of inner queries."""
        outer = {id(one) for one in _outer_selects(self._tree)}
        found: dict[str, str] = {}
        for select in self._tree.find_all(exp.Select):
            for item in select.expressions if id(select) not in outer else ():
                value = item.this if isinstance(item, exp.Alias) else item
                if kind := _registered(value):
                    found[item.alias_or_name] = kind
        return found

    # --- nodes

    def _change(self, node: exp.Expression) -> None:
        for kind, change in _CHANGES:
            if isinstance(node, kind):
                change(self, node)
                return

    def table(self, node: exp.Expression) -> None:
        """Name a relation as the engine does; a function in FROM becomes `unnest` of a list."""
        if not isinstance(node, exp.Table):
            return
        if not isinstance(node.this, exp.Identifier):
            self._table_function(node)
            return
        if node.meta.get(_COMMON):
            return
        relation = relation_of(node)
        if relation is None:
            raise SqlError(f"there is no relation {node.name!r} in the catalog")
        self._relations.add(relation)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
        for part in ("db", "catalog", "only"):
            node.set(part, None)
        node.set("this", exp.to_identifier(local_name(relation), quoted=True))
        node.set("alias", alias)

    def _table_function(self, node: exp.Table) -> None:
        call = node.this
        name = _function_name(call)
        alias = node.args.get("alias")
        if name == "pg_get_keywords":
            keywords = exp.to_identifier("c_pg_get_keywords", quoted=True)
            node.set("this", keywords)
            for part in ("db", "catalog"):
                node.set(part, None)
            self._used.add(name)
            return
        shown = alias.name if alias is not None and alias.name else name
        columns = list(alias.columns) if alias is not None else []
        if name == "_pg_expandarray":
            numbered = exp.Unnest(
                expressions=[call.expressions[0].copy()],
                offset=exp.to_identifier("n", quoted=True),
                alias=exp.TableAlias(
                    this=exp.to_identifier(shown, quoted=True), columns=[exp.to_identifier("x", quoted=True)]
                ),
            )
            node.replace(numbered)
            return
        value = _as_list(name, call, self)
        if value is None:  # a function with one value: FROM has one row with it
            value = exp.Array(expressions=[call.copy()])
            called = value.expressions[0]
            if isinstance(called, exp.Anonymous):
                self.anonymous(called)
        unnest = exp.Unnest(
            expressions=[value],
            alias=exp.TableAlias(
                this=exp.to_identifier(shown, quoted=True),
                columns=columns or [exp.to_identifier(shown, quoted=True)],
            ),
        )
        if node.args.get("ordinality"):
            unnest.set("offset", True)  # noqa: FBT003 - an argument of the parser's tree
        node.replace(unnest)

    def unnest(self, node: exp.Expression) -> None:
        """Name the column of `unnest(…) AS u`, which PostgreSQL names as the table."""
        alias = node.args.get("alias")
        parent = node.parent
        if alias is None and isinstance(parent, exp.Lateral):
            alias = parent.args.get("alias")
        if alias is None:
            name = exp.to_identifier("unnest", quoted=True)
            node.set("alias", exp.TableAlias(this=name, columns=[name.copy()]))
        elif not alias.columns and not node.args.get("offset"):
            alias.set("columns", [alias.this.copy()])

    def column(self, node: exp.Expression) -> None:
        """Drop the schema before a table's name; write the system columns as constants."""
        for part in ("db", "catalog"):
            node.set(part, None)
        if node.name in _BARE and not node.args.get("table"):
            node.replace(self.own("current_user"))
        elif node.name == "xmin":
            node.replace(exp.cast(exp.Literal.number(2), "UINTEGER", dialect="duckdb"))
        elif node.name == "tableoid" and (oid := _table_oid(node)) is not None:
            node.replace(exp.cast(exp.Literal.number(oid), "UINTEGER", dialect="duckdb"))

    def dot(self, node: exp.Expression) -> None:
        """Drop `pg_catalog.` before a function."""
        left = node.this
        if isinstance(left, exp.Identifier | exp.Column) and left.name in _CATALOGS and not left.args.get("table"):
            node.replace(node.expression)

    def anonymous(self, node: exp.Expression) -> None:
        """Write a call for the engine.

        Raises:
            UnsupportedError: the function is unknown.
        """
        if node.meta.get(_WRITTEN) or isinstance(node.parent, exp.Table):
            return
        name = _function_name(node)
        if (made := _SPECIAL.get(name)) is not None:
            node.replace(made(node, self))
        elif name in self._functions and name not in HELPERS:
            node.replace(self.own(name, *node.expressions))
        elif name in _RENAMED:
            node.set("this", _RENAMED[name])
        elif name not in _SAME:
            raise UnsupportedError(f"there is no function {name}() for queries about the catalog")
        else:
            node.set("this", name)

    def own(self, name: str, *arguments: exp.Expression) -> exp.Expression:
        function = self._functions[name]
        if not function.required <= len(arguments) <= len(function.parameters):
            raise SqlError(f"{name}() does not take {len(arguments)} arguments")
        self._used.add(name)
        padded: list[exp.Expression] = [one.copy() for one in arguments]
        padded += [exp.Null() for _ in function.parameters[len(arguments) :]]
        return _call(
            f"f_{name}",
            *(
                exp.cast(one, ENGINE_TYPES[kind], dialect="duckdb")
                for one, kind in zip(padded, function.parameters, strict=True)
            ),
        )

    def session_word(self, node: exp.Expression) -> None:
        """Write `current_user` and the like as calls of this package's functions."""
        name = "current_user"
        if isinstance(node, exp.CurrentSchema | exp.CurrentCatalog):
            name = "current_schema" if isinstance(node, exp.CurrentSchema) else "current_catalog"
        node.replace(self.own(name))

    def cast(self, node: exp.Expression) -> None:
        """Write PostgreSQL's types as those of the engine, and the names of objects as numbers."""
        if not isinstance(node, exp.Cast):
            return
        kind, value = cast_name(node.to), node.this
        if kind in _REGISTERED:
            self._used.add(f"in_{kind}")
            node.replace(_call(f"f_in_{kind}", exp.cast(value.copy(), "VARCHAR", dialect="duckdb")))
            return
        if kind == "array":
            if isinstance(value, exp.Literal) and value.is_string:
                node.set("this", _array(value.name))
            return
        inner = _registered(value)
        if kind in _TEXTS:
            text = value.copy()
            if inner is not None:
                self._used.add(f"out_{inner}")
                text = _call(f"f_out_{inner}", text)
            if _is_vector(value):
                text = _vector_text(value)
            length = node.to.expressions[0].sql() if node.to.expressions else None
            if kind == "char" and node.to.expressions == [] and isinstance(node.to.args.get("kind"), exp.Identifier):
                length = "1"
            node.replace(_as_text(text, length))
        elif kind in _TYPES:
            node.set("to", exp.DataType.build(_TYPES[kind], dialect="duckdb"))

    def operator(self, node: exp.Expression) -> None:
        """Write `OPERATOR(pg_catalog.~)` as the operator itself."""
        symbol = str(node.args["operator"]).rpartition(".")[2]
        left, right = node.this.copy(), node.expression.copy()
        made = _OPERATORS.get(symbol)
        if made is None:
            raise UnsupportedError(f"there is no operator {symbol} for queries about the catalog")
        written = made(left, right)
        node.replace(written)
        if isinstance(written, exp.DPipe):
            self.join_lists(written)

    def collate(self, node: exp.Expression) -> None:
        """Drop COLLATE: all texts are compared by their bytes."""
        node.replace(node.this)

    def like(self, node: exp.Expression) -> None:
        """Say that a backslash takes the next character of a pattern as it is, as always in PostgreSQL."""
        if not isinstance(node.parent, exp.Escape):
            node.replace(exp.Escape(this=node.copy(), expression=exp.Literal.string("\\")))

    def bracket(self, node: exp.Expression) -> None:
        """Count the elements of a vector such as `indkey` from 1, as the engine does."""
        if _is_vector(node.this):
            index = node.expressions[0]
            if isinstance(index, exp.Slice):
                raise UnsupportedError("a slice of a vector is not supported here: use its elements")
            node.set("expressions", [exp.Add(this=exp.Paren(this=index.copy()), expression=exp.Literal.number(1))])

    def any_of(self, node: exp.Expression) -> None:
        """Read `ANY('{a,b}')` as a list."""
        value = _inside(node.this)
        if isinstance(value, exp.Literal) and value.is_string:
            node.set("this", _array(value.name))

    def substring(self, node: exp.Expression) -> None:
        """Write `substring(x FROM 'pattern')` as the match of a regular expression, which can be NULL."""
        start = node.args.get("start")
        if not isinstance(start, exp.Literal) or not start.is_string:
            return
        node.replace(_match(node.this.copy(), start))

    def join_lists(self, node: exp.Expression) -> None:
        """Join lists with `||` so that NULL stands for no elements, and texts with a limit of their length."""
        if _is_list(node.this) or _is_list(node.expression):
            node.replace(_call("list_concat", node.this.copy(), node.expression.copy()))
        else:
            node.replace(self.own("text_plus", *(self.shown(one) for one in (node.this, node.expression))))

    def shown(self, value: exp.Expression) -> exp.Expression:
        """Return a value as it looks in a text: an object of a type such as `regclass` has its name there."""
        kind, text = _registered(value), value.copy()
        if kind is None:
            return _call("pg_text", text) if _is_list(value) else text
        self._used.add(f"out_{kind}")
        return _call(f"f_out_{kind}", text)

    def comparison(self, node: exp.Expression) -> None:
        """Compare the number of an object with the one that a text names: `x::regclass = 'people'`."""
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            kind = _registered(one)
            if kind is not None and isinstance(other, exp.Literal) and other.is_string:
                self._used.add(f"in_{kind}")
                other.replace(_call(f"f_in_{kind}", other.copy()))
        self.compared_with_all(node)

    def compared_with_all(self, node: exp.Expression) -> None:
        """Write `x <> ALL(list)` as `NOT x = ANY(list)`, because the engine has ALL only for queries."""
        right = node.expression
        if type(node) not in _OPPOSITES or not isinstance(right, exp.All) or isinstance(right.this, exp.Query):
            return
        opposite = _OPPOSITES[type(node)](this=node.this.copy(), expression=exp.Any(this=right.this.copy()))
        node.replace(exp.Paren(this=exp.Not(this=exp.Paren(this=opposite))))

    def drop_locks(self, node: exp.Expression) -> None:
        """Drop FOR UPDATE and FOR SHARE: nothing changes these rows."""
        if node.args.get("locks"):
            node.set("locks", [])


_CHANGES: Final[tuple[tuple[type[exp.Expression] | tuple[type[exp.Expression], ...], Callable[..., None]], ...]] = (
    (exp.Table, _Translator.table),
    (exp.Unnest, _Translator.unnest),
    (exp.Column, _Translator.column),
    (exp.Dot, _Translator.dot),
    (exp.Anonymous, _Translator.anonymous),
    ((exp.CurrentUser, exp.SessionUser, exp.CurrentSchema, exp.CurrentCatalog), _Translator.session_word),
    (exp.Cast, _Translator.cast),
    (exp.Operator, _Translator.operator),
    (exp.Collate, _Translator.collate),
    ((exp.Like, exp.ILike), _Translator.like),
    (exp.Bracket, _Translator.bracket),
    ((exp.Any, exp.All), _Translator.any_of),
    (exp.Substring, _Translator.substring),
    ((exp.EQ, exp.NEQ), _Translator.comparison),
    ((exp.LT, exp.LTE, exp.GT, exp.GTE), _Translator.compared_with_all),
    (exp.DPipe, _Translator.join_lists),
    (exp.Select, _Translator.drop_locks),
)


_OPPOSITES: Final[Mapping[type[exp.Expression], type[exp.Binary]]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}


def _escaped(node: exp.Expression) -> exp.Expression:
    return exp.Escape(this=node, expression=exp.Literal.string("\\"))


def _regular(left: exp.Expression, right: exp.Expression, *flags: str) -> exp.Expression:
    return _call("regexp_matches", left, right, *map(exp.Literal.string, flags))


_OPERATORS: Final[Mapping[str, Callable[[exp.Expression, exp.Expression], exp.Expression]]] = {
    "~": _regular,
    "~*": lambda left, right: _regular(left, right, "i"),
    "!~": lambda left, right: exp.Not(this=_regular(left, right)),
    "!~*": lambda left, right: exp.Not(this=_regular(left, right, "i")),
    "~~": lambda left, right: _escaped(exp.Like(this=left, expression=right)),
    "~~*": lambda left, right: _escaped(exp.ILike(this=left, expression=right)),
    "!~~": lambda left, right: exp.Not(this=_escaped(exp.Like(this=left, expression=right))),
    "!~~*": lambda left, right: exp.Not(this=_escaped(exp.ILike(this=left, expression=right))),
    "=": lambda left, right: exp.EQ(this=left, expression=right),
    "<>": lambda left, right: exp.NEQ(this=left, expression=right),
    "<": lambda left, right: exp.LT(this=left, expression=right),
    ">": lambda left, right: exp.GT(this=left, expression=right),
    "<=": lambda left, right: exp.LTE(this=left, expression=right),
    ">=": lambda left, right: exp.GTE(this=left, expression=right),
    "||": lambda left, right: exp.DPipe(this=left, expression=right),
    "+": lambda left, right: exp.Add(this=left, expression=right),
    "-": lambda left, right: exp.Sub(this=left, expression=right),
}


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    call = exp.Anonymous(this=name, expressions=list(arguments))
    call.meta[_WRITTEN] = True
    return call


def _common_name(name: str) -> exp.Identifier:
    return exp.to_identifier(f"with {name}", quoted=True)


def _function_name(call: exp.Expression) -> str:
    if isinstance(call, exp.Anonymous):
        return (call.this if isinstance(call.this, str) else call.this.name).lower()
    return call.name.lower() or call.key


def _as_text(value: exp.Expression, length: str | None) -> exp.Expression:
    """Write a value as a text; a list looks as in PostgreSQL: `{1,2}`."""
    plain = isinstance(value, exp.Literal) or _is_text(value)
    text: exp.Expression = exp.cast(value, "VARCHAR", dialect="duckdb") if plain else _call("pg_text", value)
    return text if length is None else _call("left", text, exp.Literal.number(length))


@cache
def _text_columns() -> frozenset[str]:
    return columns_of_kind("name", "text", "char") - columns_of_kind("_name", "_text", "_char", "oid", "int2vector")


def _is_text(value: exp.Expression) -> bool:
    return isinstance(value, exp.Column) and value.name in _text_columns()


def _registered(value: exp.Expression) -> str | None:
    """Return which type such as `regclass` a value has; None for values of other types."""
    value = _inside(value)
    if isinstance(value, exp.Cast):
        kind = cast_name(value.to)
        return kind if kind in _REGISTERED else None
    if isinstance(value, exp.Anonymous):
        name = _function_name(value)
        if name.startswith("f_in_"):
            return name.removeprefix("f_in_")
        return name.removeprefix("to_") if name.startswith("to_reg") else None
    if isinstance(value, exp.Dot):
        return _registered(value.expression)
    return "regproc" if isinstance(value, exp.Column) and value.name in columns_of_kind("regproc") else None


def _is_list(value: exp.Expression) -> bool:
    """Return whether a value is a list, as far as its form tells."""
    value = _inside(value)
    if isinstance(value, exp.Cast):
        return value.to.is_type(exp.DataType.Type.ARRAY, exp.DataType.Type.LIST)
    if isinstance(value, exp.Anonymous):
        return _function_name(value) in _LISTS
    return isinstance(value, exp.Array) or (isinstance(value, exp.Column) and value.name in _list_columns())


@cache
def _list_columns() -> frozenset[str]:
    kinds = {column.kind for relation in relations().values() for column in relation.columns}
    return columns_of_kind(*(kind for kind in kinds if kind.startswith("_")))


def _vector_text(value: exp.Expression) -> exp.Expression:
    """Write a vector such as `indkey` as clients read it: `1 2`."""
    return _call("pg_join", value.copy(), exp.Literal.string(" "))


def _inside(value: exp.Expression) -> exp.Expression:
    """Return a value without the parentheses around it."""
    while isinstance(value, exp.Paren):
        value = value.this
    return value


def _is_vector(value: exp.Expression) -> bool:
    value = _inside(value)
    return isinstance(value, exp.Column) and value.name in columns_of_kind(*VECTORS)


def _outer_selects(tree: exp.Query) -> list[exp.Select]:
    """Return the queries whose columns are those of the result."""
    if isinstance(tree, exp.SetOperation):
        return [*_outer_selects(tree.left), *_outer_selects(tree.right)]
    if isinstance(tree, exp.Subquery):
        return _outer_selects(tree.this)
    return [tree] if isinstance(tree, exp.Select) else []


def _output_name(item: exp.Expression) -> str:  # noqa: C901 - one case per kind of expression
    """Return the name that PostgreSQL gives a column without an alias."""
    if isinstance(item, exp.Paren):
        return _output_name(item.this)
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Dot):
        return _output_name(item.expression)
    if isinstance(item, exp.Identifier):
        return item.name
    if isinstance(item, exp.Cast):
        inner = _output_name(item.this)
        return inner if _is_named(item.this) else _type_name(item.to)
    if isinstance(item, exp.Collate | exp.Bracket | exp.Filter | exp.Window | exp.WithinGroup):
        return _output_name(item.this)
    if isinstance(item, exp.Case) and item.args.get("default") is not None:
        return _output_name(item.args["default"]) if _is_named(item.args["default"]) else "case"
    if isinstance(item, exp.Anonymous):
        return _function_name(item)
    if isinstance(item, exp.Subquery):
        inner_items = _outer_selects(item.this)
        return _output_of(inner_items[0].expressions[0]) if inner_items and inner_items[0].expressions else _NO_COLUMN
    if isinstance(item, exp.Trim):
        return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(item.args.get("position")).upper(), "btrim")
    return _NAMED_NODES.get(type(item), _NO_COLUMN)


def _is_named(item: exp.Expression) -> bool:
    """Return whether a value has a name of its own, and not that of its type or of CASE."""
    if isinstance(item, exp.Paren | exp.Collate | exp.Bracket | exp.Filter | exp.Window | exp.WithinGroup | exp.Cast):
        return _is_named(item.this)
    if isinstance(item, exp.Case):
        return item.args.get("default") is not None and _is_named(item.args["default"])
    if isinstance(item, exp.Subquery):
        return True
    return not isinstance(item, exp.Interval) and _output_name(item) != _NO_COLUMN


def _output_of(item: exp.Expression) -> str:
    return item.alias if isinstance(item, exp.Alias) else _output_name(item)


def _type_name(kind: exp.DataType) -> str:
    name = cast_name(kind)
    short = {"uint": "oid", "int": "int4", "bigint": "int8", "smallint": "int2", "boolean": "bool", "double": "float8"}
    more = {"decimal": "numeric", "float": "float4", "bpchar": "bpchar", "char": "bpchar"}
    if name == "char" and isinstance(kind.args.get("kind"), exp.Identifier):
        return "char"
    if name == "array" and kind.expressions:
        return _type_name(kind.expressions[0])
    return {**short, **more}.get(name, name)


def _table_oid(column: exp.Expression) -> int | None:
    """Return the number of the relation to which `c.tableoid` belongs; None if it is a column of a query in FROM."""
    wanted = column.args.get("table")
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for table in _sources(select):
            if wanted is None or wanted.name in {table.alias_or_name, table.name}:
                relation = _locals().get(table.name) or relation_of(table)
                return None if relation is None else relation.oid
        select = select.find_ancestor(exp.Select)
    return None


def _sources(select: exp.Select) -> list[exp.Table]:
    """Return the tables that a query names in FROM, without those in inner queries."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return [part.this for part in parts if part is not None and isinstance(part.this, exp.Table)]


@cache
def _locals() -> Mapping[str, Relation]:
    return {local_name(one): one for one in relations().values()}


def _array(text: str) -> exp.Expression:
    """Return the list that the text of an array has, such as `{a,"b c",NULL}`.

    Raises:
        SqlError: the text does not have the form of an array.
    """
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise SqlError(f"{text!r} is not an array: write {{a,b}}")
    items: list[exp.Expression] = []
    at, end = 1, len(inner) - 1
    while at < end:
        if inner[at] in ", \n":
            at += 1
        elif inner[at] == '"':
            value, at = "", at + 1
            while at < end and inner[at] != '"':
                at += inner[at] == "\\"
                value, at = value + inner[at], at + 1
            at += 1
            items.append(exp.Literal.string(value))
        else:
            start = at
            while at < end and inner[at] != ",":
                if inner[at] in '{}"':
                    raise UnsupportedError(f"an array of arrays is not supported here: {text!r}")
                at += 1
            word = inner[start:at].strip()
            items.append(exp.Null() if word.upper() == "NULL" else exp.Literal.string(word))
    return exp.Array(expressions=items)


def _match(value: exp.Expression, pattern: exp.Expression) -> exp.Expression:
    if not isinstance(pattern, exp.Literal):
        raise UnsupportedError("substring() needs a pattern that is written in the text")
    plain = pattern.name.replace("\\\\", "").replace("\\(", "")
    group = exp.Literal.number(1 if "(" in plain.replace("(?", "") else 0)
    found = _call("regexp_extract", value.copy(), pattern.copy(), group)
    return exp.Case(ifs=[exp.If(this=_regular(value.copy(), pattern.copy()), true=found)])


# --- calls that are written in another way


def _as_list(name: str, call: exp.Expression, translator: "_Translator") -> exp.Expression | None:
    """Return the list of the values that a function in FROM gives row by row; None if it has one value."""
    arguments = call.expressions
    if name == "unnest":
        listed: exp.Expression = arguments[0].copy()
        return listed
    if name == "generate_series":
        return _listed_series(arguments)
    if name == "generate_subscripts":
        return _subscripts(arguments[0])
    if name == "pg_partition_ancestors":
        return exp.Array(expressions=[translator.own("in_regclass", arguments[0])])
    return None


def _subscripts(value: exp.Expression) -> exp.Expression:
    first = 0 if _is_vector(value) else 1
    last = _call("len", value.copy())
    end = exp.Sub(this=last, expression=exp.Literal.number(1)) if first == 0 else last
    return exp.cast(_call("pg_series", exp.Literal.number(first), end), "INTEGER[]", dialect="duckdb")


def _listed_series(arguments: list[exp.Expression]) -> exp.Expression:
    """Write a series; whole numbers of 32 bits, as far as the form tells, give such numbers."""
    series = _call("pg_series", *(one.copy() for one in arguments))
    return exp.cast(series, "INTEGER[]", dialect="duckdb") if all(map(_is_int4, arguments)) else series


def _is_int4(value: exp.Expression) -> bool:
    inner = _inside(value)
    if isinstance(inner, exp.Neg):
        return _is_int4(inner.this)
    if isinstance(inner, exp.Literal):
        return inner.is_int and abs(int(inner.name)) < 1 << 31
    return isinstance(inner, exp.Anonymous) and _function_name(inner) in _COUNTS


def _series(node: exp.Expression, _: _Translator) -> exp.Expression:
    return _call("unnest", _listed_series(node.expressions))


def _generated_subscripts(node: exp.Expression, _: _Translator) -> exp.Expression:
    return _call("unnest", _subscripts(node.expressions[0]))


def _expanded(node: exp.Expression, _: _Translator) -> exp.Expression:
    return _call("unnest", _call("pg_expandarray", node.expressions[0].copy()))


def _schemas(node: exp.Expression, translator: _Translator) -> exp.Expression:
    translator._used.add("current_schemas")  # noqa: SLF001 - a part of the same translator
    return _call("pg_schemas", *(one.copy() for one in node.expressions))


def _joined(node: exp.Expression, translator: _Translator) -> exp.Expression:
    if len(node.expressions) not in {2, 3}:
        raise SqlError(f"array_to_string() does not take {len(node.expressions)} arguments")
    values, *texts = node.expressions
    return _call("pg_join", values.copy(), *(translator.own("text_separator", one) for one in texts))


def _upper(node: exp.Expression, _: _Translator) -> exp.Expression:
    value = node.expressions[0]
    length = _call("nullif", _call("len", value.copy()), exp.Literal.number(0))
    shift = _is_vector(value) and _function_name(node) == "array_upper"
    return exp.Paren(this=exp.Sub(this=length, expression=exp.Literal.number(1))) if shift else length


def _lower(node: exp.Expression, _: _Translator) -> exp.Expression:
    value = node.expressions[0]
    first = exp.Literal.number(0 if _is_vector(value) else 1)
    filled = exp.GT(this=_call("len", value.copy()), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=filled, true=first)])


def _substring(node: exp.Expression, _: _Translator) -> exp.Expression:
    start = node.expressions[1] if len(node.expressions) > 1 else None
    if isinstance(start, exp.Literal) and start.is_string:
        return _match(node.expressions[0].copy(), start)
    return _call("substring", *(one.copy() for one in node.expressions))


def _removed(node: exp.Expression, _: _Translator) -> exp.Expression:
    return _call("pg_array_remove", *(one.copy() for one in node.expressions))


def _ancestors(node: exp.Expression, translator: _Translator) -> exp.Expression:
    """Write the partitions above a table: no table has partitions, so the only row is the table itself."""
    return _call("unnest", exp.Array(expressions=[translator.own("in_regclass", node.expressions[0])]))


def _all_of(node: exp.Expression, _: _Translator) -> exp.Expression:
    """Read `ALL(list)`, which the parser takes for a function."""
    value = _one_argument(node)
    literal = isinstance(value, exp.Literal) and value.is_string
    return exp.All(this=_array(value.name) if literal else value.copy())


def _typeof(node: exp.Expression, _: _Translator) -> exp.Expression:
    value = _one_argument(node)
    if (kind := _registered(value)) is not None:
        return exp.Literal.string(kind)
    return _call("pg_typeof_of", _call("typeof", value.copy()))


def _parsed_name(node: exp.Expression, _: _Translator) -> exp.Expression:
    """Write the parts of a name: `parse_ident('a."B"')` becomes `['a', 'B']`."""
    value = _inside(node.expressions[0]) if node.expressions else exp.Null()
    while isinstance(value, exp.Cast):
        value = _inside(value.this)
    if not isinstance(value, exp.Literal) or not value.is_string:
        raise UnsupportedError("parse_ident() needs a name that is written in the text")
    return exp.Array(expressions=[exp.Literal.string(part) for part in name_parts(value.name)])


def _one_argument(node: exp.Expression) -> exp.Expression:
    if len(node.expressions) != 1:
        raise SqlError(f"{_function_name(node)}() takes one argument")
    value: exp.Expression = node.expressions[0]
    return value


_PLACE: Final = re.compile(r"(%%|%[sIL])")


def _formatted(node: exp.Expression, translator: _Translator) -> exp.Expression:
    """Write `format('%I.%s', a, b)` as `concat(quote_ident(a), '.', b)`."""
    pattern, *values = node.expressions
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise UnsupportedError("format() needs a pattern that is written in the text")
    parts: list[exp.Expression] = []
    for text in _PLACE.split(pattern.name):
        if not _PLACE.fullmatch(text):
            if "%" in text:
                raise UnsupportedError(f"format() knows %s, %I, %L and %% here, not {text!r}")
            parts.append(exp.Literal.string(text))
        elif text == "%%":
            parts.append(exp.Literal.string("%"))
        elif not values:
            raise SqlError(f"format() has too few values for {pattern.name!r}")
        else:
            shown = translator.shown(values.pop(0))
            quoting = {"%I": "quote_ident", "%L": "quote_nullable"}.get(text)
            parts.append(_as_text(shown, None) if quoting is None else translator.own(quoting, shown))
    return _all_parts(parts, translator)


def _all_parts(parts: list[exp.Expression], translator: _Translator) -> exp.Expression:
    """Return texts one after another; NULL is an empty text."""
    filled = [
        _call("coalesce", exp.cast(one, "VARCHAR", dialect="duckdb"), exp.Literal.string(""))
        for one in (parts or [exp.Literal.string("")])
    ]
    return reduce(partial(translator.own, "text_plus"), filled)


def _concat(node: exp.Expression, translator: _Translator) -> exp.Expression:
    return _all_parts([translator.shown(one) for one in node.expressions], translator)


def _concat_ws(node: exp.Expression, translator: _Translator) -> exp.Expression:
    """Join the texts that are not NULL."""
    if not node.expressions:
        raise SqlError("concat_ws() needs a separator")
    separator = _constant(node.expressions[0], "the separator of concat_ws()")
    joined: exp.Expression = exp.Null()
    for one in node.expressions[1:]:
        joined = translator.own("text_part", separator, joined, translator.shown(one))
    empty = exp.Literal.string("")
    known = exp.Not(this=exp.Is(this=separator.copy(), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=_call("coalesce", joined, empty))])


def _constant(value: exp.Expression, what: str) -> exp.Expression:
    """Return a value that the text has, and that can be written twice.

    Raises:
        UnsupportedError: the value is another one.
    """
    inner = value
    while isinstance(inner, exp.Cast | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Literal | exp.Null) or (inner.name.lower() == "chr" and inner.find(exp.Column) is None):
        return value
    raise UnsupportedError(f"{what} must be a text without a calculation in queries about the catalog")


def _regexp_replaced(node: exp.Expression, translator: _Translator) -> exp.Expression:
    if len(node.expressions) not in {3, 4}:
        raise UnsupportedError("regexp_replace() takes three or four arguments in queries about the catalog")
    text, pattern, new, *flags = node.expressions
    replaceable = translator.own("text_replaceable", text, _constant(new, "the new text of regexp_replace()"))
    return _call("regexp_replace", replaceable, *(one.copy() for one in (pattern, new, *flags)))


_ARROW: Final[Mapping[str, str]] = {
    "Null": "VARCHAR",
    "Boolean": "BOOLEAN",
    "Int8": "TINYINT",
    "Int16": "SMALLINT",
    "Int32": "INTEGER",
    "Int64": "BIGINT",
    "UInt8": "UTINYINT",
    "UInt16": "USMALLINT",
    "UInt32": "UINTEGER",
    "UInt64": "UBIGINT",
    "Float32": "FLOAT",
    "Float64": "DOUBLE",
    "Utf8": "VARCHAR",
}
_ARROW_TYPE: Final = re.compile(r"(?P<list>(?:Large)?List\((?:\w+ )?)?(?P<name>\w+).*")


def _arrow_cast(node: exp.Expression, _: _Translator) -> exp.Expression:
    """Write the value of a parameter, which is bound as `arrow_cast('7', 'Int32')`."""
    value, kind = node.expressions
    found = _ARROW_TYPE.fullmatch(kind.name)
    if found is None or found["name"] not in _ARROW:
        raise UnsupportedError(f"a parameter of the type {kind.name} is not supported in queries about the catalog")
    written = _ARROW[found["name"]] + ("[]" if found["list"] else "")
    return exp.cast(value.copy(), written, dialect="duckdb")


_SPECIAL: Final[Mapping[str, Callable[[exp.Expression, _Translator], exp.Expression]]] = {
    "generate_series": _series,
    "generate_subscripts": _generated_subscripts,
    "_pg_expandarray": _expanded,
    "current_schemas": _schemas,
    "array_to_string": _joined,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "regexp_replace": _regexp_replaced,
    "array_upper": _upper,
    "array_length": _upper,
    "array_lower": _lower,
    "substring": _substring,
    "array_remove": _removed,
    "arrow_cast": _arrow_cast,
    "format": _formatted,
    "pg_partition_ancestors": _ancestors,
    "all": _all_of,
    "pg_typeof": _typeof,
    "parse_ident": _parsed_name,
}
