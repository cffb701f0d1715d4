"""Refuse a zero below doubles in a condition, unless another part of the condition keeps it away.

DataFusion can compute all parts of a condition over all rows. So a part that rules out a zero is part of the check.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from flightllm.functions.divisors import DIVISOR
from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, parts, rebuilt, replaced, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import Known, TableColumns, own_functions
from flightllm.sql.select_shapes import aggregates, changes_per_call
from flightllm.sql.tree import parse, written
from flightllm.sql.types import arguments, function_name

_FILTERS: Final = ("selection", "having", "qualify")
"""The conditions of a SELECT."""
_CHAINS: Final = frozenset({"And", "Or"})
_OF_KEYS: Final = frozenset({"Eq", "And"})


def guarded_zeros(root: Json, columns_of: TableColumns) -> Json:
    """Return a statement whose checks of divisors in conditions let the zeros pass that other conditions rule out.

    In `f <> 0 AND g / f > 1`, the check reads `CASE WHEN f <> 0 THEN f END`. A zero gives NULL where other conditions
    can rule it out that are not beside it: in ON, over a view or a subquery with a condition, and in CASE. A view
    without conditions is as its table.
    """
    known = _named(root)
    changes = {
        id(one): _guarded(one, (), own_functions(columns_of)) if is_whole else _without_errors(one)
        for one, is_whole in _conditions(root, known, columns_of)
    }
    return replaced(root, changes)


def _named(root: Json) -> Mapping[str, Json]:
    """Return the queries of WITH by their names."""
    return {name_of(one["alias"]["name"]): one["query"] for node in walk(root) for one in _common_tables(node)}


def _common_tables(node: Node) -> Sequence[Json]:
    clause = body(node).get("with") if kind(node) == "Query" else None
    return clause["cte_tables"] if clause else ()


def _conditions(root: Json, known: Mapping[str, Json], columns_of: TableColumns) -> Iterator[tuple[Json, bool]]:
    """Yield the outermost conditions, and whether no other condition decides their rows.

    These are filters, join conditions, and parts of AND and OR.
    """
    todo = [root]
    while todo:
        found = todo.pop()
        fields = body(found) if kind(found) else {}
        if kind(found) == "BinaryOp" and fields["op"] in _CHAINS:
            yield found, False
            continue
        conditions = list[Json]()
        if kind(found) == "Select":
            conditions = [fields[one] for one in _FILTERS if fields[one]]
            for name in _FILTERS:
                if one := fields[name]:
                    whole = name == "selection" and all(_is_plain(item, known, columns_of) for item in fields["from"])
                    yield one, whole or (name == "having" and _is_of_groups(one))
        elif isinstance(found, dict) and "join_operator" in found:
            conditions = [found["join_operator"]]
            yield conditions[0], False
        passed = set(map(id, conditions))
        todo.extend(part for part in parts(body(found) if kind(found) == "Select" else found) if id(part) not in passed)


def _is_plain(item: Json, known: Mapping[str, Json], columns_of: TableColumns) -> bool:
    """Return whether an item of FROM has tables without conditions, and joins by equal columns at most."""
    if not _is_stored(item["relation"], known, columns_of):
        return False
    return all(
        _is_stored(join["relation"], known, columns_of)
        and all(body(node)["op"] in _OF_KEYS for node in walk(join["join_operator"]) if kind(node) == "BinaryOp")
        for join in item["joins"]
    )


def _is_stored(relation: Json, known: Mapping[str, Json], columns_of: TableColumns) -> bool:
    fields = body(relation)
    if kind(relation) == "Derived":
        return _is_unfiltered(fields["subquery"], known, columns_of)
    if kind(relation) != "Table" or fields["args"]:
        return False
    names = [name_of(body(part)) for part in fields["name"]]
    if len(names) == 1 and names[0] in known:
        others = {name: query for name, query in known.items() if name != names[0]}
        return _is_unfiltered(known[names[0]], others, columns_of)
    text = columns_of.view_of(names) if isinstance(columns_of, Known) else ""
    return _is_unfiltered_view(text, columns_of) if text else bool(columns_of(names))


def _is_unfiltered_view(text: str, columns_of: TableColumns) -> bool:
    tree = parse(ParsedText(text))
    if tree is None or kind(tree.root) != "Query":
        return False
    return _is_unfiltered(body(tree.root), _named(tree.root), columns_of)


def _is_unfiltered(query: Json, known: Mapping[str, Json], columns_of: TableColumns) -> bool:
    """Return whether a query has VALUES, or a SELECT without a condition."""
    inner = query["body"]
    if kind(inner) != "Select":
        return kind(inner) == "Values"
    fields = body(inner)
    return not any(fields[one] for one in _FILTERS) and all(
        _is_plain(item, known, columns_of) for item in fields["from"]
    )


def _is_of_groups(condition: Json) -> bool:
    """Return whether each checked divisor of a condition is one of aggregates, so that no filter below reads it."""
    return all(aggregates(node) for node in walk(condition) if _is_check(node))


def _is_check(node: Node) -> bool:
    return kind(node) == "Function" and function_name(body(node)) == DIVISOR


def _has_check(value: Json) -> bool:
    return any(_is_check(node) for node in walk(value))


def _guarded(condition: Json, guards: Sequence[Json], own: frozenset[str]) -> Json:
    """Return a condition in which the checks read divisors only where all of the guards are true."""
    if not _has_check(condition):
        return condition
    if kind(condition) == "Nested":
        return {"Nested": _guarded(body(condition), guards, own)}
    fields = body(condition)
    if kind(condition) != "BinaryOp" or fields["op"] not in _CHAINS:
        decided = any(kind(node) in {"Case", "Exists", "InSubquery"} or is_query(node) for node in walk(condition))
        twice = any(changes_per_call([one], own) or any(map(is_query, walk(one))) for one in guards)
        return _without_errors(condition) if decided or twice else _checked(condition, guards)
    operands = _operands(condition, fields["op"])
    changes = dict[int, Json]()
    for one in operands:
        others = [other for other in operands if other is not one and not _has_check(other)]
        if fields["op"] == "Or":
            others = [written("(v) IS NOT TRUE", v=other) for other in others]
        else:  # PostgreSQL computes the cheap conditions first, so a model's answer and a random value guard nothing
            others = [other for other in others if not changes_per_call([other], own)]
        changes[id(one)] = _guarded(one, (*guards, *others), own)
    return replaced(condition, changes)


def _operands(value: Json, operator: str) -> list[Json]:
    """Return the operands of a chain of one operator, from left to right."""
    inner = value
    while kind(inner) == "Nested":
        inner = body(inner)
    if kind(inner) != "BinaryOp" or body(inner)["op"] != operator:
        return [value]
    return [*_operands(body(inner)["left"], operator), *_operands(body(inner)["right"], operator)]


def _checked(condition: Json, guards: Sequence[Json]) -> Json:
    if not guards:
        return condition
    names = {f"g{place}": guard for place, guard in enumerate(guards)}
    form = f"{DIVISOR}(CASE WHEN {' AND '.join(f'({name})' for name in names)} THEN r END)"

    def change(node: Node) -> Json:
        return written(form, r=arguments(body(node))[0], **names) if _is_check(node) else node

    return rebuilt(condition, change)


def _without_errors(condition: Json) -> Json:
    """Return a condition in which a quotient by zero is NULL, so that the condition is not true."""

    def change(node: Node) -> Json:
        return written("nullif(r, 0)", r=arguments(body(node))[0]) if _is_check(node) else node

    return rebuilt(condition, change)
