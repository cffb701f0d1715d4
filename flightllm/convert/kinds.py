"""The types of columns of texts: the narrowest that every value of a column has."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
_FINE = r"[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r" ?(Z|[+-]\d{2}(:?\d{2})?)"
_NUMBER = r"-?(0|[1-9]\d*)"
_FLOAT = r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_NO_NUMBER = r"[+-]?(?i:nan|inf|infinity)"
_MANY_DIGITS = r"^[+-]?\d{16,}$"
"""A whole number that a DOUBLE does not hold exactly."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, and a pattern that each of its values follows."""

    type: pa.DataType
    pattern: str

    def fits(self, texts: pa.Array) -> bool:
        """Tell whether trimmed texts without NULLs all have the type."""
        if not pc.all(pc.match_substring_regex(texts, f"^({self.pattern})$")).as_py():
            return False
        if self.type == pa.float64() and pc.any(pc.match_substring_regex(texts, _MANY_DIGITS)).as_py():
            return False
        try:
            texts.cast(self.type)
        except pa.ArrowInvalid:  # a month 13, or a number beyond 64 bits
            return False
        return True


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

    def see(self, texts: pa.Array) -> None:
        """Look at more values, texts with NULLs."""
        given = _given(texts).drop_null()
        if len(given):
            self.filled = True
            self._left = [kind for kind in self._left if kind.fits(given)]

    @property
    def type(self) -> pa.DataType:
        """Return the type: that of a text where nothing else is left, or no value was seen."""
        return self._left[0].type if self.filled and self._left else pa.string()


def _given(texts: pa.Array) -> pa.Array:
    """Return texts without blanks around them, NULL for those of blanks alone."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts as values of a type that `ColumnKinds` found for them."""
    return texts if kind == pa.string() else _given(texts).cast(kind)
