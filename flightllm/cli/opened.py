"""A server inside this command, for as long as it runs: `flightllm query --open FILE`."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from flightllm.config import Config, ServerConfig
from flightllm.log import configure_logging


@contextmanager
def opened_server(config: Config) -> Iterator[str]:
    """Serve the configuration's tables on a free port of this machine; yield the address.

    Tables that a statement makes go with it. Answers of the model are kept where a server of this configuration keeps
    them, so that nothing is asked twice. The model starts beside: a query without AI calls does not wait for it.

    Raises:
        ConfigError: a table or a setting is wrong.
    """
    from flightllm.database import Database
    from flightllm.flight.server import FlightSqlServer

    configure_logging(replace(config.log, level="error"))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flightllm-open-")))
        config.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        cache = replace(config.cache, path=config.cache.path or config.data_folder / "answers.sqlite")
        own = replace(config, server=ServerConfig("127.0.0.1:0"), cache=cache, data_folder=folder)
        database = stack.enter_context(closing(Database.open(own, restarted=True)))
        server = FlightSqlServer(database, own.server, own.limits)
        stack.callback(server.drain, 0)
        yield server.uri
