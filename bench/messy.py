"""Open some 300 messy files, and compare their rows with the rows that they have by construction.

    python -m bench.messy [--seed N] [--show] [--quick] [--json]

The files have quotes, titles, comments, encodings, decimal commas, dates in several orders, and further faults of real
files. JSON files and folders are among them. A seed always gives the same files. Each system reads each file without
options, except for a few files: there each gets the options for its notation. DuckDB reads the same files, if its
package is installed. A file counts as one of these:

- `right`: all rows have their values and types;
- `noted`: some columns are texts where values of another type were written, and a note names each of them;
- `silent`: the same without a note (DuckDB has no notes);
- `refused`: an error;
- `wrong`: other rows, values or types, or a column of texts changed.

`--show` prints the files that are not right in FlightLLM. `--quick` takes each fifth file.
"""

import importlib.metadata
import importlib.util
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import Options, options_parser, report
from bench.messy_csv import Case, csv_cases
from bench.messy_json import folder_cases, json_cases
from flightllm.catalog.converted import converted_format
from flightllm.catalog.files import open_file
from flightllm.config import CsvFile, FolderFile
from flightllm.connection.sources import named_tables
from flightllm.datafusion.contexts import scratch_context
from flightllm.errors import FlightLLMError
from flightllm.file_formats.conversion import Conversion
from flightllm.file_formats.options import CsvOptions

_DUCKDB_OPTIONS: Final = {
    ("decimal", ","): ", decimal_separator = ',', thousands = '.'",
    ("dates", "dmy"): ", dateformat = '%d/%m/%Y'",
}
"""The options that DuckDB gets in place of FlightLLM's."""
OUTCOMES: Final = ("right", "noted", "silent", "refused", "wrong")
_QUICK: Final = 5


def cases(seed: int = 1) -> list[Case]:
    """Return all files."""
    return [*csv_cases(seed), *json_cases(seed), *folder_cases(seed)]


def write(case: Case, folder: Path) -> Path:
    """Write a case's files below a folder; return the file or folder to open."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / next(iter(case.files)).partition("/")[0]


def read(path: Path, options: Mapping[str, str], target: Path) -> tuple[pa.Table, list[str]]:
    """Return the only table of a file or folder as FlightLLM opens it, and the notes.

    Raises:
        FlightLLMError: it cannot be read.
        ValueError: it holds several tables.
    """
    notes = list[str]()
    (found,) = named_tables([str(path)], notes.append)
    place = Path(found[1].path if isinstance(found[1], FolderFile | CsvFile) else found[1])
    if converted_format(place) is None:
        context = scratch_context()
        context.register_table("t", open_file("t", place).table)
        # the order of a folder's Parquet files is that of threads
        return context.sql("SELECT * FROM t ORDER BY 1").to_arrow_table(), notes
    notes += Conversion(place, CsvOptions.of(options), "", target).run()
    return pq.read_table(target), notes


def outcome(case: Case, found: pa.Table, notes: Sequence[str]) -> str:
    """Return how the rows of a case were read, one of `OUTCOMES`."""
    columns, width = found.columns, len(case.columns)
    if len(columns) == width + 1 and columns[-1].null_count == found.num_rows:
        columns = columns[:-1]  # of a delimiter at the end of each line
    if len(columns) != width or found.num_rows != len(case.columns[0].values):
        return "wrong"
    names = [name.lower() for name in found.column_names[:width]]
    if case.has_header and names != [name.lower() for name in case.names]:
        return "wrong"
    widened = set[str]()
    for name, column, one in zip(found.column_names[:width], columns, case.columns, strict=True):
        values = column.to_pylist()
        if values == list(one.values) and _same(column.type, one.type):
            continue
        if one.type == pa.string() and list(map(_text, values)) == list(one.values):
            continue
        if column.type != pa.string() or one.type == pa.string() or values != [cell or None for cell in one.cells]:
            return "wrong"
        widened.add(name)
    if not widened:
        return "right"
    return "noted" if widened <= set().union(*map(_named, notes)) else "silent"


def _named(note: str) -> set[str]:
    """Return the columns that a note names: one at its begin, or a list after its last colon."""
    one = re.match("the column (.+?) stays text", note)
    return {one[1]} if one else set(note.rpartition(": ")[2].split(", "))


def _text(value: Any) -> str | None:
    """Return a value as a text: a decimal number has all its digits, and texts can be JSON."""
    if isinstance(value, str) and value.startswith('"'):
        value = json.loads(value)
    return None if value is None else str(value)


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found))
    if pa.types.is_time(wanted):
        return bool(pa.types.is_time(found))
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(found))
    if pa.types.is_nested(wanted):
        return bool(pa.types.is_nested(found))
    return bool(found == wanted)


def ours(case: Case, folder: Path) -> str:
    """Return how FlightLLM reads a case below a folder."""
    try:
        path = write(case, folder)
        return outcome(case, *read(path, case.options, folder / "rows.parquet"))
    except FlightLLMError:
        return "refused"
    except ValueError:
        return "wrong"


def duckdb_reads(case: Case, folder: Path) -> str:
    """Return how DuckDB reads a case that `ours` has written below a folder."""
    import duckdb

    pattern = str(folder / (case.duckdb or next(iter(case.files))))
    reader = "read_json" if ".json" in pattern else "read_parquet" if ".parquet" in pattern else "read_csv"
    options = "".join(_DUCKDB_OPTIONS[option] for option in case.options.items())
    try:
        query: Any = duckdb.sql(f"SELECT * FROM {reader}('{pattern}'{options})")
        found = query.to_arrow_table()
    except duckdb.Error:
        return "refused"
    return outcome(case, found, ())


def measure(seed: int, every: int = 1, *, show: bool = False) -> dict[str, Any]:
    """Return the numbers of files by family, system and outcome."""
    has_duckdb = importlib.util.find_spec("duckdb") is not None
    families = dict[str, Any]()
    for case, folder in _folders(cases(seed)[::every]):
        found = {"flightllm": ours(case, folder)}
        if has_duckdb:
            found["duckdb"] = duckdb_reads(case, folder)
        if show and found["flightllm"] != "right":
            print(case.name, found)
        counts = families.setdefault(case.family, {system: dict.fromkeys(OUTCOMES, 0) for system in found})
        for system, how in found.items():
            counts[system][how] += 1
    version = {"duckdb": importlib.metadata.version("duckdb")} if has_duckdb else {}
    return {"seed": seed, **version, "families": families}


def _folders(found: Sequence[Case]) -> Iterator[tuple[Case, Path]]:
    for case in found:
        with tempfile.TemporaryDirectory(prefix="flightllm-bench-") as folder:
            yield case, Path(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = options_parser((__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="the files' seed (default 1)")
    parser.add_argument("--show", action="store_true", help="print the files that are not right")
    given = parser.parse_args(arguments)
    options = Options(given.json, given.quick, given.repeats)
    report("messy", options, measure(given.seed, _QUICK if options.quick else 1, show=given.show))


if __name__ == "__main__":
    main()
