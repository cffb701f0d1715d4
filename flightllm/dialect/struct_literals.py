"""Write BigQuery's literals of structs with names for all fields, and rows of a list of such literals."""

from typing import TYPE_CHECKING, Any

from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

_ITEM = "__item"
"""The name of the struct from which the rows of a list take their columns."""


def write_structs(tree: "exp.Expr") -> None:
    """Rewrite `STRUCT<a INT64>(1)` as a struct with the field `a`, and `FROM UNNEST([STRUCT(1 AS a)])` with its column.

    The fields of `(2)` after `STRUCT(1 AS a)` in a list get the names of the first one. The statement `SELECT AS
    STRUCT` has the fields as its columns, as has such a query in FROM.

    Raises:
        UnsupportedError: a struct has more or fewer values than fields.
    """
    from sqlglot import exp

    for cast in list(tree.find_all(exp.Cast)):
        if isinstance(cast.this, exp.Struct) and cast.to.this == exp.DType.STRUCT:
            cast.replace(_typed(cast.this.expressions, cast.to))
        elif isinstance(cast.this, exp.Array) and cast.to.expressions:
            inner = cast.to.expressions[0]
            if inner.args.get("this") == exp.DType.STRUCT and cast.this.expressions:
                items = [_typed_item(one, inner) for one in cast.this.expressions]
                cast.replace(exp.Array(expressions=items, bracket_notation=True))
    for array in tree.find_all(exp.Array):
        _name_fields(array)
    for unnest in list(tree.find_all(exp.Unnest)):
        _name_columns(unnest)
    for select in tree.find_all(exp.Select):
        if str(select.args.get("kind") or "").upper() == "STRUCT" and _is_rows(select):
            select.set("kind", None)


def _typed_item(value: Any, type_: Any) -> "exp.Expr":
    from sqlglot import exp

    if not isinstance(value, exp.Struct | exp.Tuple | exp.Paren):
        item = value.sql(dialect="bigquery")
        raise UnsupportedError(
            f"a list of the type {type_.sql(dialect='bigquery')} takes literals of structs here, and has {item}:"
            f" write [{item}] without the type"
        )
    return _typed(_parts(value), type_)


def _typed(values: list[Any], type_: Any) -> "exp.Expr":
    from sqlglot import exp

    if len(values) != len(type_.expressions):
        given, count = type_.sql(dialect="bigquery"), len(type_.expressions)
        line = f"{given}({', '.join(['NULL'] * count)})"
        raise UnsupportedError(
            f"{given} has {count} field{'s' * (count != 1)}, and the struct has {len(values)}"
            f" value{'s' * (len(values) != 1)}: write {line} with a value for each field"
        )
    fields = list[exp.Expr]()
    for value, field in zip(values, type_.expressions, strict=True):
        kind = field.args["kind"] if isinstance(field, exp.ColumnDef) else field
        made = (
            _typed(_parts(value), kind)
            if kind.this == exp.DType.STRUCT and _parts(value)
            else exp.cast(value.copy(), kind)
        )
        name = field.name if isinstance(field, exp.ColumnDef) else f"c{len(fields)}"
        fields.append(exp.PropertyEQ(this=exp.to_identifier(name), expression=made))
    return exp.Struct(expressions=fields)


def _parts(value: Any) -> list[Any]:
    from sqlglot import exp

    if isinstance(value, exp.Paren):
        return [value.this]
    found = value.expressions if isinstance(value, exp.Tuple | exp.Struct) else []
    return [one.expression if isinstance(one, exp.PropertyEQ) else one for one in found]


def _names(value: Any) -> list[str]:
    """Return the names of a struct's fields, or an empty list if a field lacks its name."""
    from sqlglot import exp

    fields = value.expressions if isinstance(value, exp.Struct) else []
    named = all(isinstance(one, exp.PropertyEQ) for one in fields)
    return [one.this.name for one in fields] if named else []


def _name_fields(array: "exp.Array") -> None:
    from sqlglot import exp

    names = _names(array.expressions[0]) if array.expressions else []
    for item in array.expressions[1:] if names else []:
        parts = _parts(item)
        if _is_literal(item) and len(parts) != len(names):
            raise UnsupportedError(
                f"the structs of a list have {len(names)} and {len(parts)} values: write the same fields in each of"
                f" them, as in [{array.expressions[0].sql(dialect='bigquery')}, ({', '.join(['NULL'] * len(names))})]"
            )
        if not _names(item) and len(parts) == len(names):
            pairs = zip(names, parts, strict=True)
            fields = [exp.PropertyEQ(this=exp.to_identifier(name), expression=part.copy()) for name, part in pairs]
            item.replace(exp.Struct(expressions=fields))


def _is_literal(item: Any) -> bool:
    from sqlglot import exp

    return isinstance(item, exp.Struct | exp.Tuple)


def _name_columns(unnest: "exp.Unnest") -> None:
    from sqlglot import exp

    lists, alias = unnest.expressions, unnest.args.get("alias")
    names = _names(lists[0].expressions[0]) if _is_list(lists) else []
    if not names or unnest.args.get("offset") or not isinstance(unnest.parent, exp.From | exp.Join):
        return
    item = exp.column(_ITEM)
    columns = [
        exp.alias_(exp.Anonymous(this="get_field", expressions=[item.copy(), exp.Literal.string(name)]), name)
        for name in names
    ]
    inner = exp.select(exp.alias_(exp.Anonymous(this="unnest", expressions=[lists[0].copy()]), _ITEM))
    shown = alias.name or (alias.columns[0].name if alias.columns else "") if alias is not None else ""
    unnest.replace(exp.select(*columns).from_(inner.subquery("__items")).subquery(shown or None))


def _is_list(lists: list[Any]) -> bool:
    from sqlglot import exp

    return len(lists) == 1 and isinstance(lists[0], exp.Array) and bool(lists[0].expressions)


def _is_rows(select: "exp.Select") -> bool:
    """Return whether the rows of a query are those of the statement, of FROM or of a WITH."""
    from sqlglot import exp

    around = select.parent
    if isinstance(around, exp.Subquery):
        around = around.parent
    return around is None or isinstance(around, exp.From | exp.Join | exp.CTE)
