"""Functions of the page's scripts that need no browser."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flightllm import web

NODE = shutil.which("node") or ""
pytestmark = pytest.mark.skipif(not NODE, reason="no node here: apt-get install nodejs")


def value_of(folder: Path, script: str, names: str, expression: str) -> Any:
    """Return the value of an expression with names of one of the page's scripts."""
    place = folder / "page"
    shutil.copytree(Path(web.__file__).parent / "static", place)
    (place / "package.json").write_text('{"type": "module"}')
    text = f'import {{ {names} }} from "./{script}";\nconsole.log(JSON.stringify({expression}));\n'
    (place / "asked.js").write_text(text)
    done = subprocess.run([NODE, "asked.js"], cwd=place, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("direction", "order"),
    [
        ("ascending", ["-inf", "1", "2", "3", "inf", "inf", "NaN", "nan", None]),
        ("descending", ["NaN", "nan", "inf", "inf", "3", "2", "1", "-inf", None]),
    ],
)
def test_numbers_that_are_none(tmp_path: Path, direction: str, order: list[str | None]) -> None:
    """As in PostgreSQL, NaN is greater than each number, infinity too; NULL is last in both directions."""
    texts = ["3", "NaN", None, "1", "inf", "nan", "2", "-inf", "inf"]
    rows = json.dumps([[text] for text in texts])
    asked = f"sorted({rows}, 0, {{ number: true }}, '{direction}')"
    assert [texts[at] for at in value_of(tmp_path, "sorting.js", "sorted", asked)] == order


def test_texts_in_csv(tmp_path: Path) -> None:
    """A quote precedes what a spreadsheet could run, and nothing else: phone numbers and signs stay as they are."""
    plain = ["+49 30", "+49 (30) 12-34/5", "-", "+", "-1.5e3", "text", "- 3", "1=2"]
    risky = ["=1+1", "@SUM(A1)", "+A1", "-cmd|' /C calc'!A0", "+1*2", "-1^2", "-1+cmd()", "\tx", "- item", "+1%"]
    columns, rows = '[{ name: "a" }]', json.dumps([[text] for text in [*plain, *risky]])
    lines = value_of(tmp_path, "download.js", "csv", f"csv({columns}, {rows})").split("\r\n")
    assert lines[1:-1] == [*plain, *(f"'{text}" for text in risky)]


def test_numbers_with_nouns(tmp_path: Path) -> None:
    """A noun is singular after one alone."""
    asked = "[0, 1, 2, 1000].map((value) => counted(value, 'row'))"
    assert value_of(tmp_path, "format.js", "counted", asked) == ["0 rows", "1 row", "2 rows", "1,000 rows"]
