"""Give every subquery PostgreSQL's rows: those that DataFusion gets wrong or cannot plan become joins."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, body, is_query, kind, parts, replaced
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.subqueries.items import rows_as_selects
from flightllm.sql.passes.subqueries.outer import Outer, Statement
from flightllm.sql.passes.subqueries.questions import questions
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import LONGEST, Tree, parse, text_of, written_query

_SHOWN: Final = 60


def subqueries(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT g, EXISTS (SELECT 1 FROM b WHERE b.g = a.g) FROM a` as a join with the keys that have a row.

    Raises:
        UnsupportedError: a subquery cannot be planned, or the text gets too long.
    """
    if kind(tree.root) not in {"Query", "Insert", "CreateTable", "CreateView", "Explain"}:
        return tree
    return _rewritten(tree, columns_of, tree.position)


def joined_subqueries(text: ParsedText, columns_of: TableColumns) -> ParsedText:
    """Return a query that no client sent, such as that of the rows to delete, after the pass.

    Raises:
        UnsupportedError: a subquery cannot be planned, or the text gets too long.
    """
    tree = parse(text) if text.has_subquery() else None
    if tree is None:
        return text
    changed = _rewritten(tree, columns_of, _begin)
    return text if changed is tree else text.replaced(changed.printed())


def _begin(value: Json) -> str:
    """Return the first words of a value: it has no place in the client's text."""
    text = text_of({"Subquery": value} if is_query(value) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _rewritten(tree: Tree, columns_of: TableColumns, position: Callable[[Json], str]) -> Tree:
    statement = Statement(tree.root, columns_of, position)
    root = _inside(tree.root, statement)
    if root is tree.root:
        return tree
    changed = replace(tree, root=root)
    if len(changed.printed()) > LONGEST:
        raise UnsupportedError(
            "the subqueries of this statement read so many columns of outer queries that its plan gets too long:"
            " write joins in place of some of them"
        )
    return changed


def _inside(value: Json, statement: Statement) -> Json:
    """Return a value whose outermost queries are rewritten, and then the queries in them."""
    changes = dict[int, Json]()
    todo = [value] if not is_query(value) else list(parts(value))
    while todo:
        found = todo.pop()
        after = found
        if is_query(found):
            after = _query(found, statement)
        elif kind(found) == "Values" and next(questions(found, condition=False), None):
            after = _inside(rows_as_selects(body(found)["rows"]), statement)
        elif kind(found) == "Select":
            after = body_of(_query({**written_query("SELECT 0"), "body": found}, statement), found)
        else:
            todo.extend(parts(found))
        if after is not found:
            changes[id(found)] = after
    return replaced(value, changes) if changes else value


def body_of(query: Json, before: Json) -> Json:
    """Return the body of a query, or the one before if it is equal."""
    return before if query["body"] is before else query["body"]


def _query(query: Json, statement: Statement) -> Json:
    if kind(query["body"]) != "Select":
        return _inside(query, statement)
    rewritten = Outer(query, statement).rewritten()
    select = body(rewritten["body"])
    inner = {key: _inside_of(part, statement) for key, part in select.items()}
    rest = {key: _inside_of(rewritten[key], statement) for key in ("with", "order_by")}
    same = all(inner[key] is select[key] for key in inner) and all(rest[key] is rewritten[key] for key in rest)
    return rewritten if same else {**rewritten, **rest, "body": {"Select": inner}}


def _inside_of(part: Json, statement: Statement) -> Json:
    return _inside(part, statement) if isinstance(part, dict | list) else part
