"""The types of columns of texts: the narrowest that every value of a column has."""

from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
_FINE = r"[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r" ?(Z|[+-]\d{2}(:?\d{2})?)"
_NUMBER = r"-?(0|[1-9]\d*)"
_FLOAT = r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_NO_NUMBER = r"[+-]?(?i:nan|inf|infinity)"
_WHOLE = r"^-?\d{16,}$"
"""A whole number that a DOUBLE perhaps does not hold exactly."""
_MANY_DIGITS = r"^-?[0.]*[1-9](\.?\d){15}"
"""A number of which that is so: 16 digits or more, not counting zeros at its start."""
_CODE = r"^-?\d+[eE]\d+$"
"""What can be a code as well as a number: `10E5`."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, and a pattern that each of its values follows."""

    type: pa.DataType
    pattern: str

    def fits(self, texts: pa.Array) -> bool:
        """Tell whether trimmed texts without NULLs all have the type."""
        if not _all(texts, f"^({self.pattern})$") or (self.type == pa.float64() and not _exact(texts)):
            return False
        try:
            texts.cast(self.type)
        except pa.ArrowInvalid:  # a month 13, or a number beyond 64 bits
            return False
        return True


def _exact(texts: pa.Array) -> bool:
    """Tell whether texts of numbers are DOUBLEs without loss, and cannot be codes."""
    if _any(texts, _WHOLE) or _any(texts, _CODE):
        return False
    numbers = texts.filter(pc.invert(pc.match_substring_regex(texts, f"^{_NO_NUMBER}$")))
    doubles = numbers.cast(pa.float64())
    if not pc.all(pc.is_finite(doubles), min_count=0).as_py():
        return False
    odd = pc.and_(pc.match_substring_regex(numbers, _MANY_DIGITS), pc.not_equal(doubles.cast(pa.string()), numbers))
    return all(map(_comes_back, numbers.filter(odd).to_pylist()))


def _comes_back(text: str) -> bool:
    """Tell whether a number's DOUBLE, written with as many digits, is that number: so programs write their DOUBLEs."""
    try:
        number = Decimal(text)
        return Decimal(f"{float(text):.{len(number.as_tuple().digits) - 1}e}") == number
    except ArithmeticError:  # an exponent beyond all bounds
        return False


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


KINDS = (
    Kind(pa.bool_(), "(?i:true|false)"),
    Kind(pa.int64(), _NUMBER),
    Kind(pa.float64(), f"{_FLOAT}|{_NO_NUMBER}"),
    Kind(pa.date32(), _DAY),
    Kind(pa.timestamp("us"), f"{_DAY}({_TIME})?"),
    Kind(pa.timestamp("ns"), f"{_DAY}({_FINE})?"),
    Kind(pa.timestamp("us", "UTC"), f"{_DAY}{_TIME}{_ZONE}"),
)
"""From narrow to wide; a number with leading zeros is none, so that codes and telephone numbers stay as they are."""


class ColumnKinds:
    """The kinds that a column can have after all values seen so far."""

    def __init__(self) -> None:
        self._left = list(KINDS)
        self.filled = False
        """Whether there was a value."""
        self._number = False
        """Whether one of the values was a number."""

    def see(self, texts: pa.Array) -> None:
        """Look at more values, texts with NULLs."""
        given = _given(texts).drop_null()
        if len(given):
            self.filled = True
            self._left = [kind for kind in self._left if kind.fits(given)]
            self._number = self._number or not _all(given, f"^{_NO_NUMBER}$")

    @property
    def type(self) -> pa.DataType:
        """Return the type: that of a text where nothing else is left, or no value but NaN and infinity was seen."""
        left = [kind.type for kind in self._left if self._number or kind.type != pa.float64()]
        return left[0] if self.filled and left else pa.string()


def _given(texts: pa.Array) -> pa.Array:
    """Return texts without blanks around them, NULL for those of blanks alone."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts as values of a type that `ColumnKinds` found for them."""
    return texts if kind == pa.string() else _given(texts).cast(kind)
