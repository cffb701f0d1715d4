"""A prepared statement whose table was made again with other columns."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.postgres.support import SECONDS, Place

DRIVER = Path("/usr/share/java/postgresql.jar")
JAVA = shutil.which("java")
_MAKE = "CREATE OR REPLACE TABLE chg (a int, b int)"
_FILL = "INSERT INTO chg (a, b) VALUES (1, 2)"


@pytest.mark.parametrize("columns", ["b int, a int", "a int", "a int, b int, c int", "a int, d int"])
def test_asyncpg(place: Place, columns: str) -> None:
    """Asyncpg gets the error by which it knows that it must prepare again."""
    asyncpg = pytest.importorskip("asyncpg", reason="the extra 'test' is not installed")

    async def talk() -> None:
        connection = await asyncpg.connect(host="127.0.0.1", port=place.port, user="me", database="flightllm")
        other = await asyncpg.connect(host="127.0.0.1", port=place.port, user="me", database="flightllm")
        try:
            for text in (_MAKE, _FILL):
                await other.execute(text)
            prepared = await connection.prepare("SELECT * FROM chg WHERE a = $1")
            assert [dict(row) for row in await prepared.fetch(1)] == [{"a": 1, "b": 2}]
            await other.execute(f"CREATE OR REPLACE TABLE chg ({columns})")
            with pytest.raises(asyncpg.exceptions.InvalidCachedStatementError):
                await prepared.fetch(1)
            await other.execute("INSERT INTO chg (a) VALUES (1)")
            again = await connection.fetch("SELECT * FROM chg WHERE a = $1", 1)
            assert [row["a"] for row in again] == [1]
        finally:
            await connection.close()
            await other.close()

    asyncio.run(asyncio.wait_for(talk(), SECONDS))


def test_psycopg(place: Place) -> None:
    """Psycopg's own prepared statement gets PostgreSQL's error, also where no row comes."""
    with place.connect() as connection:
        connection.execute(_MAKE.encode())
        for _ in range(2):
            connection.execute("SELECT * FROM chg WHERE a = %s", (7,), prepare=True)
        connection.execute("CREATE OR REPLACE TABLE chg (b int, a int)")
        rows = connection.execute("SELECT * FROM chg WHERE a = %s", (7,), prepare=True).fetchall()
        assert rows == []  # it describes each portal, so it learns the new columns
        connection.execute("PREPARE p AS SELECT * FROM chg")
        connection.execute(_MAKE.encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
            connection.execute("EXECUTE p")


@pytest.mark.slow
@pytest.mark.skipif(JAVA is None or not DRIVER.exists(), reason="no JDBC driver of PostgreSQL here")
def test_jdbc(place: Place, tmp_path: Path) -> None:
    """JDBC prepares again by itself after the error, and so gets the values of the right columns."""
    script = tmp_path / "Changed.java"
    script.write_text(
        """
        import java.sql.*;
        public class Changed {
          public static void main(String[] args) throws Exception {
            try (Connection c = DriverManager.getConnection(args[0]);
                 Connection o = DriverManager.getConnection(args[0])) {
              o.createStatement().execute("CREATE OR REPLACE TABLE chg (a int, b int)");
              o.createStatement().execute("INSERT INTO chg (a, b) VALUES (1, 2)");
              PreparedStatement p = c.prepareStatement("SELECT * FROM chg WHERE a = ?");
              for (int round = 0; round < 16; round++) {
                if (round == 8) {
                  o.createStatement().execute("CREATE OR REPLACE TABLE chg (b int, a int)");
                  o.createStatement().execute("INSERT INTO chg (a, b) VALUES (1, 2)");
                }
                p.setInt(1, 1);
                ResultSet found = p.executeQuery();
                found.next();
                System.out.println(found.getInt("a") + " " + found.getInt("b"));
              }
            }
          }
        }
        """
    )
    where = f"jdbc:postgresql://127.0.0.1:{place.port}/flightllm?user=me"
    command = [JAVA or "", "-cp", str(DRIVER), str(script), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.split("\n")[:-1] == ["1 2"] * 16
