"""The distribution `flightllm-kv`: it has the modules that its parts import, their dependencies, and works alone."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.parser import HeaderParser
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import grimp
import pytest

from tests.packages import needs

pytestmark = needs("hatchling", extra="test")

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = ROOT / "packages" / "flightllm_kv"
BY_OTHERS: Final = {"accelerate"}
"""Dependencies that only other dependencies import."""
VLLM: Final = "vllm"
"""The distribution serves vLLM. Users of a store on another machine do not need it."""
TRITON: Final = "triton"
"""Builds of torch for GPUs bring it."""


def settings(project: Path) -> dict[str, Any]:
    """Return what a folder's pyproject.toml says."""
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(project: Path) -> dict[str, str]:
    """Return each dependency's versions by its name, those of extras included."""
    told = settings(project)["project"]
    every = [*told["dependencies"], *(one for extra in told["optional-dependencies"].values() for one in extra)]
    cut = [len(one) - len(one.lstrip("abcdefghijklmnopqrstuvwxyz0123456789-")) for one in every]
    return {one[:end]: one[end:] for one, end in zip(every, cut, strict=True)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    [built] = folder.glob("flightllm_kv-*.whl")
    return built


@pytest.fixture(scope="module")
def imported() -> tuple[set[str], set[str]]:
    """Return the modules that the parts import, at any time but to check types, and the packages of others."""
    graph = grimp.build_graph("flightllm", exclude_type_checking_imports=True, include_external_packages=True)
    found, others = set[str](), set[str]()
    left = list(settings(PROJECT)["tool"]["hatch"]["build"]["hooks"]["custom"]["modules"])
    while left:
        module = left.pop()
        if not module.startswith("flightllm"):
            others.add(module)
        elif module not in found:
            found.add(module)
            around = module.rpartition(".")[0]
            left += [*graph.find_modules_directly_imported_by(module), *([around] if around else [])]
    return found, others - set(sys.stdlib_module_names)


def test_modules(wheel: Path, imported: tuple[set[str], set[str]]) -> None:
    """The wheel has the modules that its parts import, and no others: none of the database server's."""
    with zipfile.ZipFile(wheel) as archive:
        files = [Path(name) for name in archive.namelist() if name.endswith(".py")]
    modules = {".".join(one.with_suffix("").parts).removesuffix(".__init__") for one in files}
    assert modules == imported[0]
    assert modules.isdisjoint({"flightllm.cli", "flightllm.session", "flightllm.datafusion", "flightllm.operators"})


def test_requirements(imported: tuple[set[str], set[str]]) -> None:
    """Its dependencies are the packages that it imports, in the versions of the whole package."""
    own, whole = requirements(PROJECT), requirements(ROOT)
    distributions = packages_distributions()
    names = {
        name: {one.lower().replace("_", "-") for one in distributions.get(name, [name])}
        for name in imported[1] - {VLLM, TRITON}
    }
    for name, any_of in names.items():
        assert any_of & {*own}, f"{name} is imported; add its distribution, one of {', '.join(any_of)}"
    assert {*own} - BY_OTHERS == {one for any_of in names.values() for one in any_of & {*own}}
    differing = {name for name in own if own[name] != whole[name]}
    assert differing == {"torch"}  # each vLLM has its own


def test_metadata(wheel: Path) -> None:
    """The wheel names its command, vLLM's plug-in and its licence."""
    with zipfile.ZipFile(wheel) as archive:
        about = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
        entries = archive.read(about["entry_points.txt"]).decode()
        metadata = HeaderParser().parsestr(archive.read(about["METADATA"]).decode())
        licence = archive.read(about["LICENSE"]).decode()
    assert "flightllm-kv = flightllm.server.kv_command:kvstore" in entries
    assert "[vllm.general_plugins]\nflightllm = flightllm.kvcache.eviction.vllm:register" in entries
    assert metadata["License-Expression"] == settings(ROOT)["project"]["license"]
    assert metadata["Requires-Python"] == ",".join(sorted(settings(ROOT)["project"]["requires-python"].split(",")))
    assert licence == (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.slow
def test_trial(wheel: Path, tmp_path: Path) -> None:
    """The parts work where only the wheel and packages of others are; `-S` hides the checkout."""
    place = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    paths = os.pathsep.join([str(place), *dict.fromkeys(others())])
    tried = subprocess.run(
        [sys.executable, "-S", str(ROOT / "tests" / "distribution" / "kv_trial.py"), str(place)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert tried.stdout.split() == ["evict", "code", "serve", "profile", "connect"], tried.stderr[-3_000:]


def others() -> list[str]:
    """Return the folders of installed packages."""
    return [*(sysconfig.get_path(kind) for kind in ("purelib", "platlib")), *(p for p in sys.path if "-packages" in p)]
