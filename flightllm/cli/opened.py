"""A server inside a command, while the command runs: `flightllm query --open FILE`.

Functions import the parts of a server themselves, because a client of another server does not need them.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flightllm.cli.common import Files, found_config, load_config, tell
from flightllm.common.collection import no_collection
from flightllm.common.command_line import Server
from flightllm.common.pandas_import import put_off_pandas
from flightllm.config import Config, EngineConfig
from flightllm.connection.configuration import for_folder
from flightllm.errors import FlightLLMError

if TYPE_CHECKING:
    from flightllm.session.database import Database


@contextmanager
def asked_server(files: Files, server: Server, sql: str | None = None, *, reads_files: bool = True) -> Iterator[Server]:
    """Yield the server to query: a new server for the files if there are files, else `server`; see `opened_server`.

    Raises:
        UsageError: there is a configuration but there are no files.
    """
    files.check()
    if not files.sources:
        yield server
        return
    token = secrets.token_urlsafe()
    with ExitStack() as stack:
        with no_collection():
            uri = stack.enter_context(opened_server(_config_of(files, sql), sql, token, reads_files=reads_files))
        yield Server(uri, token=token)


def _config_of(files: Files, sql: str | None) -> Config:
    """Return the configuration with a table for each file; say where nobody chose a model."""
    config_file = found_config(files.config_file)
    if config_file is None:  # there are no functions of users, which could pass missing values of pandas
        put_off_pandas()
    from flightllm.connection.sources import DEMONSTRATION, named_tables
    from flightllm.functions.registry import FunctionRegistry

    tables = named_tables(files.sources, tell, files.csv)
    config = load_config(config_file, files.engine, files.model, tables=tables)
    nothing_said = not (config_file or files.engine or files.model)
    if nothing_said and (sql is None or FunctionRegistry.load(config.functions.folders).may_be_in(sql)):
        tell(DEMONSTRATION)
    return config


@contextmanager
def opened_server(
    config: Config, sql: str | None = None, token: str | None = None, *, reads_files: bool = True
) -> Iterator[str]:
    """Serve the configuration's tables on a free port of this machine; yield the address.

    Tables that a statement creates are deleted at the end. Model answers go into the cache of a server with this
    configuration, so that no prompt is answered twice. `sql` is the only statement that will come; None: any statement
    can come. A statement without AI calls starts no model. Clients must send the `token`, if there is one. With a
    token and `reads_files`, statements can read each file that this user can read.

    Raises:
        ConfigError: a table or a setting is wrong.
        FlightLLMError: the model for `sql` does not start, or its endpoint cannot answer.
    """
    from flightllm.access.login import Login
    from flightllm.access.store import AccessStore
    from flightllm.flight.server import FlightSqlServer
    from flightllm.log import configure_logging

    configure_logging(replace(config.log, level="error"))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flightllm-open-")))
        own = for_folder(config, folder, reads_files=token is not None and reads_files)
        database = stack.enter_context(closing(_opened(own, config, sql)))
        for note in database.notes:  # the log does not show them, because its level is error here
            tell(note)
        login = None if token is None else Login(AccessStore(None), own.auth, token)
        server = FlightSqlServer(database, own.server, own.limits, login=login)
        stack.callback(server.drain, 0)
        yield server.uri


def _opened(own: Config, config: Config, sql: str | None) -> "Database":
    from flightllm.engines.registry import check_endpoint
    from flightllm.functions.registry import FunctionRegistry
    from flightllm.session.database import Database

    without = replace(own, recovery=replace(own.recovery, on_engine_down="fail"))
    if sql is not None and not FunctionRegistry.load(config.functions.folders).may_be_in(sql):
        # The fake engine opens at once, and here it answers nothing: made-up answers could be taken for a model's.
        # Only a system table can show which engine is configured.
        engine = own.engine if "system" in sql.lower() else EngineConfig("fake", options={"fail_every": 1})
        return Database.open(replace(without, engine=engine), restarted=True)
    try:
        database = Database.open(own)
    except FlightLLMError as error:
        if sql is not None:
            raise
        database = Database.open(without, restarted=True)  # raises again if the model is not the cause
        tell(f"no model: {' '.join(str(error).split())}. Statements without AI calls still work")
        return database
    if config.server.check_engine and sql is not None:
        try:
            check_endpoint(database.engine)
        except BaseException:
            database.close()
            raise
    return database
