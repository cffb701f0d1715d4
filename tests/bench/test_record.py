"""What is kept of a benchmark: its command, and the object that it prints."""

import json
import sys
from pathlib import Path

import pytest

from bench import record as module
from bench.record import busy_cores, command, main, record, seconds_of_others


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a benchmark `toy`, the only one, in a folder that is the working one."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "RECORDS", {"small": "toy --rows '2 3'"})
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return tmp_path / "bench" / "toy.py"


def test_what_a_script_prints_is_kept(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The object on the last line goes to the file of the name, beside the command, also if a target is missed."""
    toy.write_text("import json, sys\nprint('a table')\nprint(json.dumps({'given': sys.argv[1:]}))\nsys.exit(1)\n")
    main(["small"])
    kept = json.loads((tmp_path / "results" / "small.json").read_text(encoding="utf-8"))
    assert kept["figures"] == {"given": ["--rows", "2 3", "--json"]}
    assert kept["command"] == "python -m bench.toy --rows '2 3' --json"
    assert kept["load"] >= 0
    assert "1 of 1: small" in capsys.readouterr().err


def test_busy_cores_are_those_of_the_moment() -> None:
    """With psutil, no more cores are busy than the machine has."""
    psutil = pytest.importorskip("psutil")
    assert 0 <= busy_cores() <= psutil.cpu_count()


@pytest.mark.slow
def test_a_script_is_no_other(toy: Path) -> None:
    """A record has the cores that others kept busy: those of the machine without the script's own CPU seconds."""
    psutil = pytest.importorskip("psutil")
    toy.write_text("import time\nwhile time.process_time() < 1.0:\n    pass\nprint('{}')\n")
    before, others = psutil.cpu_times(), seconds_of_others()
    assert 0 <= record("small")["others"] <= psutil.cpu_count()
    later, after = seconds_of_others(), psutil.cpu_times()
    assert others is not None
    assert later is not None
    spent = {kind: seconds - getattr(before, kind) for kind, seconds in after._asdict().items()}
    busy = sum(spent.values()) - sum(spent.get(kind, 0.0) for kind in ("idle", "iowait", "steal"))
    assert later - others <= busy - 0.9


def test_stolen_time_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that a hypervisor gave to other machines is no work of others on this machine."""
    psutil = pytest.importorskip("psutil")
    times = psutil.cpu_times()
    if not hasattr(times, "steal"):
        pytest.skip("the system does not tell the stolen time")
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    before = seconds_of_others()
    monkeypatch.setattr(psutil, "cpu_times", lambda: times._replace(steal=times.steal + 1_000))
    after = seconds_of_others()
    assert before is not None
    assert after is not None
    assert after - before <= 0


def test_without_psutil_others_are_unknown(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without psutil has no figure for the work of others."""
    toy.write_text("print('{}')\n")
    monkeypatch.setitem(sys.modules, "psutil", None)
    kept = record("small")
    assert kept["others"] is None
    assert kept["load"] >= 0


@pytest.mark.slow
def test_an_unfinished_run_replaces_no_record(toy: Path, tmp_path: Path) -> None:
    """The figures before a failed step are no record: the file stays, and the error has the step's message."""
    toy.write_text("print('{\"queries\": 1}')\n")
    main(["small"])
    before = (tmp_path / "results" / "small.json").read_text(encoding="utf-8")
    toy.write_text('print(\'{"queries": 2, "failed": {"a": "step a: 4 rows failed"}}\')\nraise SystemExit(1)\n')
    with pytest.raises(RuntimeError, match=r"small: the run did not get to its end: step a: 4 rows failed"):
        main(["small"])
    assert (tmp_path / "results" / "small.json").read_text(encoding="utf-8") == before


def test_records_can_go_elsewhere(toy: Path, tmp_path: Path) -> None:
    """With a folder, the pages' records stay as they are."""
    toy.write_text("print('{}')\n")
    main(["small", "--into", str(tmp_path / "mine")])
    assert json.loads((tmp_path / "mine" / "small.json").read_text(encoding="utf-8"))["figures"] == {}
    assert not (tmp_path / "results").exists()


def test_a_script_that_fails_is_named(toy: Path) -> None:
    """Without an object there is no record; the error has what the script said."""
    toy.write_text("raise SystemExit('no table')\n")
    with pytest.raises(RuntimeError, match=r"small: no table"):
        record("small")


@pytest.mark.usefixtures("toy")
def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names what there is."""
    with pytest.raises(SystemExit):
        main(["large"])
    assert "there is no record large; choose from small" in capsys.readouterr().err


def test_commands_are_those_of_a_person() -> None:
    """A command names the script and its arguments, and asks for JSON."""
    assert command("recovery") == ["python", "-m", "bench.recovery", "--json"]
