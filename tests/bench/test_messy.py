"""Messy files with rows that are known by construction: FlightLLM reads each, and no worse than DuckDB."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from bench.messy import cases, duckdb_reads, main, ours, outcome, write
from bench.messy_csv import Case, Column

CASES = cases()
NOTED = {"decimal commas", "unclear dates"}
"""The families in which a note may say that a column stays one of texts."""


def checked(case: Case, folder: Path) -> None:
    """Check that a case has its rows and types, or the note that its family allows."""
    assert ours(case, folder) in ({"right", "noted"} if case.family in NOTED else {"right"})


@pytest.mark.parametrize("case", CASES[::4], ids=lambda case: case.name)
def test_a_sample(tmp_path: Path, case: Case) -> None:
    """Each fourth file has the rows, names and types with which it was made."""
    checked(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_all_files(tmp_path: Path, seed: int) -> None:
    """All files of several seeds have the rows, names and types with which they were made."""
    for place, case in enumerate(cases(seed)):
        folder = tmp_path / f"{place}"
        folder.mkdir()
        checked(case, folder)


@pytest.mark.slow
def test_no_worse_than_duckdb(tmp_path: Path) -> None:
    """Where DuckDB gives all rows their types, FlightLLM does too, or a note says why not."""
    pytest.importorskip("duckdb")
    for place, case in enumerate(CASES):
        folder = tmp_path / f"{place}"
        folder.mkdir()
        mine, theirs = ours(case, folder), duckdb_reads(case, folder)
        assert theirs != "right" or mine in {"right", "noted"}, case.name


def test_a_seed_always_gives_the_same_files() -> None:
    """The files depend on the seed alone, and there are about 300 of them."""
    assert [case.files for case in cases() if not case.duckdb] == [case.files for case in CASES if not case.duckdb]
    assert len(CASES) > 290
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_script_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """The script prints the outcomes of each family."""
    main(["--quick", "--json"])
    families = json.loads(capsys.readouterr().out.splitlines()[-1])["families"]
    sums = sum((Counter(found["flightllm"]) for found in families.values()), Counter())
    assert sums.total() == len(CASES[::5])
    assert sums["right"] + sums["noted"] == sums.total(), sums


@pytest.mark.parametrize(
    ("note", "how"),
    [
        ("the column day stays text, although its values look like numbers with decimal commas", "noted"),
        ("dates stay texts, because day and month can be in either order: id, day", "noted"),
        ("the column id stays text, although its values look like numbers with decimal commas", "silent"),
        ("dates stay texts, because day and month can be in either order: id", "silent"),
        ("read as latin-1", "silent"),
    ],
)
def test_a_note_names_its_column(note: str, how: str) -> None:
    """A column of texts in place of numbers is noted only by a note that names the column."""
    columns = [Column(pa.int64(), [1], ["1"]), Column(pa.float64(), [1.5], ["1,5"])]
    case = Case("decimal commas", "one", {}, ["id", "day"], columns)
    assert outcome(case, pa.table({"id": [1], "day": ["1,5"]}), [note]) == how


def test_both_systems_get_the_same_options(tmp_path: Path) -> None:
    """A file for which FlightLLM gets an option is read by DuckDB with its own option."""
    pytest.importorskip("duckdb")
    found = list[str]()
    for case in CASES:
        if case.options:
            folder = tmp_path / case.name
            folder.mkdir()
            write(case, folder)
            found.append(duckdb_reads(case, folder))
    assert found == ["right"] * 9
