"""Warnings at the line of the calling program, and short errors of public classes."""

import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import flightllm
from flightllm.connection.callers import warn_once
from flightllm.connection.connection import Connection
from flightllm.connection.embedded import OpenDatabase
from flightllm.errors import AICallError
from flightllm.session.database import Database
from tests.connection.conftest import fake


def test_errors_are_short(both: Connection) -> None:
    """An error has no cause and few lines, and its class is public."""
    for text in ("SELECT nothing", "selct 1", "SELECT ai_gen('x {b}') FROM (VALUES ('a')) AS v(a)"):
        with pytest.raises(flightllm.InvalidInputError) as caught:
            both.sql(text).fetchall()
        assert not type(caught.value).__name__.startswith("_")
        assert caught.value.__cause__ is None
        assert len(traceback.format_exception(caught.value)) < 10
        assert len("".join(traceback.format_exception(caught.value)).splitlines()) < 20


def test_a_wrong_call(embedded: Connection) -> None:
    """A wrong AI call in another call raises the documented class, with one position."""
    with pytest.raises(AICallError) as caught:
        embedded.sql("SELECT ai_gen('x {a}', ai_gen('y {b}')) FROM (VALUES ('a')) AS v(a)")
    assert type(caught.value) is AICallError


def test_warnings_name_the_callers_line(tmp_path: Path) -> None:
    """A folder gives one warning, in one line, at the line that opens the folder."""
    for name in ("a", "b", "c", "d", "e"):
        (tmp_path / f"{name}.csv").write_text(" , \n")
    (tmp_path / "good.csv").write_text("a\n1\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        flightllm.connect(tmp_path, config=fake(tmp_path / "home")).close()
    assert [one.filename for one in caught] == [__file__]
    text = str(caught[0].message)
    assert text.startswith("5 notes about the files: ")
    assert text.endswith("and 2 more")
    assert "\n" not in text


def test_no_note_is_no_warning() -> None:
    """Without notes there is no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_once([])


def test_warnings_as_errors(tmp_path: Path) -> None:
    """Where a warning is an error, `connect` leaves no open database."""
    (tmp_path / "bad.csv").write_text(" , \n")
    (tmp_path / "good.csv").write_text("a\n1\n")
    config, folder = fake(tmp_path / "home"), tmp_path / "tables"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="left out"):
            flightllm.connect([tmp_path / "good.csv", tmp_path], config=config, data_folder=folder)
    assert folder not in OpenDatabase._shared
    Database.open(replace(config, data_folder=folder)).close()
