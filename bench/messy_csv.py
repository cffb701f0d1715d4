"""Messy CSV files for `bench.messy`, each with the rows that it has by construction."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from random import Random
from typing import Any, Final

import pyarrow as pa

_WORDS: Final = (
    "late",
    "broken box",
    "Größe",
    "naïve café",
    "thanks a lot",
    "señor",
    "über",
    "no answer",
    "two parcels",
)
_PLAIN_WORDS: Final = ("late", "broken box", "thanks a lot", "no answer", "two parcels", "refund", "wrong size")
_NAMES: Final = ("id", "Amount", "city", "Created At", "note", "rating", "is open", "Preis", "day")
_START: Final = date(2019, 3, 4)
_MOMENT: Final = datetime(2019, 3, 4, 8, 15, 30)  # noqa: DTZ001 - a column without time zones


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its values, and the cells in which a file has them."""

    type: pa.DataType
    values: Sequence[Any]
    cells: Sequence[str]

    def shown(self, written: Callable[[Any], str]) -> "Column":
        """Return the column with its values written in another notation."""
        return replace(self, cells=["" if value is None else written(value) for value in self.values])


@dataclass(frozen=True, slots=True)
class Case:
    """A file or folder, and the table that it holds."""

    family: str
    name: str
    files: Mapping[str, bytes]
    """The content of each file by its path in the folder of the case."""
    names: Sequence[str]
    columns: Sequence[Column]
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of CSV files that a person gives, by their names in FlightLLM."""
    duckdb: str = ""
    """The files that DuckDB reads, as a pattern in the folder of the case; empty: the only file."""
    has_header: bool = True


@dataclass(frozen=True, slots=True)
class Shape:
    """How a CSV file is written."""

    delimiter: str = ","
    quote: str = '"'
    is_quoted: bool = False
    end: str = "\n"
    encoding: str = "utf-8"
    above: str = ""
    between: str = ""
    """A line after every fifth row."""
    last_end: bool = True
    trailing: bool = False
    """Whether a delimiter ends each line."""
    has_header: bool = True

    def write(self, names: Sequence[str], columns: Sequence[Column]) -> bytes:
        """Return the content of a file."""
        text = io.StringIO(newline="")
        writer = csv.writer(
            text,
            delimiter=self.delimiter,
            quotechar=self.quote,
            quoting=csv.QUOTE_ALL if self.is_quoted else csv.QUOTE_MINIMAL,
            lineterminator="\n",
        )
        lines, rows = [], list(zip(*(column.cells for column in columns), strict=True))
        for place, row in enumerate([names, *rows] if self.has_header else rows):
            writer.writerow(row)
            line = text.getvalue().removesuffix("\n") + self.delimiter * self.trailing
            lines.append(line)
            text.seek(0)
            text.truncate()
            if self.between and place % 5 == 4:
                lines.append(self.between)
        whole = self.end.join([self.above + lines[0], *lines[1:]]) + self.end * self.last_end
        if self.end != "\n":
            whole = whole.replace("\n", self.end) if self.end == "\r" else whole
        return whole.encode(self.encoding)


def whole_numbers(random: Random, rows: int) -> Column:
    """Return a column of whole numbers that count from a random one."""
    first = random.randrange(1, 9_000)
    values = [first + place for place in range(rows)]
    return Column(pa.int64(), values, list(map(str, values)))


def decimals(random: Random, rows: int, most: int = 900) -> Column:
    """Return a column of numbers with one or two digits after the point."""
    values = [random.randrange(1, most) + random.choice((0.5, 0.25, 0.75)) for _ in range(rows)]
    return Column(pa.float64(), values, list(map(str, values)))


def texts(random: Random, rows: int, words: Sequence[str] = _WORDS) -> Column:
    """Return a column of short texts."""
    values = [f"{random.choice(words)} {random.choice(words)}" for _ in range(rows)]
    return Column(pa.string(), values, values)


def days(random: Random, rows: int) -> Column:
    """Return a column of dates, of which some are after the twelfth of a month."""
    first = _START + timedelta(days=random.randrange(1, 900))
    values = [first + timedelta(days=11 * place) for place in range(rows)]
    return Column(pa.date32(), values, [str(value) for value in values])


def moments(random: Random, rows: int) -> Column:
    """Return a column of dates with times."""
    values = [_MOMENT + timedelta(hours=31 * place, minutes=random.randrange(60)) for place in range(rows)]
    return Column(pa.timestamp("us"), values, [str(value) for value in values])


def truths(random: Random, rows: int) -> Column:
    """Return a column of true and false."""
    values = [random.random() < 0.5 for _ in range(rows)]
    return Column(pa.bool_(), values, [str(value).lower() for value in values])


def with_gaps(random: Random, column: Column, missing: str = "") -> Column:
    """Return a column in which about a fifth of the values are NULL, written as `missing`; never the first one."""
    gone = {place for place in range(1, len(column.values)) if random.random() < 0.2} | {len(column.values) // 2}
    values = [None if place in gone else value for place, value in enumerate(column.values)]
    cells = [missing if place in gone else cell for place, cell in enumerate(column.cells)]
    return replace(column, values=values, cells=cells)


def table(random: Random, *, plain: bool = False) -> list[Column]:
    """Return three to five random columns, of which one is of numbers and one of texts."""
    rows = random.randrange(8, 30)
    made = [whole_numbers(random, rows), texts(random, rows, _PLAIN_WORDS if plain else _WORDS)]
    return made + [
        make(random, rows) for make in random.sample((decimals, days, truths, moments), random.randrange(1, 4))
    ]


def names_of(random: Random, columns: Sequence[Column]) -> list[str]:
    """Return names for columns."""
    return random.sample(_NAMES, len(columns))


_Made = tuple[Shape, list[Column], Mapping[str, str]]


def _quotes(random: Random, number: int) -> _Made:
    columns = table(random)
    rows = len(columns[0].values)
    odd = ('say "hi", ok', "first line\nsecond line", "a, b; c", 'ends with "quotes"', "tab\there")
    values = [random.choice(odd) if random.random() < 0.5 else f"{odd[place % 3]} {place}" for place in range(rows)]
    columns[1] = Column(pa.string(), values, values)
    if number % 4 == 3:
        values = ["it, they", *(f"we, and {place}" for place in range(1, rows))]
        columns[1] = Column(pa.string(), values, values)
        return Shape(quote="'", delimiter=",;"[number % 8 // 4]), columns, {}
    return Shape(is_quoted=number % 2 == 1, delimiter=",;\t"[number % 3]), columns, {}


def _headers(random: Random, number: int) -> _Made:
    columns = table(random)
    if number % 3 == 0:
        columns[1] = with_gaps(random, columns[1])
    if number % 3 == 1:
        columns = [columns[1], columns[0], *columns[2:]]
    if number % 6 == 4:
        columns = [texts(random, 12, _PLAIN_WORDS), texts(random, 12)]
    return Shape(has_header=number % 2 == 0), columns, {}


def _titles(random: Random, number: int) -> _Made:
    columns = table(random, plain=number % 2 == 0)
    delimiter = ",;\t"[number % 3]
    above = (
        "Orders of the shop\n",
        "Orders of the shop\n\n",
        "Orders, all of them\nWritten on Monday\n\n",
        f"Report{delimiter * (len(columns) - 1)}\n",
    )[number % 4]
    if number % 6 == 5:  # a short table: a text and a number
        columns = columns[:2][::-1]
        above = "Years of birth\n"
    return Shape(delimiter=delimiter, above=above), columns, {}


def _comments(random: Random, number: int) -> _Made:
    above = ("# made by a program\n", "# made by a program\n#\n# version 2\n", "#\n")[number % 3]
    return Shape(above=above, between="# a remark" if number % 4 == 3 else ""), table(random), {}


def _blank_lines(random: Random, number: int) -> _Made:
    columns = table(random)
    above = ("\n", "\n\n\n", "  \n", f"{',' * (len(columns) - 1)}\n")[number % 4]
    return Shape(above=above, between="" if number % 3 else " " * (number % 2)), columns, {}


def _encodings(random: Random, number: int) -> _Made:
    columns = table(random)
    words = ("Größe", "Käse", "Straße", "schön", "müde")
    columns[1] = texts(random, len(columns[0].values), words)
    encoding = ("utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-16-le")[number % 5]
    return Shape(encoding=encoding, delimiter=",;"[number % 2]), columns, {}


def _delimiters(random: Random, number: int) -> _Made:
    columns = table(random)
    values = [f"{cell}, and {cell}; or" for cell in columns[1].values] if number % 2 else columns[1].values
    columns[1] = Column(pa.string(), values, values)
    return Shape(delimiter=",;\t|"[number % 4], trailing=number % 5 == 4), columns, {}


def _decimal_commas(random: Random, number: int) -> _Made:
    columns = [*table(random)[:2]]
    rows = len(columns[0].values)
    if number % 2:
        large = decimals(random, rows, 9_000_000)
        columns.append(large.shown(lambda value: f"{value:,.2f}".translate(str.maketrans(",.", ".,"))))
    else:
        columns.append(decimals(random, rows).shown(lambda value: str(value).replace(".", ",")))
    return Shape(delimiter=";"), columns, {"decimal": ","} if number % 4 > 1 else {}


_NOTATIONS: Final[Sequence[tuple[Callable[[Random, int], Column], str]]] = (
    (days, "%d/%m/%Y"),
    (days, "%m/%d/%Y"),
    (days, "%Y/%m/%d"),
    (days, "%d.%m.%Y"),
    (days, "%m/%d/%y"),
    (days, "%d-%m-%Y"),
    (moments, "%Y-%m-%dT%H:%M:%S"),
    (moments, "%d.%m.%Y %H:%M:%S"),
    (moments, "%m/%d/%Y %I:%M:%S %p"),
    (moments, "%Y/%m/%d %H:%M:%S"),
)


def _dates(random: Random, number: int) -> _Made:
    columns = [*table(random)[:2]]
    make, notation = _NOTATIONS[number % len(_NOTATIONS)]
    column = make(random, len(columns[0].values)).shown(lambda value: f"{value:{notation}}")
    if number % 4 == 3:
        column = with_gaps(random, column)
    return Shape(), [*columns, column], {}


def _unclear_dates(random: Random, number: int) -> _Made:
    columns = [*table(random)[:2]]
    values = [date(2020 + place % 4, random.randrange(1, 13), random.randrange(1, 13)) for place in range(20)]
    values = values[: len(columns[0].values)] + [values[0]] * (len(columns[0].values) - len(values))
    column = Column(pa.date32(), values, [f"{value:%d/%m/%Y}" for value in values])
    return Shape(), [*columns, column], {"dates": "dmy"} if number % 2 else {}


def _times(random: Random, number: int) -> _Made:
    columns = [*table(random)[:2]]
    values = [time(random.randrange(24), random.randrange(60)) for _ in columns[0].values]
    column = Column(pa.time64("us"), values, []).shown(lambda value: f"{value:{('%H:%M', '%H:%M:%S')[number % 2]}}")
    return Shape(), [*columns, column], {}


def _missing(random: Random, number: int) -> _Made:
    columns = table(random)
    missing = ("NA", "N/A", "NULL", "", "\\N", "#N/A")[number % 6]
    first, second = columns[0], columns[1]
    return Shape(), [with_gaps(random, first, missing), second, *columns[2:]], {}


def _thousands(random: Random, number: int) -> _Made:
    columns = [*table(random)[:2]]
    values = [random.randrange(1_000, 4_000_000) for _ in columns[0].values]
    column = Column(pa.int64(), values, []).shown(lambda value: f"{value:,}")
    if number % 2:
        column = decimals(random, len(values), 4_000_000).shown(lambda value: f"{value:,.2f}")
    return Shape(delimiter=",;\t"[number % 3]), [*columns, column], {}


def _line_ends(random: Random, number: int) -> _Made:
    end = ("\r\n", "\n", "\r")[number % 3]
    return Shape(end=end, last_end=number % 2 == 0, trailing=number % 4 == 3), table(random), {}


def _codes(random: Random, number: int) -> _Made:
    """Return numbers that must stay texts, because a number would lose their zeros or their last digits."""
    columns = [*table(random)[:2]]
    rows = len(columns[0].values)
    values = (
        [f"0{random.randrange(1_000, 9_999)}" for _ in range(rows)],
        [f"+49 {random.randrange(10_000, 99_999)}" for _ in range(rows)],
        [f"{random.randrange(10**24, 10**25)}" for _ in range(rows)],
    )[number % 3]
    return Shape(), [*columns, Column(pa.string(), values, values)], {}


def _late_types(random: Random, number: int) -> _Made:
    rows = 21_000
    first = whole_numbers(random, rows)
    values: list[Any] = [place % 50 for place in range(rows)]
    if number % 2:
        values[-2] = 2.5
        late = Column(pa.float64(), values, [str(value) for value in values])
    else:
        values = [*map(str, values[:-2]), "unknown", "4"]
        late = Column(pa.string(), values, values)
    return Shape(delimiter=",;"[number % 2]), [first, late], {}


def _several(random: Random, number: int) -> _Made:
    """Return a file with several faults at once, as an office program writes it."""
    columns = [whole_numbers(random, 25), texts(random, 25), with_gaps(random, days(random, 25).shown(_german))]
    if number % 2:
        columns.append(with_gaps(random, decimals(random, 25), ("NA", "")[number % 4 // 2]))
    columns[1] = with_gaps(random, columns[1])
    shape = Shape(
        delimiter=";\t"[number % 2],
        is_quoted=number % 3 == 2,
        end=("\n", "\r\n")[number % 2],
        encoding=("utf-8-sig", "cp1252", "utf-16")[number % 3],
        above=("", "Bericht über Käufe\n\n", "# Bericht über Käufe\n")[number % 5 % 3],
        trailing=number % 7 == 6,
    )
    return shape, columns, {}


def _german(value: date) -> str:
    return f"{value:%d.%m.%Y}"


FAMILIES: Final[Mapping[str, tuple[Callable[[Random, int], _Made], int]]] = {
    "quotes": (_quotes, 16),
    "headers": (_headers, 18),
    "titles": (_titles, 30),
    "comments": (_comments, 12),
    "blank lines": (_blank_lines, 12),
    "encodings": (_encodings, 15),
    "delimiters": (_delimiters, 20),
    "decimal commas": (_decimal_commas, 12),
    "dates": (_dates, 20),
    "unclear dates": (_unclear_dates, 6),
    "times": (_times, 4),
    "missing values": (_missing, 18),
    "thousands": (_thousands, 12),
    "line ends": (_line_ends, 12),
    "codes": (_codes, 9),
    "late types": (_late_types, 2),
    "several faults": (_several, 20),
}
"""The function that makes the files of each family, and their number."""


def csv_cases(seed: int) -> Iterator[Case]:
    """Yield the CSV files; a seed always gives the same files."""
    for family, (make, count) in FAMILIES.items():
        for number in range(count):
            random = Random(f"{seed} {family} {number}")  # noqa: S311 - test data
            shape, columns, options = make(random, number)
            names = names_of(random, columns)
            content = shape.write(names, columns)
            if not shape.has_header:
                names = [f"column{place}" for place in range(1, len(columns) + 1)]
            name = "rows.tsv" if shape.delimiter == "\t" and number % 2 else "rows.csv"
            yield Case(
                family, f"{family} {number}", {name: content}, names, columns, options, has_header=shape.has_header
            )
