"""The comparison of two versions by their benchmarks."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import regress
from bench.comparable import APART, SCRIPTS, Script
from bench.regress import BenchmarkError, Runs, Tree, compare, flat

ROOT = Path(__file__).resolve().parents[2]
TOY = Script({"* / per_second": "higher", "ms": "lower"}, quick=())


def tree(folder: Path, code: str, name: str = "base") -> Tree:
    """Make a tree whose benchmark `toy` is this code."""
    (folder / "bench").mkdir(parents=True)
    (folder / "bench" / "__init__.py").touch()
    (folder / "bench" / "toy.py").write_text(code, encoding="utf-8")
    return Tree(name, folder)


def printing(per_second: float, milliseconds: float) -> str:
    """Return a benchmark that prints these figures."""
    return f"print({json.dumps({'x': {'per_second': per_second}, 'ms': milliseconds})!r})"


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regress, "SCRIPTS", {"toy": TOY})


def test_names_of_inner_figures() -> None:
    """Numbers in objects and lists get the path to them as a name; texts and truths are no figures."""
    assert dict(flat({"a": {"b": 1, "c": [2, 3.5]}, "d": True, "e": "x"})) == {
        "a / b": 1,
        "a / c / 0": 2,
        "a / c / 1": 3.5,
    }


def test_ratio_is_above_one_where_this_tree_is_better() -> None:
    """Medians are compared, each in the direction that is better; figures that a run lacks are left out."""
    runs = Runs([{"ms": 10.0, "old": 1}, {"ms": 30.0}, {"ms": 20.0}], [{"ms": 10.0}, {"ms": 5.0}, {"ms": 99.0}])
    assert runs.ratio("ms", "lower") == pytest.approx(2.0)
    assert runs.ratio("ms", "higher") == pytest.approx(0.5)
    assert runs.ratio("old", "lower") is None


def test_both_trees_run(tmp_path: Path) -> None:
    """Each tree runs its own benchmark, and the ratios tell which is better."""
    base, here = tree(tmp_path / "a", printing(100, 8)), tree(tmp_path / "b", printing(50, 4), "here")
    assert compare("toy", base, here, 1, 0.1) == pytest.approx({"* / per_second": 0.5, "ms": 2.0})


def test_a_figure_that_falls_short_is_measured_again(tmp_path: Path) -> None:
    """More rounds follow where a figure is below the least, and no more where it is not."""
    count = "from pathlib import Path; p = Path('runs'); p.write_text(p.read_text() + '.' if p.exists() else '.')\n"
    base, slow = tree(tmp_path / "a", printing(100, 8)), tree(tmp_path / "b", count + printing(50, 8), "here")
    compare("toy", base, slow, 2, 0.85)
    assert len((slow.code / "runs").read_text(encoding="utf-8")) == 1 + 3 * 2
    good = tree(tmp_path / "c", count + printing(100, 8), "here")
    compare("toy", base, good, 2, 0.85)
    assert len((good.code / "runs").read_text(encoding="utf-8")) == 1 + 2


def test_a_broken_benchmark_of_the_base_is_replaced(tmp_path: Path) -> None:
    """Where the earlier benchmark fails, this tree's runs on the earlier code."""
    base = tree(tmp_path / "a", "raise SystemExit('broken')")
    (base.code / "product.py").write_text("speed = 40", encoding="utf-8")
    here = tree(tmp_path / "b", "import json, product; print(json.dumps({'ms': product.speed}))", "here")
    (here.code / "product.py").write_text("speed = 10", encoding="utf-8")
    assert compare("toy", base, here, 1, 0.1) == pytest.approx({"ms": 4.0})


def test_a_benchmark_that_fails_here_is_told(tmp_path: Path) -> None:
    """The last line of what a benchmark said is in the error."""
    base, here = tree(tmp_path / "a", printing(1, 1)), tree(tmp_path / "b", "raise ValueError('no disk')", "here")
    with pytest.raises(BenchmarkError, match="no disk"):
        compare("toy", base, here, 1, 0.85)


def test_unknown_commits_are_refused() -> None:
    """A commit that is not there is an error that says what to write."""
    command = [sys.executable, "-m", "bench.regress", "--base", "no-such-commit"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not a commit of this repository" in done.stderr


def test_every_benchmark_is_compared() -> None:
    """Each module that can be run has its figures named, or a reason why not."""

    def is_run(path: Path) -> bool:
        tests = [node.test for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.If)]
        return any(ast.unparse(test) == "__name__ == '__main__'" for test in tests)

    scripts = {path.stem for path in (ROOT / "bench").glob("*.py") if is_run(path)}
    packages = {path.parent.name for path in (ROOT / "bench").glob("*/__main__.py")}
    assert scripts | packages == SCRIPTS.keys() | APART.keys()
    assert not SCRIPTS.keys() & APART.keys()
