"""Detects the types of text columns: for each, the narrowest type that fits all of its values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.file_formats.dates import DAYS, MOMENTS, TIMES, WrittenTime

_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"
_FINE = r"[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r" ?(Z|[+-]\d{2}(:?\d{2})?)"
_NUMBER = r"-?(0|[1-9]\d*)"
_FLOAT = r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_COMMAS = r"-?(0|[1-9]\d*|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?"
"""Matches a number with a decimal comma; dots can separate thousands."""
_COMMA_FLOAT = rf"{_COMMAS}([eE][+-]?\d+)?"
_DECIMAL_COMMA = r"\..*,|,(\d{1,2}|\d{4,})$"
"""Matches a comma in a number that is surely decimal; in `1,234` it can also separate thousands."""
_NO_NUMBER = r"[+-]?(?i:nan|inf|infinity)"
_WHOLE = r"^-?\d{16,}$"
"""Matches a whole number that a DOUBLE perhaps cannot store exactly."""
_MANY_DIGITS = r"^-?[0.]*[1-9](\.?\d){15}"
"""Matches a number with 16 digits or more, without leading zeros, that a DOUBLE perhaps cannot store exactly."""
_EXACT_DIGITS = 15
"""A DOUBLE stores each whole number of this many digits exactly."""
_FIRST_DAY, _LAST_DAY = "1678-01-01", "2262-01-01"
"""Times with nanoseconds reach from the first to the last of these days."""
_CODE = r"^-?\d+[eE]\d+$"
"""Matches a text that can be a code as well as a number: `10E5`."""


_GROUPED = r"-?(0|[1-9]\d*|[1-9]\d{0,2}(,\d{3})+)"
"""Matches a whole number whose thousands commas can separate."""
_SURELY_GROUPED = r",\d{3}[,.]"
"""Matches commas that surely separate thousands; in `1,234` the comma can also be decimal."""
MISSING = ("NA", "N/A", "n/a", "#N/A", "NULL", "null", "\\N")
"""Texts that mean NULL among values of another type than text."""
_MISSING = pa.array(MISSING)


@dataclass(frozen=True, slots=True)
class TypePattern:
    """A type, with the pattern of its values."""

    type: pa.DataType
    pattern: str
    decimal: str = "."
    grouped: bool = False
    """Whether commas can separate thousands."""
    written: WrittenTime | None = None
    """The notation of dates, if it is another than that of ISO 8601."""
    guessed: bool = False
    """Whether no option says that commas are decimal."""

    @property
    def is_plain(self) -> bool:
        """Return whether the notation is the usual one."""
        return not self.grouped and not self.guessed and self.written is None

    def fits(self, texts: pa.Array) -> bool:
        """Return whether trimmed texts without NULLs all have the type."""
        if not re.fullmatch(self.pattern, texts[0].as_py()):  # most types end here, at the first value
            return False
        if not _all(texts, f"^({self.pattern})$"):
            return False
        texts = self.plain(texts)
        if self.type == pa.float64() and not _exact(texts):
            return False
        try:
            self.cast(texts)
        except pa.ArrowInvalid:  # for example a month 13, or a number beyond 64 bits
            return False
        return True

    def cast(self, texts: pa.Array) -> pa.Array:
        """Return texts, as `plain` returns them, cast to the type."""
        if pa.types.is_time(self.type):  # pyarrow casts texts to times only by way of a day
            day = pc.binary_join_element_wise("1970-01-01", texts, " ")
            return day.cast(pa.timestamp("us")).cast(pa.time64("us")).cast(self.type)
        return texts.cast(self.type)

    def plain(self, texts: pa.Array) -> pa.Array:
        """Return texts in the notation that a cast takes."""
        if self.written is not None:
            return self.written.iso(texts)
        if self.grouped:
            return pc.replace_substring(texts, ",", "")
        return _with_dots(texts, self.decimal) if self.type == pa.float64() else texts


def _with_dots(texts: pa.Array, decimal: str) -> pa.Array:
    """Return texts of numbers in the notation of DuckDB and Python: `1.234,56` becomes `1234.56`."""
    return texts if decimal == "." else pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")


def _exact(texts: pa.Array) -> bool:
    """Return whether texts of numbers fit into DOUBLE without loss, and cannot be codes."""
    if _any(texts, _WHOLE) or _any(texts, _CODE):
        return False
    numbers = texts.filter(pc.invert(pc.match_substring_regex(texts, f"^{_NO_NUMBER}$")))
    doubles = numbers.cast(pa.float64())
    if not pc.all(pc.is_finite(doubles), min_count=0).as_py():
        return False
    odd = pc.and_(pc.match_substring_regex(numbers, _MANY_DIGITS), pc.not_equal(doubles.cast(pa.string()), numbers))
    return all(map(_comes_back, numbers.filter(odd).to_pylist()))


def _comes_back(text: str) -> bool:
    """Return whether a DOUBLE, printed with as many digits as the text, gives the text's number again."""
    try:
        number = Decimal(text)
        return Decimal(f"{float(text):.{len(number.as_tuple().digits) - 1}e}") == number
    except ArithmeticError:  # the exponent is too large
        return False


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


KINDS = (
    TypePattern(pa.bool_(), "(?i:true|false)"),
    TypePattern(pa.int64(), _NUMBER),
    TypePattern(pa.float64(), f"{_FLOAT}|{_NO_NUMBER}"),
    TypePattern(pa.date32(), _DAY),
    TypePattern(pa.timestamp("us"), f"{_DAY}({_TIME})?"),
    TypePattern(pa.timestamp("ns"), f"{_DAY}({_FINE})?"),
    TypePattern(pa.timestamp("us", "UTC"), f"{_DAY}{_TIME}{_ZONE}"),
)
"""From narrow to wide. Numbers with leading zeros do not match, so that codes and telephone numbers stay texts."""
DATES = KINDS[3:]
"""The kinds of dates and times in the notation of ISO 8601."""
CLOCKS = tuple(TypePattern(pa.time64("ns"), kind.pattern, written=kind) for kind in TIMES)
"""The kinds of times of day."""
_WRITTEN = (
    TypePattern(pa.int64(), _GROUPED, grouped=True),
    TypePattern(pa.float64(), rf"{_GROUPED}(\.\d+)?", grouped=True),
    *CLOCKS,
    *(TypePattern(pa.date32(), kind.pattern, written=kind) for kind in DAYS),
    *(TypePattern(pa.timestamp("us"), kind.pattern, written=kind) for kind in MOMENTS),
)
"""The kinds in notations that people write. A note names each that is used."""
_COMMA_KINDS = tuple(
    TypePattern(kind.type, f"{_COMMA_FLOAT}|{_NO_NUMBER}", ",") if kind.type == pa.float64() else kind for kind in KINDS
)


_GUESSED = TypePattern(pa.float64(), _COMMA_FLOAT, ",", guessed=True)


def kinds_of(decimal: str = ".", dates: str | None = None, *, commas_are_decimal: bool = False) -> list[TypePattern]:
    """Return the kinds of values in CSV files, from narrow to wide; `dates` is the only order of dates to try.

    `commas_are_decimal` means that commas in numbers are probably decimal, as in files with semicolons.
    """
    written = [kind for kind in _WRITTEN if not (kind.grouped and decimal == ",")]
    if dates is not None:
        written = [kind for kind in written if kind.written is None or kind.written.order in {"", dates}]
    guessed = [_GUESSED] if commas_are_decimal and decimal == "." else []
    return [*(_COMMA_KINDS if decimal == "," else KINDS), *written, *guessed]


class ColumnKinds:
    """The types that a column can have, given all values seen so far."""

    def __init__(
        self, decimal: str = ".", kinds: Sequence[TypePattern] | None = None, *, commas_are_decimal: bool = False
    ) -> None:
        """Begin with all types; `commas_are_decimal` means that a comma in `1,234` is probably decimal."""
        self.decimal = decimal
        """The decimal separator."""
        self.kinds = kinds_of(decimal) if kinds is None else kinds
        """All kinds that a value can have."""
        self._left = list(self.kinds)
        self._grouped = not commas_are_decimal
        """Whether commas surely separate thousands, if values have them."""
        self.missing: set[str] = set()
        """The texts that mean NULL if the column is not of texts."""
        self.filled = False
        """Whether any value was seen."""
        self._number = False
        """Whether a value was a number, other than NaN and infinity."""
        self._commas = True
        """Whether all values can be numbers with decimal commas."""
        self._dots = self._comma = self._decimal_comma = False
        """Whether a value had a dot, a comma, or a comma that is surely decimal, while `_commas` was true."""
        self.dots_group = False
        """Whether the file has decimal commas, so that dots separate thousands: `1.000`."""
        self._choices = False
        """Whether a value such as `1,3` can also be two answers of a survey."""

    def see(self, texts: pa.Array) -> None:
        """Take more values into account: texts and NULLs."""
        if self.filled and not self._left and not self._commas:
            return  # nothing can change any more
        given = self._without_missing(_given(texts).drop_null())
        if len(given):
            self.filled = True
            self._grouped = self._grouped or _any(given, _SURELY_GROUPED)
            self._narrow(given)
            self._number = self._number or not _all(given, f"^{_NO_NUMBER}$")
            if self._commas and pa.int64() not in {kind.type for kind in self._left}:
                self._see_commas(given)

    def _narrow(self, given: pa.Array) -> None:
        """Keep the types that fit; a narrow type that fits can show that wider ones do."""
        left, implied = list[TypePattern](), set[pa.DataType]()
        for kind in self._left:
            wider = kind.grouped or (kind.written is not None and kind.written.takes_iso)
            if wider and any(other.is_plain and other.type == kind.type for other in left):
                left.append(kind)  # the values are in the usual notation, which is part of this one
            elif (kind.is_plain and kind.type in implied) or kind.fits(given):
                left.append(kind)
                implied |= _implied(kind.type, given) if kind.is_plain else set()
        self._left = left

    def _without_missing(self, given: pa.Array) -> pa.Array:
        missing = pc.is_in(given, _MISSING)
        if not pc.any(missing).as_py():
            return given
        self.missing.update(given.filter(missing).to_pylist())
        return given.filter(pc.invert(missing))

    def _see_commas(self, given: pa.Array) -> None:
        self._commas = _all(given, f"^({_COMMAS if self.decimal == '.' else f'{_COMMA_FLOAT}|{_NO_NUMBER}'})$")
        self._dots = self._dots or _any(given, r"\.")
        self._comma = self._comma or _any(given, ",")
        self._decimal_comma = self._decimal_comma or _any(given, _DECIMAL_COMMA)
        self._choices = self._choices or _any(given, r",\d$")

    @property
    def separators(self) -> str:
        """Return the separators of thousands and decimals that a text column seems to have: `.,`, `,` or "".

        The result is "" where decimal commas are read already.
        """
        if self.decimal == "," or self.type != pa.string() or not (self._commas and self._decimal_comma):
            return ""
        return ".," if self._dots else ","

    @property
    def has_groups_of_dots(self) -> bool:
        """Return whether all values with dots have groups of three digits, as in `1.000`."""
        return self.type == pa.float64() and self._commas and self._dots and not self._comma

    def numbers(self, texts: pa.Array) -> list[float]:
        """Return the values of a number column as floats, without NULLs."""
        return [] if self.kind is None else list(map(float, cast(texts, self.kind).drop_null().to_pylist()))

    @property
    def kind(self) -> TypePattern | None:
        """Return the narrowest kind that fits, or None for texts, also if only NaN and infinity were seen."""
        fitting = (kind for kind in self._fitting() if self._grouped or not kind.grouped)
        sure = (self._decimal_comma and not self._choices) or self.dots_group
        left = [kind for kind in fitting if sure or not kind.guessed]
        if self.dots_group:
            left = [kind for kind in left if kind.guessed]
        if not left or (left[0].written is not None and self.unclear_dates):
            return None
        return left[0]

    @property
    def type(self) -> pa.DataType:
        """Return the narrowest type that fits; text if no other type fits."""
        return pa.string() if self.kind is None else self.kind.type

    def cast_to(self, texts: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Return texts cast to a type, by the notation that fits all values, or else by that of ISO 8601.

        Raises:
            ArrowInvalid: a text does not have the type.
        """
        if wanted == pa.string():
            return texts
        kind = next((kind for kind in self._left if kind.type == wanted), TypePattern(wanted, "", self.decimal))
        return cast(texts, kind)

    @property
    def texts(self) -> bool:
        """Return whether the values can only be texts."""
        return not self._fitting()

    @property
    def unclear_dates(self) -> bool:
        """Return whether dates fit in several orders of day and month."""
        left = self._fitting()
        if not left or left[0].written is None:
            return False
        return len({kind.written.order for kind in left if kind.written is not None and kind.type == left[0].type}) > 1

    def _fitting(self) -> list[TypePattern]:
        if not self.filled:
            return []
        unclear = self.decimal == "," and self._dots and not self._comma  # `1.234` can also be a version
        return [kind for kind in self._left if (self._number and not unclear) or kind.type != pa.float64()]


def _implied(narrow: pa.DataType, texts: pa.Array) -> set[pa.DataType]:
    """Return wider types that surely fit texts of a narrow type."""
    if narrow == pa.int64() and pc.max(pc.utf8_length(texts)).as_py() <= _EXACT_DIGITS:
        return {pa.float64()}
    if narrow == pa.date32():
        ends = pc.min_max(texts).as_py()
        if ends["min"] >= _FIRST_DAY and ends["max"] <= _LAST_DAY:
            return {pa.timestamp("us"), pa.timestamp("ns")}
    return set()


def _given(texts: pa.Array) -> pa.Array:
    """Return texts without surrounding blanks; NULL for texts of only blanks."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def cast(texts: pa.Array, kind: TypePattern | None, *, missing: bool = True) -> pa.Array:
    """Return texts cast to the kind that `ColumnKinds` found; with `missing`, some texts mean NULL."""
    if kind is None:
        return texts
    given = _given(texts)
    if missing:
        given = pc.if_else(pc.is_in(given, _MISSING), pa.scalar(None, pa.string()), given)
    return kind.cast(kind.plain(given))
