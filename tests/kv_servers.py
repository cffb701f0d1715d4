"""Stores of KV chunks to ask: in this process, and in one of their own that can be killed or stopped."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flightllm.access.control import open_access
from flightllm.config import Config, KvStoreConfig, ServerConfig
from flightllm.server.kv_serve import open_server
from flightllm.server.kv_server import KvServer
from tests.servers import KilledProcess

MIB = 1 << 20


@contextmanager
def serving_chunks(folder: Path, server: ServerConfig | None = None, max_bytes: int = 10 * MIB) -> Iterator[KvServer]:
    """Serve a store in this process; its users are those of the data folder `folder`."""
    kept = KvStoreConfig("127.0.0.1:0", max_bytes=max_bytes)
    config = Config(server=server or ServerConfig(), kvstore=kept, data_folder=folder)
    access = open_access(config)
    served = open_server(config, access.login)
    assert served is not None
    try:
        yield served
    finally:
        assert served.stop()
        access.close()


class KvProcess(KilledProcess):
    """`flightllm kvstore serve`, its data folder `folder`."""

    def __init__(self, folder: Path, *arguments: str, listen: str = "127.0.0.1:0") -> None:
        config = folder / "kvstore.toml"
        config.write_text(f'data_folder = "{folder / "data"}"\n')
        command = [sys.executable, "-m", "flightllm", "kvstore", "serve", "--config", str(config), "--listen", listen]
        self.log = folder / "kvstore.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        self.uri = line.removeprefix("listening ").strip()
