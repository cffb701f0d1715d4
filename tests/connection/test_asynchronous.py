"""Connections for asyncio."""

import asyncio
from pathlib import Path

import pandas as pd
import pytest

import flightllm
from flightllm.errors import FlightLLMError
from tests.connection.conftest import fake
from tests.connection.test_connection import LONG


def test_statements(tmp_path: Path) -> None:
    """Results have the forms of a plain connection, and queries read the caller's variables."""

    async def main() -> None:
        frame = pd.DataFrame({"n": [1, 2]})
        async with await flightllm.connect_async(fake(tmp_path)) as connection:
            result = await connection.sql("SELECT n FROM frame ORDER BY n")
            assert (await result.df())["n"].tolist() == [1, 2]
            assert [row async for row in result] == await result.fetchall() == [(1,), (2,)]
            assert (await (await connection.execute("SELECT ? AS a", [3])).pl()).rows() == [(3,)]
            batches = (await connection.sql("SELECT n FROM generate_series(1, 3) AS s(n)")).batches()
            assert [batch.num_rows async for batch in batches] == [3]
            await connection.register("t", frame)
            other = await connection.cursor()
            with pytest.raises(FlightLLMError, match="not found"):
                await other.sql("SELECT * FROM t")
            await other.close()
            assert (await connection.sql("DELETE FROM t")).affected == 2
        assert connection.closed

    asyncio.run(main())


def test_a_cancelled_task_stops_its_statement(tmp_path: Path) -> None:
    """A cancelled task ends its own statement, and no other."""
    ended = "SELECT status FROM system.queries WHERE sql LIKE '%task {n}%' AND calls > 0"

    async def status(connection: flightllm.AsyncConnection, wanted: str) -> None:
        while True:
            rows = await (await connection.sql(ended)).fetchall()
            if (wanted,) in rows:
                return

    async def main() -> None:
        async with await flightllm.connect_async(fake(tmp_path, 20)) as connection:
            result = await connection.sql(LONG.format("task"))
            other = asyncio.create_task(
                (await connection.sql("SELECT ai_gen('b {n}', n::text) FROM generate_series(1, 40) AS s(n)")).fetchall()
            )
            task = asyncio.create_task(result.arrow())
            await asyncio.wait_for(status(connection, "running"), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(status(connection, "cancelled"), 60)
            assert len(await other) == 40

    asyncio.run(main())
