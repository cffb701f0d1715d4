"""The options of CSV files, some of them also of JSON and Parquet files; the others are detected from the file."""

import codecs
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

import pyarrow as pa

from flightllm.errors import InvalidInputError
from flightllm.file_formats.dates import ORDERS

_NAMES = {
    "has_header": "header",
    "delim": "delimiter",
    "sep": "delimiter",
    "null_value": "null",
    "nulls": "null",
    "nullstr": "null",
    "dateformat": "dates",
    "date_format": "dates",
    "dtypes": "types",
    "column_types": "types",
    "decimal_separator": "decimal",
}
"""Other systems' names for the options."""
TYPES: Mapping[str, pa.DataType] = {
    "text": pa.string(),
    "varchar": pa.string(),
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int64(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "float": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "time": pa.time64("ns"),
}
"""The names of types in the option `types`."""
_OTHERS = {
    "json": ("filename", "hive_partitioning", "types"),
    "parquet": ("filename", "hive_partitioning"),
    "text": (),
    "arrow": (),
}
"""The options of other formats than CSV."""
_WORDS = {"true": True, "false": False}
_TAB = "\\t"


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The known options of a CSV file; None means that an option is detected from the file."""

    delimiter: str | None = None
    quote: str | None = None
    """"" means that cells are not quoted."""
    escape: str | None = None
    null: tuple[str, ...] = ()
    """Texts that mean NULL, in addition to the empty text."""
    encoding: str | None = None
    header: bool | None = None
    decimal: str | None = None
    """The decimal separator; if it is a comma, dots can separate thousands."""
    skip: int | None = None
    """The number of lines above the table."""
    comment: str | None = None
    """The character that begins lines to leave out."""
    dates: str | None = None
    """The order of day, month and year: `dmy`, `mdy` or `ymd`."""
    filename: bool | None = None
    """Whether the column `filename` has the path of each row's file."""
    hive_partitioning: bool | None = None
    """False means that folders such as `year=2024` give no columns."""
    types: tuple[tuple[str, str], ...] = ()
    """Columns with the types that they must have, keys of `TYPES`."""

    @classmethod
    def of(cls, given: Mapping[str, str], form: str = "csv") -> Self:
        """Read options by name, each given as a text; a prefix `format.` is ignored. `form` is the files' format.

        Raises:
            InvalidInputError: a name is unknown, or its value is invalid.
        """
        named: dict[str, str] = {}
        for name, value in given.items():
            plain = name.lower().removeprefix("format.")
            named[_NAMES.get(plain, plain)] = value
        if "newlines_in_values" in named:
            raise InvalidInputError(
                "newlines_in_values: line breaks inside quotes are always read; leave this option out"
            )
        names = _OTHERS.get(form, tuple(cls.__dataclass_fields__))
        for name in named:
            if name not in names:
                known = f"write one of {', '.join(names)}" if names else "leave it out"
                raise InvalidInputError(f"{name!r} is not an option of {form.upper()} files; {known}")
        return cls(
            delimiter=_character(named, "delimiter"),
            quote="" if named.get("quote") == "" else _character(named, "quote"),
            escape=_character(named, "escape"),
            null=tuple(part.strip() for part in named["null"].split(",")) if "null" in named else (),
            encoding=_encoding(named),
            header=_truth(named, "header"),
            decimal=_decimal(named),
            skip=_number(named, "skip"),
            comment=_character(named, "comment"),
            dates=_dates(named),
            filename=_truth(named, "filename"),
            hive_partitioning=_truth(named, "hive_partitioning"),
            types=_types(named),
        )

    def as_json(self) -> dict[str, object]:
        """Return the known options, for `of_json`."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}

    @classmethod
    def of_json(cls, written: Mapping[str, object]) -> Self:
        """Read options that `as_json` returned.

        Raises:
            TypeError: the mapping has other keys.
        """
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
        if "types" in values:  # JSON has no tuples
            values["types"] = tuple((str(name), str(kind)) for name, kind in dict(written["types"]).items())  # type: ignore[call-overload]
        return cls(**values)  # type: ignore[arg-type] # as written


def _character(given: Mapping[str, str], name: str) -> str | None:
    if name not in given:
        return None
    value = given[name].replace(_TAB, "\t")
    if len(value) != 1 or value in "\r\n":
        raise InvalidInputError(f"{name}: expected one character, such as ';', got {given[name]!r}")
    return value


def _encoding(given: Mapping[str, str]) -> str | None:
    if "encoding" not in given:
        return None
    try:
        found = codecs.lookup(given["encoding"])
        b"".decode(found.name)
    except (LookupError, ValueError) as error:  # unknown, or a codec from bytes to bytes
        raise InvalidInputError(
            f"encoding: {given['encoding']!r} is unknown; write utf-8, utf-16, latin-1, cp1252 or another"
            " encoding of Python"
        ) from error
    return "utf-8-sig" if found.name == "utf-8" else found.name


def _decimal(given: Mapping[str, str]) -> str | None:
    if given.get("decimal", ".") not in {".", ","}:
        raise InvalidInputError(f"decimal: expected ',' or '.', got {given['decimal']!r}")
    return given.get("decimal")


def _number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not given[name].isdecimal():
        raise InvalidInputError(f"{name}: expected a number of lines, such as 2, got {given[name]!r}")
    return int(given[name])


def _dates(given: Mapping[str, str]) -> str | None:
    if "dates" not in given:
        return None
    order = "".join(letter for letter in given["dates"].lower() if letter in "dmy")
    order = "".join(dict.fromkeys(order))  # of `%d/%m/%Y` and `dd/mm/yyyy`
    if order not in ORDERS:
        raise InvalidInputError(f"dates: expected 'dmy', 'mdy' or 'ymd', got {given['dates']!r}")
    return order


def _types(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = list[tuple[str, str]]()
    for part in given.get("types", "").strip(" {}").split(",") if "types" in given else ():
        name, mark, kind = part.replace("=", ":").rpartition(":")
        kind = kind.strip().strip("'\"").lower()
        if not mark or kind not in TYPES:
            raise InvalidInputError(
                f"types: expected columns with types, such as 'zip=text, price=double', got {part.strip()!r}; a type is"
                f" one of {', '.join(TYPES)}"
            )
        found.append((name.strip().strip("'\""), kind))
    return tuple(found)


def _truth(given: Mapping[str, str], name: str) -> bool | None:
    if name not in given:
        return None
    if given[name].lower() not in _WORDS:
        raise InvalidInputError(f"{name}: expected 'true' or 'false', got {given[name]!r}")
    return _WORDS[given[name].lower()]


NOTHING_SAID = CsvOptions()
"""No options: all are detected from the file."""
