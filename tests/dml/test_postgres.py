"""Changes of rows, made at random, do in PostgreSQL and here the same to the same tables."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database
from tests.postgres import Outcome, Postgres, binaries, cluster

OTHERS = """DROP TABLE IF EXISTS s; DROP TABLE IF EXISTS m;
CREATE TABLE s (k BIGINT, j BIGINT, w VARCHAR);
CREATE TABLE m (k BIGINT, j BIGINT);
INSERT INTO s VALUES (1, 10, 'x'), (2, NULL, 'y'), (4, 3, NULL), (8, 8, 'new'), (9, NULL, NULL), (NULL, 1, 'n');
INSERT INTO m VALUES (1, 1), (1, 2), (3, 3), (NULL, 4), (5, 5);"""
SETUP = """DROP TABLE IF EXISTS t;
CREATE TABLE t (k BIGINT PRIMARY KEY, i BIGINT DEFAULT 7, v VARCHAR);
INSERT INTO t VALUES (1, 2, 'a'), (2, 1, 'Ab'), (3, NULL, 'b'), (4, 4, NULL), (5, 5, ''), (6, -3, 'c'), (7, 2, 'a');"""
OWN_SETUPS = {
    "t": "",
    '"Q t"': """DROP TABLE IF EXISTS "Q t";
CREATE TABLE "Q t" ("Key One" BIGINT PRIMARY KEY, "select" VARCHAR, "Ümlaut" DOUBLE PRECISION DEFAULT 1.5);
INSERT INTO "Q t" VALUES (1, 'one', 1.25), (2, 'two', NULL), (3, NULL, 3.5);""",
    "ty": """DROP TABLE IF EXISTS ty;
CREATE TABLE ty (id INT PRIMARY KEY, d DECIMAL(10, 2) DEFAULT 9.99, dt DATE, tx VARCHAR DEFAULT 'dft');
INSERT INTO ty VALUES (1, 1.10, '2024-01-31', 'a'), (2, NULL, NULL, NULL), (3, 3.33, '2023-12-31', 'c');""",
    "sch.u": """DROP TABLE IF EXISTS sch.u;
CREATE TABLE sch.u (a BIGINT, b BIGINT, UNIQUE (a, b));
INSERT INTO sch.u VALUES (1, 1), (1, 2), (2, NULL), (NULL, NULL);""",
}
"""How each table of `statements.sql` is made; `t` is there, too."""
SEEDS, STATEMENTS = 4, 50

pytestmark = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """Run a PostgreSQL server."""
    with cluster() as server:
        yield server


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session of an empty database."""
    database: Database = open_database(Path(tmp_path_factory.mktemp("data")))
    session = database.session()
    _run(session, OTHERS)
    yield session
    database.close()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, SEEDS))])
def test_same_outcomes(postgres: Postgres, session: Session, seed: int) -> None:
    """Both fail or both change as many rows, return the same rows, and leave the same table."""
    draw = _Draw(seed, postgres.version)
    statements = [draw.statement() for _ in range(STATEMENTS)]
    theirs = postgres.outcomes(OTHERS, SETUP, statements, "t")
    failed = 0
    for statement, wanted in zip(statements, theirs, strict=True):
        found = _ours(session, statement)
        failed += wanted.failed
        if wanted.failed:
            assert found.failed, statement
            assert found.rows == wanted.rows, statement
        else:
            assert found == wanted, statement
    assert failed < STATEMENTS / 3


@pytest.mark.parametrize(
    "table", [pytest.param(table, marks=[pytest.mark.slow] * (table == "t")) for table in OWN_SETUPS]
)
def test_written_by_hand(postgres: Postgres, session: Session, table: str) -> None:
    """Self-joins, duplicates, NULLs, quoted names, types, defaults and wrong statements do as in PostgreSQL."""
    statements = _written()[table]
    once = f"{OTHERS}\nDROP SCHEMA IF EXISTS sch CASCADE;\nCREATE SCHEMA sch;"
    theirs = postgres.outcomes(once, f"{SETUP}\n{OWN_SETUPS[table]}", statements, table)
    if table == "sch.u":
        _run(session, "CREATE SCHEMA sch")
    for statement, wanted in zip(statements, theirs, strict=True):
        found = _ours(session, statement, table)
        if wanted.failed:
            assert found.failed, statement
            assert found.rows == wanted.rows, statement
        else:
            assert found == wanted, statement


def _written() -> dict[str, list[str]]:
    """Return the statements of `statements.sql` by the table that they change."""
    found, table = dict[str, list[str]](), ""
    for line in Path(__file__).with_name("statements.sql").read_text(encoding="utf-8").splitlines():
        if line.startswith("-- table "):
            table = line.removeprefix("-- table ")
        elif not line.startswith("--"):
            found.setdefault(table, []).append(line)
    return found


def _ours(session: Session, statement: str, name: str = "t") -> Outcome:
    _run(session, f"{SETUP}\n{OWN_SETUPS[name]}")
    failed = False
    try:
        if "RETURNING" in statement:
            done = session.update_returning(statement)
            affected, returned = done.affected, _shown(done.rows)
        else:
            affected, returned = session.update(statement), []
    except FlightLLMError:
        affected, returned, failed = 0, [], True
    result = session.execute(f"SELECT * FROM {name}")
    return Outcome(failed, affected, returned, _shown(pa.Table.from_batches(list(result.batches), result.schema)))


def _run(session: Session, script: str) -> None:
    for text in script.split(";"):
        if text.strip():
            session.update(text)


def _shown(table: pa.Table) -> list[str]:
    columns = [column.to_pylist() for column in table.columns]
    lines = ["|".join(map(_text, row)) for row in zip(*columns, strict=True)]
    return sorted(line for line in lines if line)


def _text(value: object) -> str:
    """Return a value as psql shows it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "t" if value else "f"
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Draw:
    """Writes statements that mean the same to both."""

    def __init__(self, seed: int, version: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._version = version

    def statement(self) -> str:
        kinds = [self._update, self._update_from, self._delete, self._delete_using, self._merge, self._merge]
        return self._random.choice([*kinds, self._conflict, self._conflict, self._insert])()

    def _update(self) -> str:
        alias = self._random.choice(["", " AS a"])
        name = "a" if alias else "t"
        common = self._random.choice(["", "WITH big AS (SELECT max(j) AS most FROM m) "])
        values = [f"i = {self._number(name)}", f"v = {self._text(name)}", f"(i, v) = ({self._number(name)}, DEFAULT)"]
        values += ["i = DEFAULT", f"i = (SELECT max(j) FROM m WHERE m.k = {name}.k)"]
        if common:
            values.append("i = (SELECT most FROM big)")
        where = self._where(name)
        return f"{common}UPDATE t{alias} SET {self._random.choice(values)}{where}{self._returning(name)}"

    def _update_from(self) -> str:
        value = self._random.choice(["i = s.j", "v = s.w || t.v, i = t.i + s.j", "i = coalesce(s.j, t.i) * 2", "v = w"])
        more = self._random.choice(["", f" AND {self._condition('t')}", " AND s.j IS NOT NULL"])
        source = self._random.choice(["s", "s JOIN (SELECT DISTINCT k AS mk FROM m) AS d ON d.mk = s.k"])
        returning = self._random.choice(["", " RETURNING t.k, t.i, s.w", " RETURNING *", " RETURNING v, j + 1 AS n"])
        return f"UPDATE t SET {value} FROM {source} WHERE s.k = t.k{more}{returning}"

    def _delete(self) -> str:
        return f"DELETE FROM t{self._where('t')}{self._returning('t')}"

    def _delete_using(self) -> str:
        other = self._random.choice(["m WHERE m.k = t.k", "s WHERE s.k = t.k AND s.j > 3", "m, s WHERE m.k = t.k"])
        more = self._random.choice(["", " RETURNING t.*"])
        return f"DELETE FROM t USING {other}{more}"

    def _insert(self) -> str:
        source = self._random.choice(
            ["SELECT k + 20, 0, 'n' FROM m WHERE k > 1", "VALUES (30, 1, NULL), (31, NULL, '')"]
        )
        return f"INSERT INTO t {source}{self._random.choice(['', ' RETURNING k, i', ' RETURNING *'])}"

    def _merge(self) -> str:
        grouped = "(SELECT k, max(j) AS j, min('w') AS w FROM m GROUP BY k) AS s"
        values = "(VALUES (1, 5, 'p'), (3, 6, 'q'), (11, 7, 'r')) AS s (k, j, w)"
        source = self._random.choice(["s", grouped, values, "(SELECT k, j, 'm' AS w FROM m) AS s"])
        matched = [
            "WHEN MATCHED AND s.j > 4 THEN DELETE",
            "WHEN MATCHED AND t.i > 1 THEN UPDATE SET i = t.i + s.j, v = s.w",
            "WHEN MATCHED AND s.j IS NULL THEN DO NOTHING",
            "WHEN MATCHED AND CASE WHEN t.v = 'a' THEN true END THEN UPDATE SET v = DEFAULT, i = DEFAULT",
        ]
        last = self._random.choice(["", " WHEN MATCHED THEN UPDATE SET i = s.j", " WHEN MATCHED THEN DELETE"])
        new = ["", " WHEN NOT MATCHED AND s.k > 8 THEN INSERT (k, v) VALUES (s.k, s.w || '!')"]
        new.append(" WHEN NOT MATCHED AND s.k IS NOT NULL THEN INSERT VALUES (s.k + 100, s.j, s.w)")
        chosen = " ".join(self._random.sample(matched, self._random.randint(1, 2)))
        tail = ""
        if self._version >= 17:
            tail += self._random.choice(["", " WHEN NOT MATCHED BY SOURCE AND t.i < 3 THEN DELETE"])
            tail += self._random.choice(["", " RETURNING merge_action(), t.*"])
        return f"MERGE INTO t USING {source} ON s.k = t.k {chosen}{last}{self._random.choice(new)}{tail}"

    def _conflict(self) -> str:
        source = self._random.choice([
            "VALUES (1, 100, 'z'), (40, 1, 'w')", "SELECT k, j, w FROM s WHERE k IS NOT NULL",
            "VALUES (41, 1, 'a'), (41, 2, 'b')", "SELECT k, j, 'm' FROM m WHERE k IS NOT NULL",
        ])  # fmt: skip
        action = self._random.choice([
            "DO NOTHING", "(k) DO NOTHING", "(k) DO UPDATE SET v = excluded.v, i = t.i + excluded.i",
            "(k) DO UPDATE SET i = excluded.i WHERE t.i > 1", "(k) DO UPDATE SET i = DEFAULT, v = t.v || excluded.v",
        ])  # fmt: skip
        return f"INSERT INTO t {source} ON CONFLICT {action}{self._random.choice(['', ' RETURNING t.k, t.i, v'])}"

    def _returning(self, name: str) -> str:
        return self._random.choice(["", "", " RETURNING *", f" RETURNING {name}.k, i * 2 AS d, upper(v) AS u"])

    def _where(self, name: str) -> str:
        return self._random.choice(["", f" WHERE {self._condition(name)}", f" WHERE {self._condition(name)}"])

    def _condition(self, name: str) -> str:
        simple = [
            f"{name}.i > {self._random.randint(-3, 5)}",
            f"{name}.v IS NULL",
            f"{name}.k IN (SELECT k FROM m)",
            f"{name}.k NOT IN (SELECT k FROM m WHERE k IS NOT NULL)",
            f"{name}.k NOT IN (SELECT k FROM m)",
            f"EXISTS (SELECT 1 FROM s WHERE s.k = {name}.k AND s.j > {name}.i)",
            f"NOT EXISTS (SELECT 1 FROM m WHERE m.k = {name}.k)",
            f"{name}.i > (SELECT avg(j) FROM m)",
            f"{name}.i = (SELECT min(b.i) FROM t AS b WHERE b.v = {name}.v)",
            f"{name}.v IN ('a', 'c') OR {name}.i IS DISTINCT FROM 2",
        ]
        if self._random.random() < 0.3:
            return f"({self._random.choice(simple)}) AND NOT ({self._random.choice(simple[:2])})"
        return self._random.choice(simple)

    def _number(self, name: str) -> str:
        return self._random.choice([f"{name}.i + 1", "k * 2", "NULL", f"coalesce({name}.i, 0) - {name}.k", "42"])

    def _text(self, name: str) -> str:
        return self._random.choice(
            [f"upper({name}.v)", "'z'", f"{name}.v || 'q'", "NULL", f"coalesce({name}.v, 'none')"]
        )
