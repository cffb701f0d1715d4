"""The benchmark pages: each figure comes from what a script printed, and the words beside the figures have none."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

import pytest

from bench.comparable import SCRIPTS
from bench.record import READ_TABLES, RECORDS, RESULTS, command, record
from bench.regress import flat
from docs import figures, generate
from docs.answers import ANSWERS, MORE_ANSWERS
from docs.bars import Bars, draw
from docs.measured import MEASURED
from docs.steps import DEFAULTS
from tests.docs.pages import ROOT, sentences

_FIGURE = re.compile(r"\d\s?%|\d[.,]\d|\b\d{3}")
_FRACTION = re.compile(r"\d\s?%|\d\.\d")
_BY_HAND = {"gpu"}
"""Records of runs on other machines, which `bench.record` cannot repeat here."""
_OWN = sorted(name for name in RECORDS if SCRIPTS.get(RECORDS[name].split()[0]))
"""Records of scripts whose smallest form is known."""


def _kept(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_pages_follow_from_the_records() -> None:
    """`python -m docs.figures` would change no page and no picture, and makes all pictures."""
    made = figures.files()
    assert [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text] == []
    assert set(figures.FOLDER.glob("*.svg")) <= set(made)


def test_another_record_makes_another_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed count reaches the page, its picture, the list of answers and README."""
    shutil.copytree(RESULTS, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "sql_rules.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["figures"]["queries"]["movies"][DEFAULTS]["two"]["calls"] = 1
    path.write_text(json.dumps(whole), encoding="utf-8")
    before = figures.files()
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    changed = {path.name for path, text in figures.files().items() if before[path] != text}
    assert changed == {"sql-rules.md", "sql-rules.svg", "index.md", "README.md"}


def test_ablations_show_counts_and_no_seconds() -> None:
    """One short run's seconds mean too little, so tables, pictures and the answer have calls and computed tokens."""
    one = {"calls": 4, "computed_tokens": 1_000, "seconds": 2.5}
    variants = [f"{order} order, deduplication {dedup}" for order in ("original", "greedy") for dedup in ("off", "on")]
    measured = {
        "columns": {"as in the other queries": {"original order": one, "greedy order": one}},
        "place": {"0.50": {"rules off": one, "rules on": one}},
        "repeats": {"5": dict.fromkeys(variants, one)},
    }
    part = ANSWERS["ablations"][1]({"engine": "vllm", "rows": 4, "measurements": measured})
    assert "greedy order: computed tokens" in part.table
    assert "seconds" not in part.table
    assert part.answer.endswith("the original order needs 1,000 computed tokens, and the greedy order 1,000.")
    assert part.bars is not None
    for bars in (part.bars, *part.more.values()):
        assert bars.title.startswith("Computed tokens by ")
        assert {value for values in bars.rows.values() for value in values} == {1_000}
    assert set(part.more) == {"place", "repeats"}
    assert all(f"(ablations-{name}.svg)" in part.table for name in part.more)


def test_check_tells_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` writes nothing, and counts the files that are not as they must be."""
    page = tmp_path / "page.md"
    page.write_text("old", encoding="utf-8")
    picture = tmp_path / "picture.svg"
    for module, made in ((figures, "files"), (generate, "pages")):
        page.write_text("old", encoding="utf-8")
        picture.unlink(missing_ok=True)
        monkeypatch.setattr(module, made, lambda: {page: "new", picture: "drawn"})
        assert module.main(["--check"]) == 2
        assert (page.read_text(encoding="utf-8"), picture.exists()) == ("old", False)
        assert module.main([]) == 0
        assert [path.read_text(encoding="utf-8") for path in (page, picture)] == ["new", "drawn"]
        assert module.main(["--check"]) == 0


def test_every_page_has_a_question_and_a_place() -> None:
    """The folder has a page for each answer; each page asks a question, and mkdocs.yml names it."""
    pages = {path.stem for path in figures.FOLDER.glob("*.md")} - {"index"}
    assert pages == set(ANSWERS)
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in pages:
        assert figures.title(figures.FOLDER / f"{page}.md").endswith("?")
        assert f" benchmarks/{page}.md\n" in navigation


def test_every_record_is_used() -> None:
    """The folder has a file for each record, and each one answers a question or has a table in `bench/README.md`."""
    assert {path.stem for path in RESULTS.glob("*.json")} == set(RECORDS) | _BY_HAND
    more = {record for records in MORE_ANSWERS.values() for record in records}
    assert {record for record, _ in ANSWERS.values()} | more | set(MEASURED) == set(RECORDS) | _BY_HAND


@pytest.mark.parametrize("page", [*ANSWERS, "index"])
def test_words_have_no_figures(page: str) -> None:
    """What somebody wrote on a page repeats no percentage, no fraction and no count that a record can change."""
    assert [one for one in sentences(figures.FOLDER / f"{page}.md") if _FIGURE.search(one)] == []


@pytest.mark.parametrize("name", MEASURED)
def test_words_beside_generated_tables_have_no_figures(name: str) -> None:
    """In `bench/README.md`, the paragraphs before and after a generated table have no fraction and no percentage."""
    text = figures.MORE.read_text(encoding="utf-8")
    before, rest = text.split(f"<!-- begin {name}:")
    after = rest.partition(f"<!-- end {name} -->")[2]
    beside = [before.rstrip().rpartition("\n\n")[2], after.lstrip().partition("\n\n")[0]]
    assert [one for one in beside if not one.startswith("#") and _FRACTION.search(one)] == []


def test_a_measurement_says_whether_it_reaches_its_target() -> None:
    """The sentence below a table tells each target, and whether the record reaches it."""
    streamed = {**_kept("streaming")["figures"], "ratio": 0.95, "memory_ratio": 0.7, "first_memory_ratio": 0.6}
    told = "`ratio` 0.9 (reached), `memory_ratio` 0.8 (missed), `first_memory_ratio` 0.6 (reached)"
    assert told in MEASURED["streaming"](streamed)
    speeds = {f"cache_{name}_prompts_per_second": 15_000 for name in ("persistent", "off")}
    for peak, word in ((1_535, "reached"), (1_536, "missed")):
        ran = {**_kept("operator")["figures"], **speeds, "cache_off_peak_mib": peak}
        assert f"1,536 MiB ({word})" in MEASURED["operator"](ran)


def test_a_step_without_the_bound_has_an_empty_cell() -> None:
    """The table of retrieval has the bound over any order of fields only in rows whose record has it."""
    one = dict.fromkeys(("prompt_tokens", "computed_tokens", "least_tokens"), 9) | {"hit_rate": 0.5}
    first, last = ({"q5": {**one, **more}} for more in ({}, {"any_order_tokens": 7, "undivided_prompts": 2}))
    shown = MEASURED["rag"]({"queries": {"one": first, "two": last}})
    assert "| one | 9 | 9 | 9 |  | 50.0 % |\n| two | 9 | 9 | 9 | 7 | 50.0 % |" in shown
    assert "leaves out 2 prompts" in shown


def test_commands_name_the_variables_that_they_need() -> None:
    """A command whose model is a folder has the variable of models; a shape with random weights needs none."""
    for model, needed in (("smollm2", True), ("7b", False)):
        kept = {**_kept("frontend"), "command": f"python -m bench.frontend --model {model}"}
        assert ('FLIGHTLLM_DATA="…" FLIGHTLLM_TEST_MODELS="…" python' in figures._origin(kept)) == needed
    shown = figures._origin({**_kept("frontend"), "command": "python -m bench.prompts --model qwen15"})
    assert 'FLIGHTLLM_DATA="…" python -m bench.prompts --model …/qwen15' in shown


@pytest.mark.parametrize(
    ("load", "more", "told"),
    [
        (0.4, {}, "The machine was idle before the run."),
        (0.5, {"others": None}, "The machine was busy before the run."),
        (0.0, {"others": 1.25}, "Other work kept 1.2 cores busy during the run."),
        (2.0, {"others": 0.0}, "Other work kept 0.0 cores busy during the run."),
    ],
)
def test_pages_tell_other_work(load: float, more: dict[str, float | None], told: str) -> None:
    """A page tells the other work during the run; for an older record, it tells the work before the run."""
    kept = {name: value for name, value in _kept("recovery").items() if name != "others"}
    assert figures._origin({**kept, "load": load, **more}).endswith(f" {told}\n")


@pytest.mark.parametrize("name", RECORDS)
def test_records_say_where_they_come_from(name: str) -> None:
    """A record has the command that would be run today, the day, the load, and the machine with its versions."""
    kept = _kept(name)
    assert [key for key in kept if key != "others"] == ["command", "date", "load", "own_tables", "figures"]
    assert shlex.split(kept["command"]) == command(name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["date"])
    assert kept["load"] >= 0
    assert (kept.get("others") or 0) >= 0
    assert kept["own_tables"] == (name in READ_TABLES)
    assert kept["figures"]["bench"] == RECORDS[name].split()[0]
    assert {"cpu", "cores", "python", "flightllm", "datafusion"} <= kept["figures"]["machine"].keys()


@pytest.mark.parametrize("name", _OWN)
def test_records_have_the_figures_that_versions_are_compared_by(name: str) -> None:
    """A record has at least one figure of the names that `bench.comparable` expects of its script."""
    names = [figure for figure, _ in flat(_kept(name)["figures"])]
    assert any(matching(names, pattern) for pattern in SCRIPTS[RECORDS[name].split()[0]].figures)


@pytest.mark.slow
@pytest.mark.skipif("FLIGHTLLM_DATA" not in os.environ, reason="needs the real tables, in the folder FLIGHTLLM_DATA")
@pytest.mark.parametrize("name", _OWN)
def test_records_have_the_form_that_scripts_print(name: str) -> None:
    """The smallest form of a record's script prints figures of the same names."""
    script, form = RECORDS[name].split()[0], SCRIPTS[RECORDS[name].split()[0]]
    for package in form.needs:
        pytest.importorskip(package, reason=f"{package} is not installed")
    smallest = form.quick if form.smallest is None else form.smallest
    run = [sys.executable, "-m", f"bench.{script}", "--json", *smallest]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _names(json.loads(done.stdout.splitlines()[-1])) == _names(_kept(name)["figures"])


def _names(printed: dict[str, Any]) -> set[str]:
    """Return the names of the innermost figures, without the names of workloads and steps around them."""
    return {name.rpartition(" / ")[2] for name, _ in flat({**printed, "machine": {}})}


def test_bars_grow_with_values() -> None:
    """A bar twice as long as another one has twice the value, and its text beside it."""
    svg = draw(Bars("Calls", ("off", "on"), {"a query": (200, 100)}))
    off, on = (float(width) for width in re.findall(r'class="bar\d" x="\d+" y="\d+" width="([\d.]+)" height="17"', svg))
    assert off == pytest.approx(2 * on, abs=0.2)
    assert all(f">{text}</text>" in svg for text in ("Calls", "off", "on", "a query", "200", "100"))


def test_bars_can_begin_above_nought() -> None:
    """The title says where bars begin; the row that counts has a colour of its own."""
    svg = draw(Bars("Hits, %", ("hits",), {"lru": (70.5,), "planned": (76.0,)}, "{:.1f}", 69.0, ("planned",)))
    assert "bars begin at 69" in svg
    assert re.findall(r'class="(bar\d)"', svg) == ["bar0", "bar1"]


@pytest.mark.slow
def test_a_script_without_tables_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of a script that reads no tables says so, also where the variable names some."""
    monkeypatch.setattr("bench.record._printed", lambda _: (['{"bench": "x"}'], ""))
    monkeypatch.setenv("FLIGHTLLM_DATA", "/data")
    assert [record(name)["own_tables"] for name in ("recovery", "sql_rules")] == [False, True]
    monkeypatch.delenv("FLIGHTLLM_DATA")
    assert not record("sql_rules")["own_tables"]
