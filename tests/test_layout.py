"""The layout of the package: imports point one way, and each folder says what it imports."""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import grimp
import pytest
from importlinter.cli import lint_imports

from flightllm.session import revocation
from tests.databases import ask, open_database

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "flightllm"
FOLDERS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
MOST_MODULES = 8
MOST_PASSED = 106
"""The most files that a reader must open to follow one query."""
LOCKED = re.compile(r"functools(\.| import .*)\bcached_property\b")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Return the imports of the package, those that only type checkers read left out."""
    return grimp.build_graph("flightllm", exclude_type_checking_imports=True)


def test_imports_point_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    """The layers in pyproject.toml hold, and no two modules of a folder import each other, not even for types."""
    status = lint_imports(str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_few_modules_at_the_root() -> None:
    """Code is in a folder that says what it is for; few modules are beside the folders."""
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_MODULES


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_it_imports(folder: str, graph: grimp.ImportGraph) -> None:
    """The last line of a folder's docstring lists the packages that its modules import."""
    text = (PACKAGE / folder / "__init__.py").read_text(encoding="utf-8")
    listed = re.search(r"^Imports: ([a-z_, \n]+)\.$", text, re.MULTILINE)
    assert listed is not None, f"flightllm/{folder}/__init__.py lacks the line `Imports: …`"
    assert listed[1].replace("\n", " ").split(", ") == (sorted(imported(folder, graph)) or ["nothing"]), (
        "run python -m tests.test_layout"
    )


def test_the_package_stands_alone() -> None:
    """No module of the package imports what is not in the wheel."""
    others = re.compile(r"^\s*(from|import) (bench|docs|examples|tests|training)\b", re.MULTILINE)
    assert not [path for path in PACKAGE.rglob("*.py") if others.search(path.read_text(encoding="utf-8"))]


def test_no_cached_property_holds_a_lock() -> None:
    """The standard library's cached property makes threads wait for each other; the package uses its own."""
    own = PACKAGE / "common" / "cached.py"
    found = [path for path in PACKAGE.rglob("*.py") if path != own and LOCKED.search(path.read_text())]
    assert found == []


def test_one_query_passes_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader can follow a warm query: with the same rows, and with new rows that the model must see."""
    monkeypatch.setattr(revocation, "_SECONDS", 3_600.0)  # its thread would look at some of the queries
    passed = set[str]()
    with passed_files(passed), closing(open_database(tmp_path)) as database:
        session = database.session()
        for table in ("known", "other"):
            session.update(f"CREATE TABLE {table} AS SELECT * FROM (VALUES ('a {table}'), ('b {table}')) AS v(note)")
        query = "SELECT note, ai_filter('Is it good?', note) FROM"
        for table in ("known", "known", "known", "other"):
            passed.clear()
            ran = ask(session, f"{query} {table}")
            assert ran.table.num_rows == 2
            files = len(passed)
            assert files <= MOST_PASSED, sorted(passed)
        assert ran.calls == 2


@contextmanager
def passed_files(passed: set[str]) -> Iterator[None]:
    """Add each file of the package to `passed` when a function in it begins, in this thread and in new ones."""
    start = f"{PACKAGE}/"

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(start):
            passed.add(name.removeprefix(start))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def imported(folder: str, graph: grimp.ImportGraph) -> set[str]:
    """Return the packages and root modules that the modules of a folder import."""
    top = f"flightllm.{folder}"
    found = {name for module in modules(top, graph) for name in graph.find_modules_directly_imported_by(module)}
    return {name.split(".")[1] if "." in name else "flightllm" for name in found} - {folder}


def modules(top: str, graph: grimp.ImportGraph) -> Iterator[str]:
    """Yield the modules of a package, except commands of their own (`__main__`)."""
    yield from (m for m in (top, *graph.find_descendants(top)) if not m.endswith(".__main__"))


def main() -> None:
    """Write the line `Imports: …` of each folder anew."""
    found = grimp.build_graph("flightllm", exclude_type_checking_imports=True)
    for folder in FOLDERS:
        path = PACKAGE / folder / "__init__.py"
        text = path.read_text(encoding="utf-8")
        line = _wrapped(f"Imports: {', '.join(sorted(imported(folder, found))) or 'nothing'}.")
        new = re.sub(r"^Imports: [a-z_, \n]+\.$", line, text, count=1, flags=re.MULTILINE)
        if "\nImports: " not in text:
            head, quotes, rest = text[3:].partition('"""')
            new = f'"""{head.rstrip()}\n\n{line}\n{quotes}{rest}'
        path.write_text(new, encoding="utf-8")


def _wrapped(line: str) -> str:
    words, lines = line.split(" "), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 118:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


if __name__ == "__main__":
    main()
