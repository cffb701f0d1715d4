"""The rules for bounds: how large a function's value is and how long a call takes, by the function's class."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf

from flightllm.common.cached import cached_property
from flightllm.plan.bounds.patterns import LARGEST_PROGRAM, regex_states
from flightllm.plan.bounds.value import BoundsTally, UnboundedError, ValueBounds, largest

_NUMBER = 24
"""Bytes of a number as text."""
_HASHED, _TEXT_ITEM, _COMPILED, _BYTE = 50, 140, 200, 0.1
"""Steps to hash an element, to write it as text, to compile one state of a pattern, and to read one byte."""
_UNKNOWN = 1 << 20
_NUMBERS = re.compile(r"List\((?:Float|U?Int)\d+\)\Z")
"""The type of a list of numbers, as DataFusion writes it."""
_DAY = 86_400


@dataclass(frozen=True)
class FunctionCall:
    """One call of a function on a batch of `rows` rows.

    A call can have 100,000 arguments, so each property reads them once.
    """

    name: str
    args: Sequence[ValueBounds]
    rows: float

    @cached_property
    def constant(self) -> bool:
        """Return whether no argument depends on a row."""
        return all(v.constant for v in self.args)

    @cached_property
    def times(self) -> float:
        """Return how often the call is evaluated in the batch."""
        return 1 if self.constant else self.rows

    def arg(self, index: int, default: ValueBounds | None = None) -> ValueBounds:
        """Return an argument; where the call lacks it, `default` or the number 1."""
        return (
            self.args[index] if index < len(self.args) else default or ValueBounds(8, number=1, constant=True, exact=1)
        )

    @cached_property
    def bytes(self) -> float:
        """Return the bytes of all arguments."""
        return sum(v.bytes for v in self.args)

    @cached_property
    def items(self) -> float:
        """Return the elements of all arguments."""
        return sum(v.items for v in self.args)

    @cached_property
    def total(self) -> float:
        """Return the bytes of all arguments in all rows."""
        times = self.times
        return sum(v.spread(times) if v.constant else v.total for v in self.args)


Rule = Callable[[FunctionCall, BoundsTally], ValueBounds]


def made(call: FunctionCall, budget: BoundsTally, value: ValueBounds, steps: float | None = None) -> ValueBounds:
    """Charge a call and return its value; reading the arguments is the least work."""
    value = replace(value, constant=call.constant)
    least = _BYTE * sum(v.bytes if v.constant else v.spread(call.rows) for v in call.args)
    budget.charge(call.name, value, max(least, 0 if steps is None else steps), call.rows)
    return value


def fixed(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a function whose value is small for all arguments."""
    return made(call, budget, ValueBounds(40))


def small(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a function that counts bytes, positions or elements."""
    return made(call, budget, ValueBounds(8, number=max((v.bytes for v in call.args), default=8) * 8))


def flag(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a condition."""
    return made(call, budget, ValueBounds(1, number=1))


def part_of_date(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a part of a date: a year, a month, a nanosecond."""
    part = (call.arg(0).literal or "epoch").lower()
    most = 1e10 if part.startswith(("epoch", "nano", "micro", "milli")) else 3e5
    return made(call, budget, ValueBounds(8, number=most))


def same(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a function whose value is about as large as its largest argument."""
    value = largest(call.args)
    return made(call, budget, replace(value, bytes=value.bytes + 8, total=call.total + 8 * call.times))


def least_number(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound the smallest of some values."""
    value = largest(call.args)
    return made(call, budget, replace(value, number=min((v.number for v in call.args), default=inf)))


def added(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a function that concatenates its arguments."""
    each = max((v.element for v in call.args), default=0) if any(v.each for v in call.args) else 0
    return made(call, budget, ValueBounds(call.bytes, call.items, each, total=call.total))


def joined(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound concat_ws, which puts the separator between all other arguments."""
    size = call.arg(0).bytes * len(call.args) + call.bytes
    return made(call, budget, ValueBounds(size, total=call.total * 2 if call.arg(0).constant else inf))


def listed(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a list or struct constructor: each argument becomes an element."""
    each = max((v.bytes for v in call.args), default=0)
    return made(
        call, budget, ValueBounds(call.bytes + 8, max(1, len(call.args)), each, total=call.total + 8 * call.times)
    )


def mapped(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a map constructor, which hashes the keys."""
    value = ValueBounds(call.bytes * 2, call.items, max((v.element for v in call.args), default=0))
    return made(call, budget, value, call.items * 4 * _HASHED * call.times)


def doubled(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a function that makes up to two bytes or elements from one."""
    value = largest(call.args)
    return made(call, budget, ValueBounds(call.bytes * 2 + 32, value.items, value.each, total=call.total * 2))


def digested(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a checksum."""
    return made(call, budget, ValueBounds(128), 4 * sum(v.spread(call.times) for v in call.args))


def element(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound one element of a list, a map or a struct."""
    first = call.arg(0)
    return made(call, budget, ValueBounds(first.element, first.items, first.each, total=first.total))


def repeated(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound repeat(text, n)."""
    return made(call, budget, ValueBounds(call.arg(0).bytes * call.arg(1).number))


def padded(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound lpad(text, n, fill)."""
    text = call.arg(0).literal
    wide = 1 if text is not None and text.isascii() else 4
    return made(call, budget, ValueBounds(call.arg(1).number * wide), call.arg(1).number * call.times)


def array_repeated(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound array_repeat(value, n)."""
    each, count = max(8.0, call.arg(0).bytes), call.arg(1).number
    return made(call, budget, ValueBounds(each * count, count, each), 4 * count * call.times)


def array_resized(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound array_resize(list, n, value)."""
    given, count = call.arg(0), call.arg(1).number
    each = max(8.0, given.element, call.arg(2).bytes)
    return made(call, budget, ValueBounds(given.bytes + each * count, count, each), 4 * count * call.times)


def ranged(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound range(stop), range(start, stop) and range(start, stop, step), of numbers or dates."""
    start, stop = (
        (ValueBounds(8, number=0, exact=0), call.arg(0)) if len(call.args) == 1 else (call.arg(0), call.arg(1))
    )
    step = call.arg(2)
    way = start.number + stop.number
    if start.exact is not None and stop.exact is not None:
        way = abs(stop.exact - start.exact)
    count = way / abs(step.exact) + 1 if step.exact else inf if len(call.args) > 2 else way + 1
    return made(call, budget, ValueBounds(8 * count, count, 8), 2 * count * call.times)


def replaced(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound replace(text, from, to): an empty `from` matches between any two characters."""
    text, old, new = call.arg(0), call.arg(1), call.arg(2)
    factor = max(1.0, new.bytes / old.bytes) if old.literal else new.bytes + 1
    size = text.bytes * factor + (0 if old.literal else new.bytes)
    return made(call, budget, ValueBounds(size, total=text.total * factor), call.times * size)


def overlaid(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound overlay(text, part, …)."""
    return made(call, budget, ValueBounds(call.arg(0).bytes + call.arg(1).bytes))


def split(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a list of the parts of a text."""
    text, between = call.arg(0), call.arg(1)
    if text.literal is not None and between.literal:
        parts = text.literal.split(between.literal)
        size, longest = text.bytes + 8 * len(parts) + 16, max(map(len, parts)) * 4
        return made(call, budget, ValueBounds(size, len(parts), longest, total=size))
    return made(call, budget, ValueBounds(text.bytes * 6 + 16, text.bytes + 1, text.bytes, total=text.total * 6))


def searched(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a search for a text at each position of another text."""
    text, part = call.arg(0).bytes, call.arg(1).bytes
    return made(call, budget, ValueBounds(8, number=text), text * part * call.times / 8)


def levenshtein(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound an edit distance, which fills a table of the size of both lengths' product."""
    steps = call.arg(0).bytes * call.arg(1).bytes * call.times
    return made(call, budget, ValueBounds(8, number=max(v.bytes for v in call.args)), 2.5 * steps)


def matched(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a search for a regular expression."""
    check_regex(call, budget, call.arg(0), call.arg(1))
    return made(call, budget, ValueBounds(8, number=call.arg(0).bytes + 1))


def matches(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound the list of a regular expression's matches."""
    check_regex(call, budget, call.arg(0), call.arg(1))
    text = call.arg(0)
    return made(call, budget, ValueBounds(text.bytes * 8 + 16, text.bytes + 1, text.bytes, total=text.total * 8))


def regex_replaced(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound regexp_replace(text, pattern, replacement, flags): the replacement can repeat a group many times."""
    text, new = call.arg(0), call.arg(2)
    check_regex(call, budget, text, call.arg(1))
    once = len(call.args) < 4 and new.literal is not None and not set("\\$") & set(new.literal)
    simple = new.literal is not None and not set("\\$") & set(new.literal)
    size = text.bytes + new.bytes if once or new.bytes <= 1 else (text.bytes + 1) * (new.bytes + 1)
    total = text.total * (new.bytes + 1) if simple else inf
    return made(call, budget, ValueBounds(size, total=total + new.bytes * call.times), call.times * size * _BYTE)


def check_regex(call: FunctionCall, budget: BoundsTally, text: ValueBounds, pattern: ValueBounds) -> None:
    """Charge the compilation of a regular expression and the matching of a text; `call` names the function.

    Raises:
        UnboundedError: the expression is too large, or is not a literal.
    """
    if pattern.literal is None:
        raise UnboundedError(f"{call.name} takes a regular expression that is not a literal")
    states = regex_states(pattern.literal)
    if states > LARGEST_PROGRAM:
        raise UnboundedError(f"{call.name} takes a regular expression of about {states:,.0f} states")
    steps = states * _COMPILED + text.spread(call.times) * max(1.0, min(states, 1_000) / 20)
    budget.charge(call.name, ValueBounds(states * 40, constant=True), 0, 1)
    budget.charge(call.name, ValueBounds(8, constant=call.constant), steps, call.rows)


def hashed(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a set operation on lists."""
    value = largest(call.args)
    return made(
        call,
        budget,
        ValueBounds(call.bytes, call.items, value.element, total=call.total),
        _HASHED * call.items * call.times,
    )


def sorted_list(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound sorting a list."""
    return hashed(call, budget)


def compared(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a comparison of each element of one list with each element of another."""
    steps = call.arg(0).items * call.arg(1).items * call.times
    return made(call, budget, ValueBounds(1, number=1), _HASHED * call.items * call.times + steps)


def written(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound array_to_string(list, separator)."""
    given = call.arg(0)
    size = given.bytes + given.items * (call.arg(1).bytes + call.arg(2).bytes + _NUMBER)
    total = given.total * 4 + call.times * 64 if call.arg(1).bytes <= _NUMBER else inf
    return made(
        call, budget, ValueBounds(size, total=total), _TEXT_ITEM * min(given.items * call.times, given.total / 8)
    )


def grouped(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound the sorted texts of a list as one text."""
    given = call.arg(0)
    size, total = given.bytes + given.items, given.total * 2 + 64 * call.times
    return made(
        call, budget, ValueBounds(size, total=total), _TEXT_ITEM * min(given.items * call.times, given.total / 8)
    )


def formatted(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a date written as text in a given format."""
    return made(call, budget, ValueBounds(call.arg(1).bytes * 32 + 32), call.arg(1).bytes * 8 * call.times)


def unknown(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound a function without a rule: its arguments must be small, without large numbers."""
    if any(v.constant and v.exact is not None and abs(v.exact) > _UNKNOWN for v in call.args) or call.bytes > _UNKNOWN:
        raise UnboundedError(f"there are no bounds for {call.name} on large values")
    return made(call, budget, ValueBounds(call.bytes + 4_096, call.items, call.bytes))


def cast(call: FunctionCall, budget: BoundsTally, kind: str) -> ValueBounds:
    """Bound a cast to the type that DataFusion writes as `kind`."""
    given = call.arg(0)
    if _NUMBERS.match(kind):
        size = min(given.bytes * 4, given.items * 8) + 16
        return made(call, budget, replace(given, bytes=size, each=8, total=given.total * 4, literal=None))
    if "List" in kind or "Map" in kind or "Struct" in kind:
        return made(call, budget, replace(given, bytes=given.bytes * 4 + 16, literal=None))
    if not kind.startswith(("Utf8", "LargeUtf8", "Binary", "LargeBinary", "FixedSizeBinary", "Dictionary")):
        number = given.exact if given.literal is None else _parsed(given.literal, kind)
        most = abs(number) if number is not None else given.number
        return made(call, budget, ValueBounds(16, number=most, exact=number))
    if given.literal is not None:
        return made(call, budget, given)
    if given.items > 1 or given.each:
        size = given.bytes * 4 + given.items * _NUMBER
        return made(
            call,
            budget,
            ValueBounds(size, total=given.total * 4),
            _TEXT_ITEM * min(given.items * call.times, given.total / 8),
        )
    return made(call, budget, ValueBounds(max(given.bytes, 40), total=max(given.total, 40 * call.times)))


def _parsed(text: str, kind: str) -> float | None:
    try:
        if kind.startswith(("Date", "Timestamp")):
            return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp() / _DAY
        return float(text)
    except ValueError:
        return None


def cast_to_named(call: FunctionCall, budget: BoundsTally) -> ValueBounds:
    """Bound arrow_cast(value, 'type')."""
    return cast(replace(call, args=call.args[:1]), budget, call.arg(1).literal or "Utf8")
