"""Give each call of a query that can have it a share of the promise about the rows of the result.

Project(AiMap(label, Filter(b, AiMap(b, Filter(a, AiMap(a, x))))))
  →  the same plan, in which `a` asks its model, `b` has a recall and a precision, and `label` has an accuracy

A promise about the rows of one operator often says nothing about the result. It does where each row of the result comes
from one row of the operator, and where no later filter drops rows. So one filter gets a share: it comes after all
others. Several filters of one model are one filter: their promise is about the rows that pass all of them. Labels above
all filters get a share, too. All other calls stay exact. `quality.split` has the proof.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import sqrt
from typing import Final

import pyarrow as pa
from substrait.algebra_pb2 import Expression, SetRel

from flightllm.errors import InternalError
from flightllm.functions.call import EMBEDDING, MODEL, AICall
from flightllm.functions.promise import Promise
from flightllm.llm.engine import Choice
from flightllm.optimizer.chain import Chain, moved, peel
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.expressions import field as column
from flightllm.plan.nodes import (
    Aggregate,
    AiMap,
    Call,
    Fetch,
    Filter,
    FusedStep,
    GroupLimit,
    Join,
    Node,
    Project,
    SetOp,
    Sort,
    call_expressions,
    children,
    has_ai,
    has_window,
    walk,
    with_children,
)
from flightllm.quality.split import split
from flightllm.quality.targets import Targets

_PASSED: Final = 0.5
"""The share of rows that a filter is assumed to let through."""
_FALL: Final = 10.0
"""How fast the share of asked rows falls as more errors are allowed: to half with 1 %, to a quarter with 9 %."""


@dataclass(frozen=True, slots=True)
class Means:
    """The proxies of models, and prices to compare the calls of a query by."""

    proxies: Callable[[str | None], tuple[str, ...] | str]
    """Returns the bindings of the proxies of a model, or why it has no proxy."""
    price: Callable[[str | None], float]
    """Returns the price of a call of a model, in any unit."""


@dataclass
class Shares:
    """The shares of a promise, and why other calls have no share."""

    given: list[AICall] = field(default_factory=list)
    """The calls whose proxies can decide rows."""
    reasons: list[tuple[AICall, str]] = field(default_factory=list)
    """The calls that ask their model about all rows, and why."""

    def missed(self) -> str:
        """Return why no proxy can decide any row of the query; empty if one can, or if there is no call."""
        if self.given or not self.reasons:
            return ""
        return "; ".join(dict.fromkeys(reason for _, reason in self.reasons))

    def lines(self) -> Iterator[str]:
        """Yield a line of text for each call."""
        for ai in self.given:
            yield f"{ai.text}: {ai.promise}"
        for ai, reason in self.reasons:
            yield f"{ai.text}: asks about all rows, because {reason}"


def promise_rows(root: Node, functions: Functions, targets: Targets, means: Means) -> tuple[Node, Shares]:
    """Return the plan with the promises of its calls, and what each call got.

    A query with a call that makes a promise of its own gets nothing: the two promises would be about other rows.
    """
    shares = Shares()
    calls = [call.ai for node in walk(root) if isinstance(node, AiMap) for call in node.calls]
    if any(call.promise is not None for call in calls):
        shares.reasons += [(ai, "a call of the query has targets of its own") for ai in calls if ai.promise is None]
        return root, shares
    return _Giver(functions, means, shares).give(root, targets), shares


@dataclass(frozen=True, slots=True)
class _Parts:
    """The steps of a chain in an order in which `chosen` are the last filters, and the labels come after them.

    `lower` are the steps before them; a call is the number of its column among the calls. Several chosen filters make
    their promise together.
    """

    chain: Chain
    lower: tuple[tuple[int, ...] | Expression, ...]
    chosen: tuple[int, ...]
    upper: tuple[int, ...]

    @property
    def calls(self) -> list[Call]:
        """Return the calls of the chain, in the order of their columns."""
        return [call for step in self.chain.steps if isinstance(step, tuple) for call in step]

    @property
    def filters(self) -> int:
        """Return the number of calls below the labels."""
        return len(self.calls) - len(self.upper)

    def built(self, base: Node, promises: Mapping[int, Promise], functions: Functions) -> Node:
        """Return the chain over `base` with these promises, by the numbers of the calls."""
        width, calls = self.chain.base.width, self.calls
        lower = [n for step in self.lower if isinstance(step, tuple) for n in step]
        order = [*lower, *self.chosen, *self.upper]
        places = {width + n: width + place for place, n in enumerate(order)}

        def move(expression: Expression) -> Expression:
            return ex.substitute(expression, lambda i: column(places.get(i, i)))

        def asked(numbers: Sequence[int], below: Node) -> Node:
            return AiMap(below, tuple(_promising(moved(calls[n], move), promises.get(n)) for n in numbers))

        node = base
        for step in self.lower:
            node = asked(step, node) if isinstance(step, tuple) else Filter(node, move(step))
        keeps = [functions.call("is_true", column(places[width + number])) for number in self.chosen]
        if len(keeps) > 1:
            steps = tuple(FusedStep((place,), keep) for place, keep in enumerate(keeps))
            calls_together = [_promising(moved(calls[n], move), promises.get(n)) for n in self.chosen]
            node = AiMap(node, tuple(calls_together), steps)
        elif keeps:
            node = Filter(asked(self.chosen, node), keeps[0])
        for number in self.upper:
            node = asked([number], node)
        return Project(node, tuple(map(move, self.chain.columns)))


@dataclass(frozen=True, slots=True)
class _Holder:
    """The calls that make one share of the promise: the number of their chain, and their numbers in it."""

    segment: int
    calls: tuple[int, ...]
    filters: bool
    """Whether they are filters, and not a label."""


class _Giver:
    """Gives the shares of one query."""

    def __init__(self, functions: Functions, means: Means, shares: Shares) -> None:
        self._functions = functions
        self._means = means
        self._shares = shares

    def give(self, root: Node, targets: Targets) -> Node:
        """Return the plan with promises; each row of the result must come from one row of `root`."""
        above, base = self._segments(root)
        if not above and isinstance(base, SetOp) and base.rel.op == SetRel.SET_OP_UNION_ALL:
            asking = sum(map(has_ai, base.inputs)) or 1
            part = replace(targets, confidence=1 - targets.delta / asking)
            inputs = tuple(self.give(i, part) if has_ai(i) else i for i in base.inputs)
            return _rebuilt(root, base, with_children(base, inputs))
        self._refuse(base, _reason(self._bottom(base)))
        return self._shared(root, above, targets)

    def _segments(self, node: Node) -> tuple[list[Node], Node]:
        """Return the nodes at which a chain of filters and calls begins, the highest first, and the node below all."""
        found: list[Node] = []
        while True:
            chain = peel(node, self._functions) if isinstance(node, Filter | AiMap | Project) else None
            if chain is not None:
                found.append(node)
                node = chain.base
                if any(isinstance(step, Expression) for step in chain.steps):
                    return found, node
            elif isinstance(node, Sort) or (isinstance(node, Project) and not self._mixes(node)):
                node = node.input
            else:
                return found, node

    def _bottom(self, node: Node) -> Node:
        """Return the node below the filters and projections that have no AI call."""
        while isinstance(node, Filter | Sort) or (isinstance(node, Project) and not self._mixes(node)):
            node = node.input
        return node

    def _mixes(self, node: Project) -> bool:
        return has_window(node) or any(map(self._functions.is_volatile, node.expressions))

    def _shared(self, root: Node, above: Sequence[Node], targets: Targets) -> Node:
        parts = [self._parts(chain) for node in above if (chain := peel(node, self._functions)) is not None]
        holders = [_Holder(at, part.chosen, filters=True) for at, part in enumerate(parts) if part.chosen]
        holders += [
            _Holder(at, (number,), filters=False)
            for at, part in enumerate(parts)
            for number in part.upper
            if self._fits(part.calls[number].ai, filters=False)
        ]
        asked = [[parts[one.segment].calls[number].ai for number in one.calls] for one in holders]
        filters = sum(part.filters for part in parts)

        def cost(at: int, part: Targets) -> float:
            rows = 1.0 if holders[at].filters else _PASSED**filters
            allowed = 1 - max(rate for rate in (part.recall, part.precision, part.accuracy) if rate is not None)
            return rows * sum(self._means.price(ai.model) for ai in asked[at]) / (1 + _FALL * sqrt(allowed))

        promises: dict[tuple[int, int], Promise] = {}
        found = split(targets, ["filter" if one.filters else "label" for one in holders], cost)
        for one, calls, share in zip(holders, asked, found, strict=True):
            for number, ai in zip(one.calls, calls, strict=True):
                if share is None:
                    self._refuse_call(ai, "without a precision of the query, any number of its labels could be wrong")
                    continue
                made = self._promise(ai, share, len(calls))
                promises[one.segment, number] = made
                self._shares.given.append(replace(ai, promise=made))
        result = root
        for at, (node, part) in enumerate(zip(above, parts, strict=True)):
            own = {number: made for (segment, number), made in promises.items() if segment == at}
            if own:
                base = part.chain.base
                result = _rebuilt(result, node, part.built(base, own, self._functions))
        return result

    def _promise(self, ai: AICall, share: Targets, together: int) -> Promise:
        """Return the promise of one of the calls that make it together."""
        proxies = self._means.proxies(ai.model)
        if isinstance(proxies, str):
            raise InternalError("a call without a proxy got a share")
        used = proxies if together == 1 else _models(proxies)[:1]
        return Promise(share.recall, share.precision, share.accuracy, share.confidence, None, used, filters=together)

    def _parts(self, chain: Chain) -> _Parts:
        """Choose the filters of a chain that come last, and the labels above all filters.

        They are the filters of the dearest model, or its only filter.
        """
        width = chain.base.width
        calls = [call for step in chain.steps if isinstance(step, tuple) for call in step]
        lower, upper = self._split(chain)
        prices = {n: self._means.price(calls[n].ai.model) for n in range(len(calls)) if n not in upper}
        usable = [n for n in prices if self._is_last(n, calls, lower, width)]
        dearest = max(usable, key=lambda n: (prices[n], n), default=None)
        why = "another filter comes after it, and could keep just the rows that a proxy of this one loses"
        chosen: tuple[int, ...] = ()
        if dearest is not None:
            alike = [n for n in prices if calls[n].ai.binding == calls[dearest].ai.binding]
            together = [n for n in alike if n in usable and self._asks_with_others(calls[n])]
            if len(together) > 1:
                chosen = tuple(together)
            elif len(alike) == 1:
                chosen = (dearest,)
            else:
                # Filters of one model are asked in the order that their rows show to be the cheapest. A share for one
                # of them would end that, and save prompts only among the few rows that the others let through.
                why = "its model has other filters over the same rows"
        for number in usable:
            if number not in chosen:
                self._refuse_call(calls[number].ai, why)
        at = {width + number for number in chosen}
        kept = [s for s in lower if not isinstance(s, Expression) or not at.intersection(ex.fields(s))]
        without = [tuple(n for n in s if n not in chosen) if isinstance(s, tuple) else s for s in kept]
        lower = [s for s in without if s]
        return _Parts(chain, tuple(lower), chosen, upper)

    def _asks_with_others(self, call: Call) -> bool:
        """Return whether a call can promise something together with other filters: a model must be its proxy."""
        proxies = self._means.proxies(call.ai.model)
        return call.when is None and not isinstance(proxies, str) and bool(_models(proxies))

    def _split(self, chain: Chain) -> tuple[list[tuple[int, ...] | Expression], tuple[int, ...]]:
        """Return the steps up to the last filter, with its conditions apart, and the calls above it, by number."""
        last = max((at for at, step in enumerate(chain.steps) if isinstance(step, Expression)), default=-1)
        numbers, upper, lower = count(), list[int](), list[tuple[int, ...] | Expression]()
        for at, step in enumerate(chain.steps):
            if isinstance(step, Expression):
                lower += self._functions.operands(step, "and")
                continue
            own = tuple(next(numbers) for _ in step)
            if at > last:
                upper += own
            else:
                lower.append(own)
        return lower, tuple(upper)

    def _is_last(
        self, number: int, calls: Sequence[Call], lower: Sequence[tuple[int, ...] | Expression], width: int
    ) -> bool:
        """Return whether a call can be the last filter; if not, note why."""
        ai, place = calls[number].ai, width + number
        reads = [step for step in lower if isinstance(step, Expression) and place in ex.fields(step)]
        below = [calls[n] for step in lower if isinstance(step, tuple) for n in step if n != number]
        if any(place in ex.fields(e) for e in call_expressions(below)):
            self._refuse_call(ai, "another call waits for its answer, as in CASE or OR")
        elif not reads:
            self._refuse_call(ai, "a filter comes after it")
        elif not all(self._is_kept(step, place) for step in reads):
            self._refuse_call(ai, "it is in OR or another condition")
        else:
            return self._fits(ai, filters=True)
        return False

    def _is_kept(self, condition: Expression, place: int) -> bool:
        """Return whether a condition says that a column is true."""
        inner = ex.arguments(condition)[0] if self._functions.name(condition) == "is_true" else condition
        return ex.field_index(inner) == place

    def _fits(self, ai: AICall, *, filters: bool) -> bool:
        """Return whether a proxy can answer a call; if not, note why."""
        why = _unfit(ai, filters=filters)
        if not why and isinstance(proxies := self._means.proxies(ai.model), str):
            why = proxies
        if why:
            self._refuse_call(ai, why)
        return not why

    def _refuse(self, node: Node, why: str) -> None:
        for below in walk(node):
            for call in below.calls if isinstance(below, AiMap) else ():
                self._refuse_call(call.ai, why)

    def _refuse_call(self, ai: AICall, why: str) -> None:
        if ai.backend == MODEL:
            self._shares.reasons.append((ai, why))


def _unfit(ai: AICall, *, filters: bool) -> str:
    if filters and not pa.types.is_boolean(ai.output):
        return "its answer is compared with more than constants"
    if not isinstance(ai.parameters.constraint, Choice) or pa.types.is_nested(ai.output):
        return "its answer is not one of a few options"
    if pa.types.is_floating(ai.output):
        return "the number itself is shown: a comparison such as >= 7 could have a proxy"
    if not ai.fields:
        return "it has no fields"
    if ai.parameters.temperature or ai.fresh:
        return "its answers are random"
    return "a sample of its rows calibrates it" if ai.by_rows else ""


def _models(proxies: Sequence[str]) -> tuple[str, ...]:
    """Return the proxies that are language models."""
    return tuple(one for one in proxies if one != EMBEDDING)


def _promising(call: Call, promise: Promise | None) -> Call:
    return call if promise is None else replace(call, ai=replace(call.ai, promise=promise))


def _rebuilt(root: Node, old: Node, new: Node) -> Node:
    """Return the plan with one of its nodes replaced."""
    if root is old:
        return new
    inputs = tuple(_rebuilt(i, old, new) for i in children(root))
    return with_children(root, inputs)


def _reason(node: Node) -> str:
    """Return why calls below a node have no share."""
    match node:
        case Join():
            what = "a join"
        case Aggregate():
            what = "groups or aggregates"
        case Fetch() | GroupLimit():
            return "a LIMIT takes only some of its rows"
        case SetOp():
            what = "a UNION, INTERSECT or EXCEPT"
        case Project():
            what = "a window function"
        case _:
            what = "a part of the plan that is not row by row"
    return f"its rows go into {what}, where one wrong row can change several rows of the result"
