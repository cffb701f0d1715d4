"""A conversion of files, a folder, or a part of a file, which also a process without the server's parts can run."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from flightllm.errors import InvalidInputError
from flightllm.file_formats.compressed import ending
from flightllm.file_formats.csv_files import convert_csv
from flightllm.file_formats.documents import ENDINGS as DOCUMENTS
from flightllm.file_formats.documents import convert_documents
from flightllm.file_formats.excel import convert_sheet
from flightllm.file_formats.json_files import convert_json
from flightllm.file_formats.json_values import ENDINGS as JSON_ENDINGS
from flightllm.file_formats.options import CsvOptions
from flightllm.file_formats.origins import add_origins, origins_of
from flightllm.file_formats.parquet_files import convert_parquet
from flightllm.file_formats.parts import ENDINGS, MEMBERS, parts_of
from flightllm.file_formats.paths import base_of, files_of
from flightllm.file_formats.sqlite import ENDINGS as SQLITE
from flightllm.file_formats.sqlite import convert_sqlite
from flightllm.file_formats.zip_files import ENDINGS as ZIP
from flightllm.file_formats.zip_files import taken_out, zip_members


@dataclass(frozen=True, slots=True)
class Conversion:
    """The source of a conversion: a file, a folder of CSV or JSON files, or a sheet of a file."""

    path: Path
    csv: CsvOptions
    sheet: str
    target: Path
    form: str = ""
    """The format `csv`, `json`, `parquet` or `text`, if another than the names of the files tell."""
    most_bytes: int | None = None
    """The most bytes of a file that is taken out of a zip file; None for no limit but the disk."""

    @property
    def unpacked(self) -> Path:
        """Return the folder for a file that is taken out of a zip file, while it is read."""
        return self.target.with_suffix(".unpacked")

    @property
    def is_sheet(self) -> bool:
        """Return whether the file holds several tables, as a spreadsheet does."""
        return not self.form and self.path.is_file() and self.path.name.lower().endswith(ENDINGS)

    @property
    def is_json(self) -> bool:
        """Return whether the files are JSON."""
        return self.form == "json" if self.form else all(ending(file) in JSON_ENDINGS for file in self.files)

    @property
    def files(self) -> list[Path]:
        """Return the files to read."""
        found = files_of(self.path, any_name=bool(self.form))
        if self.form == "text" and self.path.is_dir():
            return [file for file in found if ending(file) in DOCUMENTS]
        if self.form == "parquet" and self.path.is_dir():
            return [file for file in found if ending(file) == ".parquet"]
        return found

    def run(self) -> list[str]:
        """Write the Parquet file in this process; return notes, one line each.

        Raises:
            InvalidInputError: a file cannot be read; the message says where.
            LimitExceededError: a file in a zip file has more than `most_bytes` bytes.
        """
        if self.is_sheet and self.path.name.lower().endswith(ZIP):
            return self._run_member()
        if self.is_sheet and self.path.name.lower().endswith(SQLITE):
            return convert_sqlite(self.path, self.sheet, self.target)
        if self.is_sheet:
            return convert_sheet(self.path, self.sheet, self.target)
        if self.form == "text":
            return convert_documents(self.files, base_of(self.path), self.target)
        return self._run_files(self.files)

    def _run_files(self, files: Sequence[Path]) -> list[str]:
        """Convert the files, and add the columns that their places give."""
        counts = list[int]()
        if self.form == "parquet":
            from flightllm.common.arrow_types import with_plain_types  # this imports DataFusion

            schema = with_plain_types(pq.read_schema(files[0]).remove_metadata())
            notes = convert_parquet(files, schema, self.target, counts)
        elif self.is_json:
            notes = convert_json(files, self.target, self.csv, counts)
        else:
            notes = convert_csv(files, self.csv, self.target, counts)
        origins = origins_of(files, base_of(self.path), self.csv, pq.read_schema(self.target).names)
        if origins:
            add_origins(self.target, counts, origins)
        return notes

    def _run_member(self) -> list[str]:
        """Convert a member of a zip file."""
        member = self.sheet or next(iter(zip_members(self.path, MEMBERS)), "")
        if not member:
            raise InvalidInputError(f"it has no file whose name ends in one of {', '.join(MEMBERS)}")
        with taken_out(self.path, member, self.unpacked, self.most_bytes) as file:
            if file.suffix.lower() != ".parquet":
                return replace(self, path=file, sheet="").run()
            shutil.copyfile(file, self.target)
            return []


@dataclass(frozen=True, slots=True)
class SheetNames:
    """The reading of a spreadsheet's list of sheets; the process tells the names beside `target`."""

    path: Path
    target: Path
    most_bytes: int | None = None
    """The most bytes of the files in a zip file, together; None for no limit."""

    def run(self) -> list[str]:
        """Return the names of the sheets.

        Raises:
            InvalidInputError: the file cannot be read.
            LimitExceededError: the files in a zip file have more than `most_bytes` bytes together.
        """
        return parts_of(self.path, self.most_bytes)
