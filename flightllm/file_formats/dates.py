"""Dates and times in the orders that people write: `31/12/2012`, `3/30/12 5:40 PM`, `2012/01/05`, `5:40`."""

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

ORDERS = {"dmy": "day{0}month{0}year", "mdy": "month{0}day{0}year", "ymd": "year{0}month{0}day"}
_MARKS = "/.-"
_PARTS = {"d": r"(?P<d>\d{1,2})", "m": r"(?P<m>\d{1,2})"}
_CLOCK = r"(?P<h>\d{1,2}):(?P<i>\d{2})(?::(?P<s>\d{2})(?P<f>\.\d{1,6})?)?(?: ?(?P<p>[AaPp])\.?[Mm]\.?)?"
_CENTURY = 69
"""Two-digit years below this are of the 21st century, as in POSIX."""


@dataclass(frozen=True, slots=True)
class WrittenTime:
    """A notation of dates, of dates with a time, or of times of day."""

    pattern: str
    order: str = ""
    """The order of day, month and year: a key of `ORDERS`; empty for a time of day."""
    shown: str = "times of day"

    @property
    def takes_iso(self) -> bool:
        """Return whether each date in the notation of ISO 8601 is also in this one."""
        return self.shown.startswith("year-month-day")

    def iso(self, texts: pa.Array) -> pa.Array:
        """Return texts of this notation in that of ISO 8601; wrong hours become texts that no cast takes."""
        parts = pc.extract_regex(texts, f"^(?:{self.pattern})$")
        names = {parts.type.field(place).name for place in range(parts.type.num_fields)}
        found = {name: pc.struct_field(parts, name) for name in names}
        clock = _clock(found) if "h" in found else None
        if not self.order:
            return clock
        day = pc.binary_join_element_wise(_year(found["y"]), _two(found["m"]), _two(found["d"]), "-")
        if clock is None:
            return day
        return pc.if_else(pc.equal(found["h"], ""), day, pc.binary_join_element_wise(day, clock, " "))


def _two(texts: pa.Array) -> pa.Array:
    return pc.utf8_lpad(texts, 2, "0")


def _year(texts: pa.Array) -> pa.Array:
    recent = pc.less(pc.if_else(pc.equal(pc.utf8_length(texts), 2), texts, "99").cast(pa.int64()), _CENTURY)
    short = pc.binary_join_element_wise(pc.if_else(recent, "20", "19"), texts, "")
    return pc.if_else(pc.equal(pc.utf8_length(texts), 2), short, texts)


def _clock(found: dict[str, pa.Array]) -> pa.Array:
    hour = pc.if_else(pc.equal(found["h"], ""), "0", found["h"]).cast(pa.int64())
    half = pc.utf8_lower(found["p"])
    twelve = pc.subtract(hour, pc.if_else(pc.equal(hour, 12), 12, 0))
    later = pc.if_else(pc.equal(half, "p"), pc.add(twelve, 12), twelve)
    wrong = pc.or_(pc.greater(hour, 12), pc.less(hour, 1))
    hour = pc.if_else(pc.equal(half, ""), hour, pc.if_else(wrong, 99, later))
    seconds = pc.if_else(pc.equal(found["s"], ""), "00", found["s"])
    clock = pc.binary_join_element_wise(_two(hour.cast(pa.string())), found["i"], seconds, ":")
    return pc.binary_join_element_wise(clock, found["f"], "")


def _dates() -> list[tuple[str, str, str]]:
    """Return each order, its description and its pattern."""
    made = []
    for mark in _MARKS:
        for order, shown in ORDERS.items():
            for digits in (4,) if order == "ymd" else (4, 2):
                parts = {**_PARTS, "y": rf"(?P<y>\d{{{digits}}})"}
                year = " with two-digit years from 1969 to 2068" if digits == 2 else ""
                pattern = re.escape(mark).join(parts[part] for part in order)
                made.append((order, f"{shown.format(mark)}{year}", pattern))
    return made


TIMES = (WrittenTime(_CLOCK),)
DAYS = tuple(WrittenTime(pattern, order, shown) for order, shown, pattern in _dates())
MOMENTS = tuple(
    WrittenTime(f"{pattern}(?:[ T]{_CLOCK})?", order, f"{shown} with a time") for order, shown, pattern in _dates()
)
