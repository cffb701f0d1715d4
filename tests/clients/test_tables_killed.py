"""A server killed while clients change tables: what was acknowledged is there, the rest wholly or not at all."""

import json
import random
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.client import Client
from flightllm.errors import EngineUnavailableError
from flightllm.flight.messages import pack, sql_message
from tests.servers import ServerProcess, await_true

KILLS, CLIENTS = 12, 2
MOST_SECONDS = 0.8
"""A server is killed so long after its clients changed something, or earlier."""

State = Mapping[str, tuple[tuple[int, str], ...]]
"""The rows of each table and view, in order of their columns."""


class Changer:
    """A client that changes tables of its own, and knows what they must hold."""

    def __init__(self, number: int, seed: int) -> None:
        self.prefix = f"c{number}_"
        self.acknowledged: State = MappingProxyType({})
        self.sent: State | None = None
        """What the statement leads to that was sent last, unless it was acknowledged."""
        self.statements = 0
        self.error: Exception | None = None
        self._random = random.Random(seed)  # noqa: S311 -- which statements come, no secret
        self._next = 0

    def work(self, server: ServerProcess) -> None:
        """Change tables until the server is gone."""
        try:
            with Client(server.uri) as client:
                while True:
                    self._change(client)
                    self.statements += 1
        except EngineUnavailableError:
            return
        except Exception as error:  # noqa: BLE001 -- of a thread: the test looks at it
            self.error = error

    def _change(self, client: Client) -> None:
        tables = [name for name in self.acknowledged if not name.endswith("_v")]
        kinds = ["ctas", "ingest"] if len(tables) < 2 else ["insert"] * 4 + [
            "ctas", "ingest", "many", "replace", "delete", "update", "drop", "view", "drop view",
        ]  # fmt: skip
        kind = self._random.choice(kinds)
        name = self._random.choice(tables) if tables else ""
        rows, view = self.acknowledged.get(name, ()), f"{name}_v"
        match kind:
            case "ctas":
                new = self._new_rows(self._random.choice([0, 3, 500]))
                self._run(client, f"CREATE TABLE {self._new_name()} AS {_values(new)}", {self._name: new})
            case "ingest":
                new = self._new_rows(2_000)
                self._send({self._new_name(): new})
                _ingest(client, self._name, pa.table({"n": [n for n, _ in new], "s": [s for _, s in new]}))
                self._acknowledge()
            case "insert" | "many":
                new = self._new_rows(1 if kind == "insert" else 3_000)
                self._run(client, f"INSERT INTO {name} {_values(new)}", {name: (*rows, *new)})
            case "replace":
                new = self._new_rows(5)
                self._run(client, f"CREATE OR REPLACE TABLE {name} AS {_values(new)}", {name: new})
            case "delete":
                odd = self._random.randrange(2)
                kept = tuple(row for row in rows if row[0] % 2 != odd)
                self._run(client, f"DELETE FROM {name} WHERE n % 2 = {odd}", {name: kept})
            case "update":
                changed = tuple((n, "changed" if n % 3 == 0 else s) for n, s in rows)
                self._run(client, f"UPDATE {name} SET s = 'changed' WHERE n % 3 = 0", {name: changed})
            case "drop":
                without = {view: None} if view in self.acknowledged else {}
                if not without:
                    self._run(client, f"DROP TABLE {name}", {name: None})
            case "view":
                self._run(client, f"CREATE OR REPLACE VIEW {view} AS SELECT n, s FROM {name}", {view: ()})
            case _:
                self._run(client, f"DROP VIEW IF EXISTS {view}", {view: None})

    def _run(self, client: Client, sql: str, changed: Mapping[str, tuple[tuple[int, str], ...] | None]) -> None:
        self._send(changed)
        _, batches = client.query(sql)
        assert list(batches) == []
        self._acknowledge()

    def _send(self, changed: Mapping[str, tuple[tuple[int, str], ...] | None]) -> None:
        after = {name: rows for name, rows in {**self.acknowledged, **changed}.items() if rows is not None}
        for name in after:  # a view has what its table has
            if name.endswith("_v"):
                after[name] = after[name.removesuffix("_v")]
        self.sent = after

    def _acknowledge(self) -> None:
        if self.sent is not None:
            self.acknowledged, self.sent = self.sent, None

    def _new_name(self) -> str:
        self._next += 1
        self._name = f"{self.prefix}t{self._next}"
        return self._name

    def _new_rows(self, count: int) -> tuple[tuple[int, str], ...]:
        return tuple((self._random.randrange(10**6), f"text {self._random.random()}") for _ in range(count))

    def check(self, found: State) -> None:
        """Check what a server has after a kill, and go on from there."""
        mine = {name: rows for name, rows in found.items() if name.startswith(self.prefix)}
        allowed = [state for state in (self.acknowledged, self.sent) if state is not None]
        assert _sizes(mine) in [_sizes(state) for state in allowed]
        assert mine in [{name: tuple(sorted(rows)) for name, rows in state.items()} for state in allowed]
        self.acknowledged = next(
            state for state in allowed if mine == {name: tuple(sorted(rows)) for name, rows in state.items()}
        )
        self.sent = None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_killed_at_random(tmp_path: Path, seed: int) -> None:
    """After each kill and restart every client finds its acknowledged state, or the one its last statement makes."""
    chance = random.Random(seed)  # noqa: S311 -- when to kill, no secret
    clients = [Changer(number, chance.randrange(10**9)) for number in range(CLIENTS)]
    torn = 0
    for _ in range(KILLS):
        with ServerProcess(tmp_path, 1, 16) as server:
            found = state_of(server)
            torn += sum(client.sent is not None for client in clients)
            for client in clients:
                client.check(found)
            assert {name for name in found if name != "t"} == {name for c in clients for name in c.acknowledged}
            named = files_in(tmp_path, "manifest.json")
            assert named <= files_on_disk(tmp_path) <= named | files_in(tmp_path, "manifest.json.previous")
            before = [client.statements for client in clients]
            threads = [threading.Thread(target=client.work, args=(server,)) for client in clients]
            for thread in threads:
                thread.start()
            await_true(partial(have_changed, clients, before))
            threads[0].join(chance.uniform(0.0, MOST_SECONDS))
            server.kill()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
            assert [client.error for client in clients if client.error] == []
    assert sum(client.statements for client in clients) > KILLS
    assert torn > KILLS // 2


def have_changed(clients: Sequence[Changer], before: Sequence[int]) -> bool:
    """Return whether each client changed something, or failed."""
    return all(one.error or one.statements > count for one, count in zip(clients, before, strict=True))


def _ingest(client: Client, name: str, table: pa.Table) -> None:
    """Upload a table that is not there yet, and wait until that is acknowledged."""
    options = {"if_not_exist": 1, "if_exists": 1}
    command = pack(sql_message("CommandStatementIngest", table=name, table_definition_options=options))
    with client._our_errors():
        writer, answer = client._client.do_put(flight.FlightDescriptor.for_command(command), table.schema)
        with writer:
            writer.write_table(table)
            writer.done_writing()
            assert answer.read() is not None


def state_of(server: ServerProcess) -> State:
    """Return the rows of all tables and views that a server has."""
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
    return {name: tuple(server.query(f'SELECT * FROM "{name}" ORDER BY 1, 2' if name != "t" else "SELECT n, '' FROM t"))
            for (name,) in server.query(listed)}  # fmt: skip


def files_on_disk(folder: Path) -> set[str]:
    """Return the names of the data files there are."""
    return {path.name for path in (folder / "tables" / "files").iterdir()}


def files_in(folder: Path, manifest: str) -> set[str]:
    """Return the names of the data files that tables have, by the list of now or by that before the last change."""
    path = folder / "tables" / manifest
    entries = json.loads(path.read_text())["entries"] if path.exists() else []
    return {file["name"] for entry in entries for file in entry.get("files", [])}


def _values(rows: tuple[tuple[int, str], ...]) -> str:
    if not rows:
        return "SELECT CAST(1 AS BIGINT) AS n, 'x' AS s WHERE false"
    texts = ", ".join(f"({n}, '{s}')" for n, s in rows)
    return f"SELECT n, s FROM (VALUES {texts}) AS v(n, s)"


def _sizes(state: State) -> dict[str, int]:
    return {name: len(rows) for name, rows in state.items()}
