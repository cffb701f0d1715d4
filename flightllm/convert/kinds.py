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
_COMMAS = r"-?(0|[1-9]\d*|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?"
"""A number whose decimals follow a comma; dots can stand between thousands."""
_COMMA_FLOAT = rf"{_COMMAS}([eE][+-]?\d+)?"
_DECIMAL_COMMA = r"\..*,|,(\d{1,2}|\d{4,})$"
"""A comma in a number that separates no thousands: `1,234` can be 1234 as well."""
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
    decimal: str = "."

    def fits(self, texts: pa.Array) -> bool:
        """Tell whether trimmed texts without NULLs all have the type."""
        if not _all(texts, f"^({self.pattern})$"):
            return False
        if self.type == pa.float64():
            texts = _with_dots(texts, self.decimal)
            if not _exact(texts):
                return False
        try:
            texts.cast(self.type)
        except pa.ArrowInvalid:  # a month 13, or a number beyond 64 bits
            return False
        return True


def _with_dots(texts: pa.Array, decimal: str) -> pa.Array:
    """Return texts of numbers as DuckDB and Python write them: `1.234,56` becomes `1234.56`."""
    return texts if decimal == "." else pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")


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
_COMMA_KINDS = tuple(
    Kind(kind.type, f"{_COMMA_FLOAT}|{_NO_NUMBER}", ",") if kind.type == pa.float64() else kind for kind in KINDS
)


class ColumnKinds:
    """The kinds that a column can have after all values seen so far."""

    def __init__(self, decimal: str = ".") -> None:
        self.decimal = decimal
        """What stands before the decimals of a number."""
        self._left = list(_COMMA_KINDS if decimal == "," else KINDS)
        self.filled = False
        """Whether there was a value."""
        self._number = False
        """Whether one of the values was a number."""
        self._commas = True
        """Whether all values can be numbers with decimal commas."""
        self._dots = self._comma = self._decimal_comma = False
        """Whether a value had a dot, a comma, and one that separates no thousands, while `_commas` held."""

    def see(self, texts: pa.Array) -> None:
        """Look at more values, texts with NULLs."""
        given = _given(texts).drop_null()
        if len(given):
            self.filled = True
            self._left = [kind for kind in self._left if kind.fits(given)]
            self._number = self._number or not _all(given, f"^{_NO_NUMBER}$")
            if self._commas and pa.int64() not in {kind.type for kind in self._left}:
                self._see_commas(given)

    def _see_commas(self, given: pa.Array) -> None:
        self._commas = _all(given, f"^({_COMMAS if self.decimal == '.' else f'{_COMMA_FLOAT}|{_NO_NUMBER}'})$")
        self._dots = self._dots or _any(given, r"\.")
        self._comma = self._comma or _any(given, ",")
        self._decimal_comma = self._decimal_comma or _any(given, _DECIMAL_COMMA)

    @property
    def separators(self) -> str:
        """Return what a column of texts seems to separate thousands and decimals by, `.,` or `,`; empty: nothing.

        Nothing is to be said where decimal commas are read.
        """
        if self.decimal == "," or self.type != pa.string() or not (self._commas and self._decimal_comma):
            return ""
        return ".," if self._dots else ","

    def numbers(self, texts: pa.Array) -> list[float]:
        """Return texts of a column of numbers as these, without NULLs."""
        return [float(text) for text in _with_dots(_given(texts).drop_null(), self.decimal).to_pylist()]

    @property
    def type(self) -> pa.DataType:
        """Return the type: that of a text where nothing else is left, or no value but NaN and infinity was seen."""
        unclear = self.decimal == "," and self._dots and not self._comma  # 1.234 can be a version as well
        left = [kind.type for kind in self._left if (self._number and not unclear) or kind.type != pa.float64()]
        return left[0] if self.filled and left else pa.string()


def _given(texts: pa.Array) -> pa.Array:
    """Return texts without blanks around them, NULL for those of blanks alone."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def cast(texts: pa.Array, kind: pa.DataType, decimal: str = ".") -> pa.Array:
    """Return texts as values of a type that `ColumnKinds` found for them."""
    if kind == pa.string():
        return texts
    return _with_dots(_given(texts), decimal if kind == pa.float64() else ".").cast(kind)
