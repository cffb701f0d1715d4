"""The Python code of the SQLAlchemy page, against a server with the sample tables."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import SAMPLES
from tests.docs.pages import DOCS, blocks

pytest.importorskip("sqlalchemy")
pandas: Any = pytest.importorskip("pandas")


def test_code_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks run in the page's order in one program; flightsql-dbapi, a client of others, has a test of its own."""
    from sqlalchemy.dialects import registry

    registry.register("flightllm", "flightllm.alchemy.dialect", "FlightLLMDialect")
    parts = [block.text for block in blocks(DOCS / "how-to/clients/sqlalchemy.md", "python")]
    config = Config(engine=EngineConfig("fake"), tables=SAMPLES, data_folder=tmp_path)
    names: dict[str, Any] = {}
    with closing(Database.open(config)) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
        for part in parts:
            if "flightsql" not in part:
                exec(part.replace(":31337", f":{server.port}"), names)  # noqa: S102 -- the page's own code
        recent = pandas.read_sql_table("recent", names["engine"])
        names["engine"].dispose()
        server.drain(0)
    assert recent["title"].tolist() == names["frame"]["title"].tolist() != []
    assert "('" in capsys.readouterr().out
