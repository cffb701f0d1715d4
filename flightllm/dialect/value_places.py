"""Read `$1` over VALUES in Snowflake's dialect, which means the first column."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp


def write_value_places(tree: "exp.Expr") -> None:
    """Rewrite `SELECT $1, v.$2 FROM VALUES (1, 'a') AS v` as `SELECT column1, v.column2 FROM …`.

    A query over anything else keeps `$1`, which is then a parameter.
    """
    from sqlglot import exp

    for select in tree.find_all(exp.Select):
        source = select.args.get("from_")
        values = source.this if source is not None else None
        if not isinstance(values, exp.Values) or select.args.get("joins") or select.args.get("laterals"):
            continue
        alias = values.args.get("alias")
        named = [one.name for one in alias.columns] if alias is not None else []
        width = len(values.expressions[0].expressions) if isinstance(values.expressions[0], exp.Tuple) else 1
        for found in list(select.find_all(exp.Parameter)):
            if found.find_ancestor(exp.Select) is select and (place := _place(found)) is not None and place <= width:
                _replace(found, exp.to_identifier(named[place - 1] if named else f"column{place}", quoted=bool(named)))


def _place(found: Any) -> int | None:
    """Return the number of a parameter such as `$2`; None for a name."""
    text = str(found.this.name)
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _replace(found: Any, name: Any) -> None:
    from sqlglot import exp

    qualified = isinstance(found.parent, exp.Column) and found.arg_key == "this"
    found.replace(name if qualified else exp.Column(this=name))
