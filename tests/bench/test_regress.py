"""The comparison of two versions by their benchmarks."""

import ast
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from bench import regress
from bench.comparable import APART, HOT, SCRIPTS, Script
from bench.regress import BenchmarkError, NoBaseError, Runs, Tree, flat

ROOT = Path(__file__).resolve().parents[2]
GIT = shutil.which("git") or "git"
TOY = Script({"* / per_second": "higher", "ms": "lower"}, quick=("--toy",), sizes=("rows",))
OTHER = Script({"ms": "lower"}, quick=())
COUNTING = """
from pathlib import Path
runs = Path(__file__).with_suffix(".runs")
count = int(runs.read_text()) if runs.exists() else 0
runs.write_text(str(count + 1))
"""
"""Code that sets `count` to the number of earlier runs of this script in this tree."""


def printing(per_second: float, milliseconds: float, rows: int = 10) -> str:
    """Return a benchmark that prints these figures."""
    return f"print({json.dumps({'x': {'per_second': per_second}, 'ms': milliseconds, 'rows': rows})!r})"


def counting(per_second: str) -> str:
    """Return a benchmark that prints a figure that depends on `count`, the number of earlier runs."""
    return f"{COUNTING}\nimport json\nprint(json.dumps({{'x': {{'per_second': {per_second}}}, 'ms': 8}}))"


@dataclass(frozen=True)
class Project:
    """A repository with benchmarks: one commit, and a working tree."""

    folder: Path

    def write(self, **scripts: str) -> None:
        """Write benchmarks into the working tree."""
        for name, code in scripts.items():
            (self.folder / "bench" / f"{name}.py").write_text(code, encoding="utf-8")

    def commit(self, **scripts: str) -> None:
        """Make a commit with these benchmarks."""
        self.write(**scripts)
        for arguments in (["add", "."], ["commit", "-q", "-m", "Measure"]):
            identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
            subprocess.run([GIT, *identity, *arguments], cwd=self.folder, check=True)

    def compare(self, *arguments: str) -> int:
        """Compare the working tree with the commit; return the exit code."""
        return regress.main(["--base", "HEAD", "--rounds", "1", *arguments])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project that `bench.regress` compares, whose only hot path is `toy`."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()
    subprocess.run([GIT, "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr(regress, "_ROOT", tmp_path)
    monkeypatch.setattr(regress, "SCRIPTS", MappingProxyType({"toy": TOY, "other": OTHER}))
    monkeypatch.setattr(regress, "HOT", ("toy",))
    return Project(tmp_path)


def last_object(text: str) -> dict[str, Any]:
    """Return the JSON object on the last line."""
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def test_names_of_inner_figures() -> None:
    """Numbers in objects and lists get the path to them as a name; texts and truths are not figures."""
    assert dict(flat({"a": {"b": 1, "c": [2, 3.5]}, "d": True, "e": "x"})) == {
        "a / b": 1,
        "a / c / 0": 2,
        "a / c / 1": 3.5,
    }


def test_ratio_is_above_one_where_this_tree_is_better() -> None:
    """Each figure has its ratio in each round, in the direction that is better."""
    script = Script({"*_ms": "lower", "speed": "higher"})
    runs = Runs(script, [({"a_ms": 10.0, "b_ms": 8.0, "speed": 5.0}, {"a_ms": 10.0, "b_ms": 2.0, "speed": 4.0})] * 2)
    assert runs.ratios("*_ms") == {"a_ms": [1.0, 1.0], "b_ms": [4.0, 4.0]}
    assert runs.ratios("speed") == {"speed": pytest.approx([0.8, 0.8])}
    lost = Runs(script, [({"speed": 5.0, "a_ms": 5.0}, {"speed": 0.0, "a_ms": 0.0})])
    assert lost.ratios("speed") == {"speed": [0.0]}
    assert lost.ratios("*_ms") == {"a_ms": [1_000.0]}


def test_one_worse_figure_is_not_hidden_by_a_better_one(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The table shows the geometric mean of a pattern's figures, but each figure must reach the least."""
    project.commit(toy='print(\'{"x": {"per_second": 100}, "y": {"per_second": 100}, "ms": 8}\')')
    project.write(toy='print(\'{"x": {"per_second": 50}, "y": {"per_second": 200}, "ms": 8}\')')
    assert project.compare("--rounds", "2") == 1
    said = capsys.readouterr().out
    assert f"{'* / per_second':40}{1.0:8.2f}{1.0:8.2f}\n" in said
    assert "worse than HEAD: toy: x / per_second (2 rounds" in said


def test_a_base_that_fails_later_leaves_its_rounds() -> None:
    """The rounds before a failure of the base still count."""
    runs = Runs(Script({"ms": "lower"}), [({"ms": 1.0}, {"ms": 2.0})], no_base="it ended")
    assert runs.ratios("ms") == {"ms": [0.5]}


def test_figures_without_counterpart_have_no_ratio() -> None:
    """Names that one tree lacks do not count; a figure that is 0, or new, has no base."""
    script = Script({"*_ms": "lower", "errors": "lower", "new": "higher", "gone": "lower"})
    runs = Runs(script, [({"a_ms": 10.0, "old_ms": 1.0, "errors": 0.0}, {"a_ms": 5.0, "errors": 0.0, "new": 3.0})])
    assert runs.ratios("*_ms") == {"a_ms": [2.0]}
    for figure, reason in (("errors", "is 0"), ("new", "no figure of this name")):
        with pytest.raises(NoBaseError, match=reason):
            runs.ratios(figure)
    with pytest.raises(BenchmarkError, match="no figure is named 'gone'"):
        runs.ratios("gone")


def test_each_tree_runs_its_own_benchmark(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The commit's benchmark runs beside the one of the working tree, and the ratios tell which is better."""
    project.commit(toy=printing(100, 8))
    project.write(toy=printing(90, 4))
    assert project.compare("--json") == 0
    assert last_object(capsys.readouterr().out)["ratios"] == {"toy": {"* / per_second": [0.9], "ms": [2.0]}}


def test_the_base_follows_its_own_table(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments come from the commit's `comparable.py`, or from this tree's table if the commit has no such file."""
    telling = "import sys, json\nprint(json.dumps({'ms': len(sys.argv), 'x': {'per_second': 1}}))"
    project.commit(toy=telling)
    assert project.compare("--json") == 0
    assert last_object(capsys.readouterr().out)["ratios"]["toy"]["ms"] == [1.0]
    table = "from types import SimpleNamespace\nSCRIPTS = {'toy': SimpleNamespace(quick=['--a', '--b', '--c', '--d'])}"
    project.commit(comparable=table)
    assert project.compare("--json") == 0
    assert last_object(capsys.readouterr().out)["ratios"]["toy"]["ms"] == [2.0]


def test_a_benchmark_can_have_had_another_name(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the commit's table does not list a benchmark, the command that measured the same before is run."""
    moved = Script(TOY.figures, quick=("--toy",), formerly=("elder", "--toy"))
    monkeypatch.setattr(regress, "SCRIPTS", {"toy": moved})
    project.commit(elder=printing(100, 8), comparable="SCRIPTS = {}")
    project.write(toy=printing(100, 2))
    assert project.compare("--json") == 0
    assert last_object(capsys.readouterr().out)["ratios"]["toy"]["ms"] == [4.0]


def test_a_table_that_cannot_be_read_is_told(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A commit whose table has another form runs with the arguments of this tree's table."""
    project.commit(toy=printing(100, 8), comparable="BENCHMARKS = []")
    assert project.compare() == 0
    assert "comparable.py of HEAD cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit('no such option')", "no such option"),
        ("", "bench.toy prints no figures"),
        (None, "No module named bench.toy"),
        (printing(100, 8, rows=20), "'rows' is 20 there and 10 here"),
        ("print('{}')", "no figure of this name"),
    ],
)
def test_what_the_base_lacks_has_no_base(
    project: Project, capsys: pytest.CaptureFixture[str], code: str | None, reason: str
) -> None:
    """Where the commit's benchmark fails, is missing or measures another size, the reason is told; the run passes."""
    project.commit(**({} if code is None else {"toy": code}))
    project.write(toy=printing(1, 1000))
    assert project.compare("--json") == 0
    said = capsys.readouterr().out
    assert f"no base: {reason}" in said
    found = last_object(said)
    assert found["ratios"] == {}
    assert found["no_base"]["toy"].keys() == TOY.figures.keys()


@pytest.mark.parametrize(
    ("code", "reason"), [("raise ValueError('no disk')", "no disk"), ("print('{}')", "no figure is named")]
)
def test_a_benchmark_that_fails_here_fails_the_run(
    project: Project, capsys: pytest.CaptureFixture[str], code: str, reason: str
) -> None:
    """A benchmark that breaks in this tree, or loses its figures, is an error, and the others still run."""
    project.commit(toy=printing(100, 8), other=printing(1, 8))
    project.write(toy=code)
    assert project.compare("--all") == 1
    said = capsys.readouterr().out
    assert f"toy             fails in this tree: {reason}" in said.replace("ValueError: ", "")
    assert said.count("other ") == 1
    assert "worse than HEAD: toy fails" in said


def test_a_benchmark_that_fails_on_both_fails_the_run(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that the commit cannot run must still run in this tree."""
    project.commit(toy="raise SystemExit('broken')")
    assert project.compare() == 1
    assert "fails in this tree: broken" in capsys.readouterr().out


def test_the_best_round_decides(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """One good round of five passes, although the median is far below; the order of the trees changes each round."""
    project.commit(toy=printing(100, 8))
    project.write(toy=counting("90 if count == 3 else 10"))
    assert project.compare("--rounds", "5", "--json") == 0
    said = capsys.readouterr().out
    ratios = last_object(said)["ratios"]["toy"]["* / per_second"]
    assert ratios == pytest.approx([0.1, 0.1, 0.1, 0.9, 0.1])
    assert f"{'* / per_second':40}{0.1:8.2f}{0.9:8.2f}\n" in said
    assert "all rounds need about" in said


def test_a_figure_below_in_every_round_fails(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1 where no round reaches the least, and the figure is named."""
    project.commit(toy=printing(100, 8))
    project.write(toy=counting("84 - count"))
    assert project.compare("--rounds", "5") == 1
    said = capsys.readouterr().out
    row = r"toy +x / per_second +0\.\d\d    0\.8[234]  below 0\.85 in every round"
    assert re.search(row, said)
    assert "this tree ÷ base where higher is better" in said
    assert "worse than HEAD: toy: x / per_second (5 rounds" in said
    assert project.compare("--least", "0.7") == 0
    assert "(1 round; one round proves little, " in capsys.readouterr().out


def test_trees_take_turns_at_being_first(project: Project, tmp_path: Path) -> None:
    """Rounds go over all benchmarks, and each round swaps which tree runs first."""
    log = tmp_path / "log"
    for tree in ("base", "here"):
        scripts = {
            name: f"open({str(log)!r}, 'a').write('{tree} {name}, ')\n{printing(100, 8)}" for name in ("toy", "other")
        }
        project.commit(**scripts) if tree == "base" else project.write(**scripts)
    assert project.compare("--all", "--rounds", "2") == 0
    first, second = "base toy, here toy, base other, here other, ", "here toy, base toy, here other, base other, "
    assert log.read_text(encoding="utf-8") == first + second


def test_only_and_all_choose_benchmarks(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """Hot paths run by default, `--only` names others, `--all` takes every benchmark, and `--skip` leaves some out."""
    project.commit(toy=printing(100, 8), other=printing(1, 8))
    ran = {}
    for arguments in ((), ("--only", "other"), ("--all",), ("--all", "--skip", "toy")):
        assert project.compare("--json", *arguments) == 0
        ran[arguments] = list(last_object(capsys.readouterr().out)["ratios"])
    assert list(ran.values()) == [["toy"], ["other"], ["toy", "other"], ["other"]]


def test_a_benchmark_whose_packages_are_missing_is_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The missing package is named, and the others run."""
    monkeypatch.setattr(regress, "SCRIPTS", {"toy": Script(TOY.figures, needs=("no_such_package",))})
    project.commit(toy=printing(100, 8))
    assert project.compare() == 0
    said = capsys.readouterr().out
    assert "toy is left out: needs no_such_package" in said
    assert "nothing could be compared with HEAD" in said


@pytest.mark.slow
def test_what_a_benchmark_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that does not end in time is told, and the processes that it started are killed."""
    child = "import time; time.sleep(60); open('ended', 'w')"  # keeps the output open, so without a kill we wait for it
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "toy.py").write_text(code, encoding="utf-8")
    (tmp_path / "bench" / "__init__.py").touch()
    monkeypatch.setattr(regress, "_SECONDS", 2)
    with pytest.raises(BenchmarkError, match="did not end within 2 s"):
        Tree("base", tmp_path).run(("toy",))
    assert not (tmp_path / "ended").exists()


@pytest.mark.slow
def test_unknown_commits_are_refused() -> None:
    """A commit that is not there is an error that says what to write."""
    command = [sys.executable, "-m", "bench.regress", "--base", "no-such-commit"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not a commit of this repository" in done.stderr


def test_rounds_must_be_positive(capsys: pytest.CaptureFixture[str]) -> None:
    """No round compares nothing, so it is refused."""
    with pytest.raises(SystemExit):
        regress.main(["--base", "HEAD", "--rounds", "0"])
    assert "write 1 or more rounds" in capsys.readouterr().err


def test_every_benchmark_is_compared() -> None:
    """Each module that can be run has its figures named, or a reason why not."""

    def is_run(path: Path) -> bool:
        tests = [node.test for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.If)]
        return any(ast.unparse(test) == "__name__ == '__main__'" for test in tests)

    scripts = {path.stem for path in (ROOT / "bench").glob("*.py") if is_run(path)}
    packages = {path.parent.name for path in (ROOT / "bench").glob("*/__main__.py")}
    assert scripts | packages == SCRIPTS.keys() | APART.keys()
    assert not SCRIPTS.keys() & APART.keys()
    assert set(HOT) <= SCRIPTS.keys()
