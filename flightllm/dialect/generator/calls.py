"""Read and write functions by the names of their dialect: a table for each dialect says how each is written."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from flightllm.errors import UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

_PLACE: Final = re.compile(r"\{(\d|\*)\}")
_RANDOM: Final = frozenset(
    [
        *("RAND", "RANDOM", "RANDN", "RANDSTR", "UNIFORM", "NORMAL", "ZIPF"),
        *("UUID", "UUID_STRING", "GENERATE_UUID", "GEN_RANDOM_UUID"),
    ]
)
"""The functions whose value changes with each call, by their names in all dialects."""
_LONGEST: Final = 100_000
"""The most characters of one call. A call whose arguments are written twice doubles with each that it contains."""


class TooLongError(Exception):
    """The text that the generator writes is many times as long as the text that was read."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a text of a dialect, while the generator writes it."""

    generator: Any
    dialect: str
    name: str
    args: Sequence[Any]

    def sql(self, place: int) -> str:
        """Return an argument as the generator writes it, in parentheses if it is an operation."""
        return self.written(self.args[place])

    def written(self, value: Any) -> str:
        """Return an expression as the generator writes it, in parentheses if it is an operation."""
        from sqlglot import exp

        text = str(self.generator.sql(value))
        whole = exp.Column | exp.Literal | exp.Paren | exp.Order | exp.Distinct | exp.Subquery | exp.Star
        if isinstance(value, whole) or (isinstance(value, exp.Func) and not isinstance(value, exp.Binary)):
            return text
        return f"({text})"

    def literal(self, place: int) -> str | None:
        """Return the text of an argument that is a literal, a unit or a name; None for another or no argument."""
        from sqlglot import exp

        value = self.args[place] if place < len(self.args) else None
        if isinstance(value, exp.Literal | exp.Var) or (isinstance(value, exp.Column) and value.table == ""):
            return str(value.name)
        return None

    def text(self, place: int) -> str | None:
        """Return the text of an argument that is a text literal, or None."""
        from sqlglot import exp

        value = self.args[place] if place < len(self.args) else None
        return str(value.name) if isinstance(value, exp.Literal) and value.is_string else None

    def number(self, place: int) -> int | None:
        """Return an argument that is a whole number, or None."""
        from sqlglot import exp

        value: Any = self.args[place] if place < len(self.args) else None
        sign, value = (-1, value.this) if isinstance(value, exp.Neg) else (1, value)
        found = isinstance(value, exp.Literal) and not value.is_string and str(value.name).isdecimal()
        return sign * int(value.name) if found else None

    def refuse(self, advice: str) -> NoReturn:
        """Raise the error of a call without a counterpart.

        Raises:
            UnsupportedError: always; `advice` is what to write instead.
        """
        raise UnsupportedError(f"{self.name} of {self.dialect} has no counterpart here: {advice}")


Rule = Callable[[Call], str]
"""Writes one call."""
Table = Mapping[str, Rule]
"""The rules of a dialect, by names in capitals."""


def form(*texts: str, advice: str = "") -> Rule:
    """Return a rule that writes a call by the text for its number of arguments, as in `strpos({1}, {0})`.

    `{*}` in a text is all arguments from the one after its last place. An argument with several places is written
    several times.
    """
    by_count: dict[int, str] = {}
    least, rest = -1, ""
    for text in texts:
        places = _PLACE.findall(text)
        count = max((int(place) + 1 for place in places if place != "*"), default=0)
        if "*" in places:
            least, rest = count, text
        else:
            by_count[count] = text
    counts = " or ".join(str(one) for one in sorted(by_count))

    def rule(call: Call) -> str:
        given = len(call.args)
        text = by_count.get(given)
        if text is None and rest and given >= least:
            text = rest.replace("{*}", ", ".join(call.sql(place) for place in range(least, given)))
        if text is None or _has_named(call):
            call.refuse(advice or f"write it with {counts or 'the usual'} arguments, by position")
        return _PLACE.sub(lambda found: call.sql(int(found[1])), text)

    return rule


def same(*names: str) -> dict[str, Rule]:
    """Return rules that write functions with their own names and arguments."""
    return {name: _as_written(name) for name in names}


def named(name: str) -> Rule:
    """Return a rule that writes a call with another name and the same arguments."""
    return _as_written(name)


def _as_written(name: str) -> Rule:
    return lambda call: str(call.generator.func(name, *call.args))


def no(advice: str) -> Rule:
    """Return a rule that refuses each call, with advice on what to write instead."""

    def rule(call: Call) -> str:
        call.refuse(advice)

    return rule


def _has_named(call: Call) -> bool:
    from sqlglot import exp

    return any(isinstance(one, exp.Kwarg | exp.PropertyEQ) for one in call.args)


def is_random(part: Any) -> bool:
    """Return whether a part calls a function whose value changes with each call."""
    from sqlglot import exp

    if isinstance(part, exp.Rand | exp.Randn | exp.Randstr | exp.Uniform | exp.Normal | exp.Zipf | exp.Uuid):
        return True
    own: Any = part if isinstance(part, (exp.Anonymous, vendor_call())) else None
    return own is not None and str(own.this).upper() in _RANDOM


@cache
def vendor_call() -> type:
    """Return the class of a call that a table of its dialect writes."""
    from sqlglot import exp

    class VendorCall(exp.Expression, exp.Func):
        """A call by its dialect's own name; `built` makes sqlglot's expression of it, for its type."""

        arg_types = {"this": True, "expressions": False}  # noqa: RUF012 - as sqlglot declares it
        is_var_len_args = True

    return VendorCall


def write_call(generator: Any, found: "exp.Expr") -> str:
    """Write a call by the table of its dialect."""
    name, dialect = str(found.this), generator.read_from
    call = Call(generator, dialect, name, found.expressions)
    try:
        text: str = generator.table[name](call)
    except IndexError:  # a rule reads an argument that the call does not have
        call.refuse("an argument is missing: write all of its arguments")
    except ValueError as error:  # the error of a format says what to write
        call.refuse(str(error))
    if len(text) > _LONGEST:
        raise TooLongError
    return text
