"""Checks the Substrait plans that clients send, and binds their AI calls as in SQL."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from google.protobuf.message import DecodeError, Message
from substrait.algebra_pb2 import Expression, FilterRel, FunctionArgument, JoinRel, ProjectRel, Rel, RelCommon
from substrait.extensions.extensions_pb2 import SimpleExtensionDeclaration
from substrait.plan_pb2 import Plan
from substrait.type_pb2 import Type

from flightllm.common.limits import over_limit
from flightllm.errors import AICallError, InvalidInputError, UnsupportedError
from flightllm.functions import FunctionRegistry
from flightllm.functions.base import Entries, Kind, Literal
from flightllm.functions.bind import Argument, Constant, NameResolver, bind_call
from flightllm.functions.bind import Expression as SqlExpression
from flightllm.functions.call import AICall
from flightllm.plan.substrait import messages

_RELATIONS = frozenset({"read", "filter", "project", "join", "cross", "aggregate", "sort", "fetch", "set"})
_READS = frozenset({"named_table", "virtual_table"})
_LEFT_ONLY = frozenset({JoinRel.JOIN_TYPE_LEFT_SEMI, JoinRel.JOIN_TYPE_LEFT_ANTI, JoinRel.JOIN_TYPE_LEFT_MARK})
_RIGHT_ONLY = frozenset({JoinRel.JOIN_TYPE_RIGHT_SEMI, JoinRel.JOIN_TYPE_RIGHT_ANTI, JoinRel.JOIN_TYPE_RIGHT_MARK})
_VALUES = ("string", "var_char", "fixed_char", "boolean", "i8", "i16", "i32", "i64", "fp32", "fp64")
"""The literal types that an AI function accepts for an option or a prompt."""


@dataclass(slots=True)
class ClientPlan:
    """A plan with stubs in place of its AI calls; `calls` has the AI calls by stub name."""

    encoded: bytes
    calls: Mapping[str, AICall]


def read_client_plan(
    encoded: bytes,
    registry: FunctionRegistry,
    check_table: Callable[[Sequence[str]], None],
    check_called: Callable[[Iterable[str]], None],
    names: NameResolver,
    *,
    most_terms: int,
) -> ClientPlan:
    """Check a serialized `substrait.Plan` and put stubs in place of its AI calls.

    A plan calls an AI function as an extension function of the same name, with arguments by position. Where SQL
    requires a literal, the plan must have one too. A plan has no names for fields, so a prompt names a field by its
    table's column: `{x}` is the column `x`. If the first field is computed, its name is `{field1}`.

    `check_table` gets the name of every table, and raises an error if the user must not read the table. `names` does
    the same for models. `check_called` gets the names of the functions, and raises an error for one that clients must
    not call.

    Raises:
        InvalidInputError: the bytes are not a plan with one query.
        UnsupportedError: the plan has a relation that clients cannot run, such as a read of files or a write.
        LimitExceededError: the plan has more than `most_terms` relations, calls and literals; DataFusion recurses
            into each.
        AICallError: an AI call in the plan is wrong.
    """
    try:
        plan = Plan.FromString(encoded)
    except DecodeError as error:
        raise InvalidInputError("the bytes are not a Substrait plan, or the plan is nested too deeply") from error
    if len(plan.relations) != 1 or plan.relations[0].WhichOneof("rel_type") != "root":
        raise InvalidInputError("a Substrait plan must have one relation, a root with the names of its columns")
    if any("\0" in name for name in plan.relations[0].root.names):
        raise InvalidInputError("a column name of the plan has a NUL character: remove the character")
    _check_size(plan, most_terms)
    for rel in messages(plan, Rel):
        _check_relation(rel, check_table)
    for rel in [rel for rel in messages(plan, Rel) if rel.HasField("read")]:
        _read_whole(rel)
    _make_texts_plain(plan)
    functions = {
        extension.extension_function.function_anchor: _plain_name(extension.extension_function.name)
        for extension in plan.extensions
        if extension.HasField("extension_function")
    }
    check_called(functions.values())
    binder = _Binder(registry, functions, names)
    binder.visit(plan.relations[0].root.input, ())
    binder.declare(plan)
    return ClientPlan(plan.SerializeToString(), binder.calls)


def _check_size(plan: Plan, most: int) -> None:
    kinds = (Rel, Expression.ScalarFunction, Expression.Literal, Expression.IfThen.IfClause)
    terms = sum(1 for kind in kinds for _ in messages(plan, kind))
    if terms > most:
        found = f"the plan has {terms:,} relations, calls and literals"
        raise over_limit("sql_terms", most, found, "split the query into several")


def _check_relation(rel: Rel, check_table: Callable[[Sequence[str]], None]) -> None:
    kind = rel.WhichOneof("rel_type") or "nameless"
    if kind not in _RELATIONS:
        raise UnsupportedError(f"the plan has a relation of the kind {kind}; use only: {', '.join(sorted(_RELATIONS))}")
    if kind == "read":
        read = rel.read.WhichOneof("read_type") or "nothing"
        if read not in _READS:
            raise UnsupportedError(f"the plan reads {read}: read a table of the catalog by its name")
        if read == "named_table":
            check_table(list(rel.read.named_table.names))


def _read_whole(rel: Rel) -> None:
    """Make a read relation read its whole table, and move its projection and its filter into relations above it.

    DataFusion cannot read only a part of a view. If policies hide rows or values of a table, the table is a view.
    """
    read = Rel(read=rel.read)
    read.read.common.Clear()
    for part in ("projection", "filter", "best_effort_filter"):
        read.read.ClearField(part)
    places = list(range(len(rel.read.base_schema.struct.types)))
    if rel.read.HasField("projection"):
        places = _chosen(places, [item.field for item in rel.read.projection.select.struct_items])
    if rel.read.common.HasField("emit"):
        places = _chosen(places, rel.read.common.emit.output_mapping)
    if rel.read.HasField("filter"):
        read = Rel(filter=FilterRel(input=read, condition=rel.read.filter))
    if rel.read.HasField("projection") or rel.read.common.HasField("emit"):
        emit = RelCommon.Emit(output_mapping=places)
        read = Rel(project=ProjectRel(common=RelCommon(emit=emit), input=read))
    rel.CopyFrom(read)


def _chosen(places: Sequence[int], mapping: Sequence[int]) -> list[int]:
    if any(not 0 <= place < len(places) for place in mapping):
        raise InvalidInputError("the plan is malformed: it reads a column that the table does not have")
    return [places[place] for place in mapping]


def _make_texts_plain(plan: Plan) -> None:
    """Give every string and binary type its plain variation, because the server's tables have plain types.

    Clients can send plans with view types.
    """
    for kind in messages(plan, Type):
        if kind.WhichOneof("kind") in ("string", "binary"):
            getattr(kind, kind.WhichOneof("kind") or "").type_variation_reference = 0
    for literal in messages(plan, Expression.Literal):
        if literal.WhichOneof("literal_type") in ("string", "binary"):
            literal.type_variation_reference = 0


def _plain_name(name: str) -> str:
    """Return a function's name without its argument types: `ai_filter` for `ai_filter:str_str`."""
    return name.partition(":")[0].lower()


@dataclass(slots=True)
class _Binder:
    """Replaces the AI calls of one plan."""

    registry: FunctionRegistry
    functions: Mapping[int, str]
    """The names of the plan's functions by anchor."""
    names: NameResolver
    calls: dict[str, AICall] = field(default_factory=dict)
    _anchors: dict[str, int] = field(default_factory=dict)

    def visit(self, message: Message, columns: Sequence[str]) -> None:
        """Bind the calls in `message`, nested calls first. The expressions in `message` refer to `columns`."""
        if isinstance(message, Rel):
            columns = _columns(message)
        for part in _parts(message):
            self.visit(part, columns)
        if isinstance(message, Expression.ScalarFunction):
            self._bind(message, columns)

    def declare(self, plan: Plan) -> None:
        """Add the stubs to the plan's extensions."""
        for stub, anchor in self._anchors.items():
            declaration = SimpleExtensionDeclaration.ExtensionFunction(function_anchor=anchor, name=stub)
            plan.extensions.append(SimpleExtensionDeclaration(extension_function=declaration))

    def _bind(self, call: Expression.ScalarFunction, columns: Sequence[str]) -> None:
        name = self.functions.get(call.function_reference)
        if name is None:
            raise InvalidInputError(f"the plan calls function {call.function_reference}: declare it in the extensions")
        function = self.registry.get(name)
        if function is None:
            if name.startswith("ai_") and not self.registry.knows(name):
                raise AICallError(
                    f"{name} is not an AI function; similar: {', '.join(self.registry.suggest(name)) or 'none'}"
                )
            if self.registry.lifted(name) is not None:
                raise UnsupportedError(f"{name} is not supported in Substrait plans: send the query as SQL")
            return
        if any(parameter.kind is Kind.INDEX for parameter in function.parameters):
            raise UnsupportedError(f"{name} is not supported in Substrait plans: send the query as SQL")
        given = [argument.value for argument in call.arguments]
        arguments = [self._argument(place, value, columns) for place, value in enumerate(given)]
        text = f"{name}({', '.join(map(_shown, arguments))})"
        bound = bind_call(function, name, arguments, text, self.names)
        chosen = [given[int(place)] for place in bound.arguments] or [_NO_FIELDS]
        copies = [FunctionArgument(value=value) for value in chosen]
        del call.arguments[:]
        call.arguments.extend(copies)
        self.calls.setdefault(bound.call.stub, bound.call)
        call.function_reference = self._anchor(bound.call.stub)

    def _argument(self, place: int, value: Expression, columns: Sequence[str]) -> Argument:
        """Return an argument with its position as its text: `bind_call` returns the fields as these texts, in order."""
        return Argument((SqlExpression(str(place), _name(value, columns) or None),), None, self._constant(value))

    def _constant(self, value: Expression) -> Constant | None:
        kind = value.WhichOneof("rex_type")
        if kind == "literal":
            return _literal(value.literal)
        if kind == "cast":
            return self._constant(value.cast.input)
        name = self.functions.get(value.scalar_function.function_reference) if kind == "scalar_function" else None
        if name not in {"make_array", "map"}:
            return None
        given = [self._constant(argument.value) for argument in value.scalar_function.arguments]
        if name == "make_array":
            return _list(given)
        return _entries(*given) if len(given) == 2 else None

    def _anchor(self, stub: str) -> int:
        if stub not in self._anchors:
            taken = {*self.functions, *self._anchors.values()}
            self._anchors[stub] = next(number for number in count(1) if number not in taken)
        return self._anchors[stub]


_NO_FIELDS = Expression(literal=Expression.Literal(string=""))
"""The argument of a stub whose call has no fields."""


def _literal(literal: Expression.Literal) -> Constant | None:
    kind = literal.WhichOneof("literal_type")
    if kind == "null":
        return Constant(None)
    if kind == "list":
        return _list([_literal(item) for item in literal.list.values])
    if kind == "map":
        pairs = literal.map.key_values
        return _entries(_list([_literal(one.key) for one in pairs]), _list([_literal(one.value) for one in pairs]))
    if kind not in _VALUES:
        return None
    value = getattr(literal, kind)
    found: Literal = value.value if kind == "var_char" else value
    return Constant(found)


def _list(items: Sequence[Constant | None]) -> Constant | None:
    values = [item.value for item in items if item is not None]
    return Constant(tuple(values)) if len(values) == len(items) else None


def _entries(keys: Constant | None, values: Constant | None) -> Constant | None:
    """Return pairs of keys and values; None if one is not a constant list, or the lists differ in length."""
    if keys is None or values is None or not isinstance(keys.value, tuple) or not isinstance(values.value, tuple):
        return None
    entries = Entries.of(keys.value, values.value)
    return None if entries is None else Constant(entries)


def _shown(argument: Argument) -> str:
    if argument.constant is not None:
        return repr(argument.constant.value)
    return argument.expressions[0].column or "…"


def _parts(message: Message) -> Iterator[Message]:
    """Yield the messages directly inside a message."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            yield from (value,) if isinstance(value, Message) else value


def _inputs(rel: Rel) -> list[Rel]:
    kind = rel.WhichOneof("rel_type")
    return [part for part in _parts(getattr(rel, kind)) if isinstance(part, Rel)] if kind else []


def _columns(rel: Rel) -> list[str]:
    """Return the names of the columns that a relation's expressions refer to; a computed column's name is empty."""
    if rel.HasField("read"):
        return _top_level(rel.read.base_schema.names, rel.read.base_schema.struct.types)
    return [name for input_ in _inputs(rel) for name in _output(input_)]


def _output(rel: Rel) -> list[str]:
    """Return the names of a relation's output columns."""
    if (kind := rel.WhichOneof("rel_type")) is None:
        return []
    body = getattr(rel, kind)
    below = [_output(input_) for input_ in _inputs(rel)]  # call it once per input: twice would take exponential time
    names = _columns(rel) if kind == "read" else [name for columns in below for name in columns]
    match kind:
        case "project":
            names = [*names, *(_name(expression, names) for expression in body.expressions)]
        case "aggregate":
            names = [_name(expression, names) for expression in body.grouping_expressions]
        case "set" | "join" if below and (kind == "set" or body.type in _LEFT_ONLY):
            names = below[0]
        case "join" if below and body.type in _RIGHT_ONLY:
            names = below[-1]
    if body.common.HasField("emit"):
        names = [names[place] if place < len(names) else "" for place in body.common.emit.output_mapping]
    return names


def _name(expression: Expression, columns: Sequence[str]) -> str:
    """Return the name of the column that an expression refers to, also through casts; empty for other expressions."""
    while expression.WhichOneof("rex_type") == "cast":
        expression = expression.cast.input
    reference = expression.selection
    if expression.WhichOneof("rex_type") != "selection" or reference.WhichOneof("root_type") == "outer_reference":
        return ""
    direct = reference.direct_reference
    if direct.WhichOneof("reference_type") != "struct_field" or direct.struct_field.HasField("child"):
        return ""
    return columns[direct.struct_field.field] if direct.struct_field.field < len(columns) else ""


def _top_level(names: Sequence[str], types: Sequence[Type]) -> list[str]:
    """Return the names of a table's columns; in `names`, the names of a struct's fields follow their column's name."""
    found, place = [], 0
    for kind in types:
        found.append(names[place] if place < len(names) else "")
        place += 1 + _nested_names(kind)
    return found


def _nested_names(kind: Type) -> int:
    match kind.WhichOneof("kind"):
        case "struct":
            return sum(1 + _nested_names(inner) for inner in kind.struct.types)
        case "list":
            return _nested_names(kind.list.type)
        case "map":
            return _nested_names(kind.map.key) + _nested_names(kind.map.value)
        case _:
            return 0
