"""The check that a vLLM has the names that the parts use: what it finds, and what the parts do without a name."""

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from flightllm.errors import UnsupportedError
from flightllm.kvcache import vllm_names
from flightllm.kvcache.vllm_names import NAMES, missing, mixed_distributions, unfit
from tests.packages import NEEDS_VLLM


@pytest.fixture
def looked_anew() -> Iterator[None]:
    """Forget what was found before a test, and after it."""
    unfit.cache_clear()
    yield
    unfit.cache_clear()


def test_what_is_found() -> None:
    """Methods, fields of dataclasses, and what a method of a class or of its bases sets are names of the class."""
    there = {
        "json.decoder:JSONDecoder": ("decode", "strict"),  # strict: set by the constructor
        "logging:FileHandler": ("baseFilename", "formatter"),  # formatter: set by a method of a base
        "flightllm.kvcache.options:KvOptions": ("codec", "store"),  # store: a field without a default
        "json:loads": (),
    }
    assert list(missing(there)) == []


def test_what_is_missing() -> None:
    """A module, a class, a method and an attribute that are not there are named."""
    gone = {
        "json.gone:Decoder": ("decode",),
        "json:Gone": (),
        "json.decoder:JSONDecoder": ("decode", "decode_quickly"),
    }
    assert list(missing(gone)) == ["json.gone.Decoder", "json.Gone", "JSONDecoder.decode_quickly"]


def test_the_table_of_versions() -> None:
    """The documentation says of each known version that it evicts by policies, and of no other."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"
    rows = [line.split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| 0.")]
    evicting = {f"{row[0].removeprefix('| ')}." for row in rows if not row[2].startswith("no")}
    assert evicting == {*vllm_names.KNOWN_VERSIONS}


def test_both_distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both distributions beside each other must have one version, because they share their files."""
    assert mixed_distributions() == ""
    for number, (told, mixed) in enumerate([(version("flightllm"), False), ("0.0.1", True)]):
        about = tmp_path / str(number) / "flightllm_kv.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: flightllm-kv\nVersion: {told}\n")
        monkeypatch.setattr(sys, "path", [str(about.parent), *sys.path])
        assert bool(mixed_distributions()) is mixed
    assert "flightllm-kv 0.0.1" in mixed_distributions()


@NEEDS_VLLM
@pytest.mark.vllm
@pytest.mark.parametrize("part", NAMES)
@pytest.mark.usefixtures("looked_anew")
def test_this_vllm(part: vllm_names.Part) -> None:
    """This vLLM has all names; without any one of them, the reason names it and vLLM's version."""
    assert unfit(part) == ""
    for place, attributes in NAMES[part].items():
        module, _, owner = place.partition(":")
        with pytest.MonkeyPatch.context() as without:
            without.delattr(import_module(module), owner)
            unfit.cache_clear()
            assert f"vLLM {vllm_names.vllm_version()} lacks {module}.{owner}" in unfit(part)
        unfit.cache_clear()
        assert unfit(part) == "", attributes


@NEEDS_VLLM
@pytest.mark.vllm
@pytest.mark.usefixtures("looked_anew")
def test_eviction_without_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a method of the scheduler vLLM's own order stays; the log names the method and vLLM's version."""
    from vllm.v1.core.sched.scheduler import Scheduler

    from flightllm.kvcache.eviction.vllm import order

    monkeypatch.delattr(Scheduler, "_free_request_blocks")
    untouched = Scheduler.__new__(Scheduler)
    with capture_logs() as logs:
        order(untouched, "planned")
    [entry] = logs
    assert entry["event"] == "kv_eviction_off"
    assert "lacks Scheduler._free_request_blocks" in entry["reason"]
    assert vllm_names.vllm_version() in entry["reason"]
    assert vars(untouched) == {}


@NEEDS_VLLM
@pytest.mark.vllm
@pytest.mark.usefixtures("looked_anew")
def test_offload_without_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a method that reports positions the names in CPU memory stand for vLLM's own LRU."""
    from vllm.v1.kv_offload.base import ReqContext
    from vllm.v1.kv_offload.cpu.policies.lru import LRUCachePolicy

    from flightllm.kvcache.eviction import offload

    assert offload._or_lru(offload._Planned) is offload._Planned
    unfit.cache_clear()
    monkeypatch.delattr(ReqContext, "get_offload_key_position")
    with capture_logs() as logs:
        assert offload._or_lru(offload._Planned) is LRUCachePolicy
    [entry] = logs
    assert "lacks ReqContext.get_offload_key_position" in entry["reason"]


@NEEDS_VLLM
@pytest.mark.vllm
@pytest.mark.parametrize("fault", ["a name is missing", "a method is new", "both distributions"])
@pytest.mark.usefixtures("looked_anew")
def test_the_connector_refuses(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """The connector refuses a vLLM that it does not fit, before it does anything, and says why."""
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

    from flightllm.kvcache.connector import vllm

    connector: Any = vllm.FlightLLMConnector
    if fault == "a name is missing":
        monkeypatch.delattr(KVConnectorBase_V1, "get_block_ids_with_load_errors")
    elif fault == "a method is new":
        connector = type("Connector", (connector,), {})
        connector.__abstractmethods__ = frozenset({"save_everything"})
    else:
        monkeypatch.setattr(vllm_names, "version", {"flightllm": "2.0", "flightllm-kv": "1.0"}.__getitem__)
    unfit.cache_clear()
    monkeypatch.setattr(vllm, "_UNFIT", unfit("connector"))
    expected = {
        "a name is missing": "lacks KVConnectorBase_V1.get_block_ids_with_load_errors",
        "a method is new": "unknown methods: save_everything",
        "both distributions": "uninstall both",
    }
    with capture_logs() as logs, pytest.raises(UnsupportedError, match=expected[fault]):
        connector(None, None, None)
    assert [entry["event"] for entry in logs] == ["kv_store_off"]
