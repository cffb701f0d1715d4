"""Messy files with rows that are known by construction: FlightLLM reads each, and no worse than DuckDB."""

from pathlib import Path

import pytest

from bench.messy import cases, duckdb_reads, main, ours
from bench.messy_csv import Case

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
    main(["--quick"])
    assert "'refused': 0" in capsys.readouterr().out
