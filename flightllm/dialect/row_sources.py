"""Write the functions that make rows of lists and JSON texts in FROM: FLATTEN, LATERAL VIEW, UNNEST WITH OFFSET."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from flightllm.dialect.generator.reading import written_name
from flightllm.dialect.generator.written import SPARKS
from flightllm.errors import UnsupportedError
from flightllm.functions.json_values import written_path
from flightllm.functions.variant_objects import RAW
from flightllm.functions.variants import FLATTENED, VARIANT_TEXT, WITHOUT_THIS
from flightllm.sql.literals import text_literal
from flightllm.sql.passes.variants import LISTED

if TYPE_CHECKING:
    from sqlglot import exp

_GIVEN: Final = "__given"
"""The column in a template that the argument of a function replaces."""
_ELEMENTS: Final = "SELECT __e AS {names[0]} FROM unnest(__given) AS __rows(__e)"
_NUMBERED: Final = (
    "SELECT __n - 1 AS {names[0]}, __e AS {names[1]} FROM unnest(__given) WITH ORDINALITY AS __rows(__e, __n)"
)
_OFFSET: Final = (
    "SELECT __e AS {names[0]}, __n - 1 AS {names[1]} FROM unnest(__given) WITH ORDINALITY AS __rows(__e, __n)"
)
_PARTS: Final = "SELECT __n AS {names[0]}, __e AS {names[1]} FROM unnest(__given) WITH ORDINALITY AS __rows(__e, __n)"
_FLATTENED: Final = (
    'SELECT {text}(__e, \'$."key"\') AS "key", {text}(__e, \'$."path"\') AS "path",'
    ' CAST({text}(__e, \'$."index"\') AS BIGINT) AS "index", {raw}(__e, \'$."value"\') AS "value",'
    ' {text}(__e, \'$."this"\') AS "this" FROM unnest(__given) AS __rows(__e)'
)
_OPTIONS: Final = ("input", "path", "outer", "recursive", "mode")
"""The arguments of FLATTEN, in their order."""


def write_row_sources(tree: "exp.Expr", dialect: str) -> None:
    """Rewrite `FROM t, LATERAL FLATTEN(input => t.j) f` as a join with a query of the elements, and similar functions.

    Raises:
        UnsupportedError: a function or a column of its rows has no counterpart; the message says what to write.
    """
    from sqlglot import exp

    for select in list(tree.find_all(exp.Select)):
        if dialect in SPARKS:
            _views(select)
            _items(select)
    for found in list(tree.find_all(exp.Lateral, exp.TableFromRows, exp.Unnest, exp.Table)):
        match found:
            case exp.Unnest():
                if dialect == "bigquery":
                    _unnest(found)
            case exp.Table():
                _table(found, dialect)
            case _:
                _function(found, dialect)


def _function(found: Any, dialect: str) -> None:
    """Write a function after LATERAL or TABLE."""
    from sqlglot import exp

    function = found.this
    if isinstance(function, exp.Explode | exp.Posexplode) and dialect in SPARKS:
        alias, names = _alias(found, "__exploded")
        _replace(found, _rows_of(function, names, alias, outer=False))
    elif isinstance(function, exp.Explode) and dialect == "snowflake":
        _flatten(found)
    elif isinstance(function, exp.SplitToTable):
        _split(found)
    elif isinstance(function, exp.Generator):
        _name_column(found, "range")


def _join(query: str, names: Sequence[str], given: Any, alias: str, *, outer: bool = False) -> Any:
    """Return a join with a query of the elements of a list; `names` are those of the query's columns."""
    from sqlglot import exp, parse_one

    filled = query.format(
        names=[exp.to_identifier(name, quoted=True).sql("duckdb") for name in names], text=VARIANT_TEXT, raw=RAW
    )
    named = exp.to_identifier(alias, quoted=alias != alias.lower()).sql("duckdb")
    join = "LEFT JOIN" if outer else "CROSS JOIN"
    on = " ON TRUE" if outer else ""
    made: Any = parse_one(f"SELECT 1 FROM t {join} LATERAL ({filled}) AS {named}{on}", read="duckdb").args["joins"][0]
    for column in list(made.find_all(exp.Column)):
        if column.name == _GIVEN:
            column.replace(given.copy())
    if given.find(exp.Column) is None:  # a query that reads no other table needs no LATERAL
        lateral = made.this
        query_alone = lateral.this
        query_alone.set("alias", lateral.args["alias"])
        made.set("this", query_alone)
    return made


def _listed(value: Any) -> Any:
    """Return a value as a list: a later step makes one of a JSON text."""
    from sqlglot import exp

    return exp.Anonymous(this=LISTED, expressions=[value.copy()]) if isinstance(value, exp.Column) else value


def _alias(found: Any, usual: str) -> tuple[str, list[str]]:
    """Return the alias of an item of FROM, and the names of its columns."""
    alias = found.args.get("alias")
    if alias is None:
        return usual, []
    return (alias.name or usual), [one.name for one in alias.args.get("columns") or []]


def _views(select: Any) -> None:
    """Write each LATERAL VIEW as a join, which stands after the other tables."""
    for place, view in enumerate(select.args.pop("laterals", None) or []):
        alias, names = _alias(view, f"__view{place}")
        function = view.this
        select.append("joins", _rows_of(function, names, alias, outer=bool(view.args.get("outer"))))


def _rows_of(function: Any, names: Sequence[str], alias: str, *, outer: bool) -> Any:
    """Return the join with the rows that a generator of Spark makes.

    Raises:
        UnsupportedError: the generator has no counterpart.
    """
    from sqlglot import exp

    outer = outer or isinstance(function, exp.ExplodeOuter | exp.PosexplodeOuter)
    name = written_name(function).lower()
    if isinstance(function, exp.Posexplode):
        if len(names) not in {0, 2}:
            raise UnsupportedError(
                f"{written_name(function)} gives two columns, a position and a value: write posexplode(a) AS (i, x)"
            )
        return _join(_NUMBERED, names or ("pos", "col"), _listed(function.this), alias, outer=outer)
    if isinstance(function, exp.Explode):
        if len(names) > 1:
            raise UnsupportedError("explode of a map has no counterpart: write explode(map_entries(m)) AS e")
        return _join(_ELEMENTS, names or ("col",), _listed(function.this), alias, outer=outer)
    if name == "json_tuple" and len(function.expressions) > 1:
        return _tuple(function.expressions, names, alias)
    raise UnsupportedError(
        f"{name} has no counterpart in FROM: write LATERAL VIEW explode(list) v AS x, and read the fields of x"
    )


def _tuple(given: Sequence[Any], names: Sequence[str], alias: str) -> Any:
    """Return the join with the fields of a JSON text, as texts."""
    from sqlglot import exp

    keys = [one.name for one in given[1:]]
    if not all(isinstance(one, exp.Literal) and one.is_string for one in given[1:]):
        raise UnsupportedError("json_tuple takes names as text literals: write json_tuple(j, 'a', 'b')")
    shown = names or [f"c{place}" for place in range(len(keys))]
    if len(shown) != len(keys):
        raise UnsupportedError(f"json_tuple gives {len(keys)} columns: write as many names after AS")
    fields = ", ".join(
        f"{VARIANT_TEXT}(__e, {text_literal(written_path((key,)))}) AS {{names[{place}]}}"
        for place, key in enumerate(keys)
    )
    one_row = exp.Array(expressions=[given[0].copy()])
    return _join(f"SELECT {fields} FROM unnest(__given) AS __rows(__e)", shown, one_row, alias)


def _items(select: Any) -> None:
    """Write a generator in SELECT as a join, and its item as the columns of the join."""
    from sqlglot import exp

    outer = (exp.ExplodeOuter, exp.Posexplode)
    for place, item in enumerate(list(select.expressions)):
        function = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
        if not isinstance(function, outer):
            continue
        if isinstance(item, exp.Alias):
            names = [item.alias]
        else:
            names = [one.name for one in item.expressions] if isinstance(item, exp.Aliases) else []
        alias = f"__items{place}"
        join = _rows_of(function, names, alias, outer=False)
        if select.args.get("from_") is None:
            select.set("from_", exp.From(this=exp.Subquery(this=exp.select("1"), alias=exp.to_identifier("__one"))))
        select.append("joins", join)
        shown = names or (["pos", "col"] if isinstance(function, exp.Posexplode) else ["col"])
        columns = [exp.column(exp.to_identifier(name, quoted=True), table=alias) for name in shown]
        items = list(select.expressions)
        at = next(at for at, one in enumerate(items) if one is item)
        select.set("expressions", [*items[:at], *columns, *items[at + 1 :]])


def _unnest(found: Any) -> None:
    """Write UNNEST WITH OFFSET of BigQuery: it counts from 0, and the offset is a column of its own."""
    from sqlglot import exp

    values = found.expressions
    if len(values) == 1:
        found.set("expressions", [_listed(values[0])])
    offset = found.args.get("offset")
    if not offset or len(values) != 1:
        return
    alias = found.args.get("alias")
    names = [one.name for one in alias.columns] if alias is not None else []
    number = offset.name if isinstance(offset, exp.Identifier) else "offset"
    outer = isinstance(found.parent, exp.Join) and found.parent.side == "LEFT"
    value = names[0] if names else "value"
    _replace(found, _join(_OFFSET, (value, number), found.expressions[0], f"__{value}", outer=outer))


def _replace(found: Any, join: Any) -> None:
    """Put a join in the place of an item of FROM."""
    from sqlglot import exp

    around = found.parent
    if isinstance(around, exp.Join):
        on = around.args.get("on")
        if on is not None:
            join.set("on", on.copy())
            join.set("kind", around.args.get("kind"))
        if around.side == "LEFT" and join.side != "LEFT":
            join.set("side", "LEFT")
            join.set("kind", None)
            join.set("on", on.copy() if on is not None else exp.true())
        around.replace(join)
        return
    found.replace(join.this)


def _flatten(found: Any) -> None:
    """Write FLATTEN of Snowflake: its rows have key, path, index, value and this."""
    from sqlglot import exp

    given: dict[str, Any] = {}
    for place, one in enumerate([found.this.this, *found.this.expressions]):
        named = isinstance(one, exp.Kwarg)
        name = str(one.this.name).lower() if named else (_OPTIONS[place] if place < len(_OPTIONS) else "")
        if name not in _OPTIONS:
            raise UnsupportedError(f"FLATTEN takes {', '.join(_OPTIONS)}: write FLATTEN(input => a)")
        given[name] = one.expression if named else one
    alias, _ = _alias(found, "__flattened")
    _check_unnumbered(found, alias)
    _read_values(found, alias)
    path = given.get("path")
    if path is not None and not (isinstance(path, exp.Literal) and path.is_string):
        raise UnsupportedError("the path of FLATTEN must be a text literal: write path => 'a.b'")
    steps = "" if path is None or not path.name else f"${'' if path.name.startswith('[') else '.'}{path.name}"
    mode = given.get("mode", exp.Literal.string("BOTH")).copy()
    if not _reads_this(found.root()):
        mode = exp.DPipe(this=mode, expression=exp.Literal.string(WITHOUT_THIS), safe=True)
    rows = exp.Anonymous(
        this=FLATTENED,
        expressions=[
            given["input"].copy(),
            exp.Literal.string(steps),
            given.get("outer", exp.false()).copy(),
            given.get("recursive", exp.false()).copy(),
            mode,
        ],
    )
    _replace(found, _join(_FLATTENED, (), rows, alias))


def _reads_this(root: Any) -> bool:
    """Return whether a text can read the column `this` of FLATTEN: by its name, or by a star."""
    from sqlglot import exp

    stars = (one for one in root.find_all(exp.Star) if not isinstance(one.parent, exp.Count))
    return any(True for _ in stars) or any(one.name.lower() == "this" for one in root.find_all(exp.Column))


def _read_values(found: Any, alias: str) -> None:
    """Read the column `value` of FLATTEN as a path to the whole value, whose form depends on what surrounds it."""
    from sqlglot import exp

    select = found.find_ancestor(exp.Select)
    for column in list(select.find_all(exp.Column)) if select is not None else []:
        read = isinstance(column.parent, exp.JSONExtract | exp.GetExtract | exp.Bracket) and column.arg_key == "this"
        if column.name.lower() != "value" or column.table.lower() not in {"", alias.lower()} or read:
            continue
        whole = exp.JSONPath(expressions=[exp.JSONPathRoot()])
        path = exp.JSONExtract(this=column.copy(), expression=whole, variant_extract=True)
        is_item = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
        column.replace(exp.Alias(this=path, alias=column.this.copy()) if is_item else path)


def _check_unnumbered(found: Any, alias: str) -> None:
    """Raise `UnsupportedError` if the text reads SEQ, which numbers the rows that are flattened."""
    from sqlglot import exp

    for column in found.root().find_all(exp.Column):
        if column.name.lower() == "seq" and column.table.lower() in {"", alias.lower()}:
            raise UnsupportedError(
                "SEQ has no counterpart, and a star leaves it out: number the rows of the table by row_number() in a"
                " subquery, and read this number"
            )


def _split(found: Any) -> None:
    """Write SPLIT_TO_TABLE of Snowflake, which counts from 1."""
    from sqlglot import exp

    function = found.this
    alias, _ = _alias(found, "__split")
    _check_unnumbered(found, alias)
    parts = exp.Split(this=function.this.copy(), expression=function.expression.copy())
    _replace(found, _join(_PARTS, ("index", "value"), parts, alias))


def _table(found: Any, dialect: str) -> None:
    """Write a function of Spark in FROM: the numbers of `range`, and the elements of `explode`."""
    from sqlglot import exp

    if dialect not in SPARKS:
        return
    if isinstance(found.this, exp.Explode):
        alias, names = _alias(found, "__exploded")
        _replace(found, _rows_of(found.this, names, alias, outer=False))
    elif isinstance(found.this, exp.Anonymous) and found.this.name.lower() == "range":
        _name_column(found, "id")


def _name_column(found: Any, column: str) -> None:
    """Give a name to the only column of an item of FROM, unless the text names this column."""
    from sqlglot import exp

    alias, names = _alias(found, "range")
    if not names:
        listed = [exp.to_identifier(column, quoted=True)]
        found.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=listed))
