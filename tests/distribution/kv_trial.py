"""Try `flightllm-kv` where it is installed: python tests/distribution/kv_trial.py [FOLDER].

It needs nothing but the distribution. With FOLDER, the package must come from there. It prints what it tried.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import flightllm
from flightllm.errors import MissingExtraError
from flightllm.kvcache.codec import CODECS, open_codec
from flightllm.kvcache.eviction import POLICIES, create_policy
from flightllm.kvcache.eviction.free_blocks import FreeBlocks
from flightllm.kvcache.store.client import FlightStore

KEY = "0123456789abcdef0123456789abcdef01234567"


@dataclass(eq=False)
class Block:
    """A block, and what it holds."""

    block_id: int
    block_hash: int | None = None


def main() -> None:
    """Try each part."""
    assert version("flightllm-kv") == flightllm.__version__
    if len(sys.argv) > 1:
        assert Path(flightllm.__file__).is_relative_to(sys.argv[1]), flightllm.__file__
    absent = [name for name in ("flightllm.cli", "flightllm.session", "flightllm.datafusion") if find_spec(name)]
    assert absent == []
    with TemporaryDirectory() as folder:
        for tried in (evict, code, serve, profile, connect):
            tried(Path(folder))
            say(tried.__name__)


def evict(_: Path) -> None:
    """Fill and empty a cache by each policy."""
    for name in POLICIES:
        free = FreeBlocks([Block(number) for number in range(8)], create_policy(name, 8))
        for number in range(40):
            block = free.popleft()
            block.block_hash = number
            free.append(block)
        assert free.num_free_blocks == 8
        assert len({block.block_hash for block in free.get_all_free_blocks()}) == 8, name
    [plugin] = {one.load() for one in entry_points(group="vllm.general_plugins", name="flightllm")}
    assert callable(plugin)


def code(folder: Path) -> None:
    """Encode and decode a chunk with each codec."""
    if find_spec("torch") is None or find_spec("numba") is None:
        refused = ""
        try:
            open_codec("int8")
        except MissingExtraError as error:
            refused = str(error)
        assert "flightllm-kv[kvcache]" in refused, refused
        return
    import torch

    from flightllm.kvcache.codec.base import decode
    from flightllm.kvcache.profile.learn import learn

    torch.manual_seed(1)
    cache = torch.randn(2, 2, 50, 2, 16).to(torch.bfloat16)
    file = folder / "kv_profile.npz"
    learn(lambda: [cache]).save(file)
    for name in CODECS:
        codec = open_codec(name, file)
        again = decode(codec, codec.encode(cache))
        assert again.shape == cache.shape
        differs = float((again.float() - cache.float()).norm() / cache.float().norm())
        assert differs == 0 if name == "raw" else 0 < differs < 0.5, (name, differs)


def serve(folder: Path) -> None:
    """Start the store's command, put a bitstream there, and look at it by the command."""
    with command(folder, "serve", "--listen", "127.0.0.1:0", "--folder", str(folder / "kv")) as server:
        assert server.stdout is not None
        uri = server.stdout.readline().removeprefix("listening ").strip()
        with FlightStore(uri) as store:
            store.put(KEY, "int8", b"abc")
            assert b"".join(store.get(KEY, "int8")) == b"abc"
        with command(folder, "status", uri) as asked:
            assert "1 chunks, 3 of " in asked.communicate()[0]
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


def profile(_: Path) -> None:
    """Start the command that makes profiles, as far as it needs no model."""
    asked = [sys.executable, *flags(), "-m", "flightllm.kvcache.profile", "--help"]
    assert "--texts" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout


def connect(_: Path) -> None:
    """Import what `--kv-transfer-config` and the options of vLLM's offloading name, if vLLM is there."""
    for path, name in (
        ("flightllm.kvcache.connector.vllm", "FlightLLMConnector"),
        ("flightllm.kvcache.eviction.offload", "PlannedCachePolicy"),
    ):
        lacking: str | None = None
        try:
            assert getattr(import_module(path), name)
        except ModuleNotFoundError as error:
            lacking = error.name
        assert lacking is None if find_spec("vllm") else lacking in {"vllm", "torch"}, lacking


@contextmanager
def command(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the distribution's command until the block ends."""
    start = (
        "from importlib.metadata import entry_points;"
        "next(iter(entry_points(group='console_scripts', name='flightllm-kv'))).load()()"
    )
    environment = {**os.environ, "FLIGHTLLM_HOME": str(home)}
    asked = [sys.executable, *flags(), "-c", start, *arguments]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def flags() -> list[str]:
    """Return the flag of this interpreter that hides the environment's own packages, if it has the flag."""
    return ["-S"] if sys.flags.no_site else []


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
