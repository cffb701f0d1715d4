"""A secret in every form, and a real server whose every output is kept, to see that no output shows the secret."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import adbc_driver_flightsql.dbapi as flight_sql
import pytest

from tests.servers import SupervisedServer

CANARY = "sk-Canary4711/x+y=Zq9"
KEY = "sk-Canary4711xyZq9"
"""A key without punctuation."""
UNKNOWN = "Q7/stranger9931+z=Zq9"
"""A secret that no part of the server has read: only the syntax around it shows what it is."""
FORMS = {
    "plain": CANARY,
    "json": json.dumps(json.dumps(CANARY)),
    "base64": base64.b64encode(f"user:{CANARY}".encode()).decode(),
    "percent": quote(CANARY, safe=""),
    "masked": "Incorrect API key: sk-Canar*****x+y=Zq9",
}
MARKS = (
    "stranger9931",
    "CANARY4711",
    "canary4711",
    "Canary4711",
    "anary4711",
    "sk-Canar",
    base64.b64encode(b"user:sk-Canary4711/x")[8:24].decode(),
)


class Watched:
    """A client that keeps all that the server says."""

    def __init__(self, server: SupervisedServer) -> None:
        self._server = server
        self._connection = flight_sql.connect(server.uri, autocommit=True)
        self.said: list[tuple[str, str]] = []
        self.uri = server.uri

    @property
    def page(self) -> str:
        """Return the address of the server's web page."""
        return self._server.log.read_text().partition("uri=")[2].split()[0]

    def prepare(self, sql: str) -> None:
        """Prepare a statement without running it, and note its error."""
        with self._connection.cursor() as cursor:
            try:
                self.said.append((sql, str(cursor.adbc_prepare(sql))))
            except flight_sql.Error as error:
                self.said.append((sql, f"{error} {error.details!r}"))

    def tell(self, sql: str) -> None:
        """Send a statement, and note its rows or its error."""
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(sql)
                self.said.append((sql, repr(cursor.fetchall())))
            except flight_sql.Error as error:
                self.said.append((sql, f"{error} {error.details!r}"))

    def tell_all(self) -> None:
        """Read what the server shows of its models and its statements."""
        self.tell("SHOW MODELS")
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'system'")
            tables = [name for (name,) in cursor.fetchall()]
        assert {"models", "queries", "settings"} <= set(tables)
        for table in tables:
            self.tell(f"SELECT * FROM system.{table}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def leaks(self) -> list[tuple[str, str]]:
        """Return the statements whose answer shows the canary, and the lines of the log that do."""
        seen = [(sql, text) for sql, text in self.said if any(mark in text for mark in MARKS)]
        lines = self._server.log.read_text().splitlines()
        return seen + [("log", line) for line in lines if any(mark in line for mark in MARKS)]


@contextmanager
def watched_server(folder: Path, log: str = "console", more: str = "") -> Iterator[Watched]:
    """Run a server that knows the canary, as a variable and as a file; `more` are further sections of its settings."""
    (folder / "key").write_text(CANARY)
    settings = (
        f'[engine]\nkind = "fake"\n[models]\nsecret_folders = ["{folder}"]\nsecret_names = ["CANARY"]\n'
        f'[log]\nformat = "{log}"\nlevel = "debug"\n[recovery]\non_engine_down = "fail"\n{more}'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", CANARY)
        with SupervisedServer(folder, settings) as server:
            watched = Watched(server)
            try:
                yield watched
            finally:
                watched.close()
