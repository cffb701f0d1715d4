"""`on_error => 'keep'`: a column keeps its old value in the rows whose answers are unusable."""

from collections.abc import Iterator, Sequence
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, parts, replaced, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.select_shapes import operands_of
from flightllm.sql.tree import parse, text_of, written
from flightllm.sql.types import arguments, function_name

_OPTION: Final = "on_error"
_KEEP: Final = "keep"
_NO_ERROR: Final = "CAST(NULL AS text)"
_LOGIC: Final = frozenset({"And", "Or"})
_FIRST_NOT_NULL: Final = frozenset({"coalesce", "nvl", "ifnull"})


def values_and_errors(value: str) -> tuple[str, str]:
    """Return the SQL of a new value, and the SQL of the errors for which its column keeps the old value.

    `upper(ai_gen('Say', t, on_error => 'keep'))` has the value `upper((ai_gen('Say', t, on_error => 'struct')).value)`
    and the error `(ai_gen('Say', t, on_error => 'struct')).error`. Errors of a CASE are a CASE with the same branches,
    so that a call runs only in the rows of its branch. A value without such calls does not change, and the
    text for its errors is empty.

    Raises:
        UnsupportedError: the value cannot be parsed.
    """
    if _KEEP not in value.lower() or _OPTION not in value.lower():
        return value, ""
    tree = parse(ParsedText(f"SELECT ({value})"))
    if tree is None:
        raise UnsupportedError(f"{_OPTION} => '{_KEEP}' does not work in a value of this form: {value}")
    given = body(body(body(body(tree.root)["body"])["projection"][0]))
    errors = _errors(given)
    return (value, "") if errors is None else (text_of(_answers(given)), text_of(errors))


def _answers(value: Json) -> Json:
    """Return a value whose calls give NULL in place of an unusable answer."""
    calls = (found for found in _outermost(value) if _keeps(found))
    changes = {id(call): written("(c).value", c=_as_struct(call)) for call in calls}
    return replaced(value, changes)


def _errors(value: Json) -> Json | None:
    """Return the text of the errors of a value, which is NULL where nothing fails; None if nothing can fail."""
    found = [error for part in _outermost(value, branches=True) if (error := _errors_at(part)) is not None]
    if len(found) < 2:
        return found[0] if found else None
    names = [f"e{number}" for number in range(len(found))]
    return written(f"nullif(concat({', '.join(names)}), '')", **dict(zip(names, found, strict=True)))


def _errors_at(node: Node) -> Json | None:
    if _keeps(node):
        return written("(c).error", c=_as_struct(node))
    if kind(node) == "Case":
        return _errors_of_case(node)
    if kind(node) == "BinaryOp":
        return _errors_of_logic(node)
    return _errors_in_order(arguments(body(node)), "(v) IS NOT NULL")


def _errors_of_case(case: Node) -> Json | None:
    """Return the errors of a CASE. `CASE x WHEN c` is read as `CASE WHEN x = c`, because both sides can fail."""
    fields, none = body(case), written(_NO_ERROR)
    operand = fields["operand"]
    conditions, any_error = [], False
    for one in fields["conditions"]:
        given = one["condition"]
        condition = given if operand is None else written("(x) = (c)", x=operand, c=given)
        of_condition, of_result = _errors(condition), _errors(one["result"])
        any_error = any_error or of_condition is not None or of_result is not None
        if of_condition is not None:
            conditions.append({**one, "condition": written("e IS NOT NULL", e=of_condition), "result": of_condition})
        conditions.append({**one, "condition": _answers(condition), "result": of_result or none})
    otherwise = _errors(fields["else_result"])
    if not any_error and otherwise is None:
        return None
    return {"Case": {**fields, "operand": None, "conditions": conditions, "else_result": otherwise or none}}


def _errors_of_logic(operation: Node) -> Json | None:
    """Return the errors of AND or OR: operands without a call come first, as in the plan of the query."""
    operator = body(operation)["op"]
    operands = sorted(operands_of(operation, operator), key=lambda one: any(map(_keeps, walk(one))))
    return _errors_in_order(operands, "(v) IS FALSE" if operator == "And" else "(v) IS TRUE")


def _errors_in_order(values: Sequence[Json], decided: str) -> Json | None:
    """Return the errors of values of which each is only computed where the one before it, `v`, is not `decided`."""
    found: Json | None = None
    none = written(_NO_ERROR)
    for value in reversed(values):
        own = _errors(value)
        if own is not None or found is not None:
            texts = {"own": own or none, "v": _answers(value), "rest": found or none}
            found = written(f"CASE WHEN own IS NOT NULL THEN own WHEN {decided} THEN NULL ELSE rest END", **texts)
    return found


def _branches(value: Json) -> bool:
    """Return whether an expression computes some of its parts in some rows only."""
    match kind(value):
        case "Case":
            return True
        case "BinaryOp":
            return body(value)["op"] in _LOGIC
        case "Function":
            return function_name(body(value)) in _FIRST_NOT_NULL
        case _:
            return False


def _outermost(value: Json, *, branches: bool = False) -> Iterator[Node]:
    """Yield the calls with `on_error => 'keep'` in a value, outside of queries.

    With `branches`, also yield the outermost expressions with branches. The parts of a yielded node are left out.
    """
    todo = [value]
    while todo:
        found = todo.pop()
        if is_query(found):
            continue
        if _keeps(found) or (branches and _branches(found)):
            yield found
        else:
            todo.extend(reversed(parts(found)))


def _keeps(value: Json) -> bool:
    return any(map(_is_keep, _given(value)))


def _as_struct(call: Node) -> Json:
    fields = body(unnested(call))
    struct = written("'struct'")
    given = [{"Named": {**body(one), "arg": {"Expr": struct}}} if _is_keep(one) else one for one in _given(call)]
    return {"Function": {**fields, "args": {"List": {**body(fields["args"]), "args": given}}}}


def _given(value: Json) -> list[Json]:
    call = unnested(value)
    if kind(call) != "Function":
        return []
    listed = body(call)["args"]
    return list(body(listed)["args"]) if kind(listed) == "List" else []


def _is_keep(argument: Json) -> bool:
    if kind(argument) != "Named" or name_of(body(argument)["name"]) != _OPTION:
        return False
    value = body(argument)["arg"]
    literal: Json = body(value) if kind(value) == "Expr" else None
    if kind(literal) != "Value":
        return False
    text = body(literal)["value"]
    return text in ({"SingleQuotedString": _KEEP}, {"DollarQuotedString": {"value": _KEEP, "tag": None}})
