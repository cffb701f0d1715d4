"""Every clause, with the optimizer on and off: the same rows, and never more calls."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet

from flightllm.errors import SqlError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import SAMPLES, Ran, ask, canonical, explained, in_order, plan_lines, small_database

FOLDER = Path(__file__).parent / "pairs"
VIEWS = (
    "CREATE VIEW moods AS SELECT id, ai_sentiment(note) AS mood FROM people",
    "CREATE VIEW mood_counts AS SELECT mood, count(*) AS n FROM moods GROUP BY mood",
)
DIRECTIVES = ("ordered", "fewer", "fallback", "part of", "parameters", "off fails", "expect", "known bug")


@dataclass(frozen=True)
class Pair:
    """One text, and what its comments ask of it; see the head of `select.sql`."""

    name: str
    sql: str
    asked: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> pa.RecordBatch | None:
        """Return the values of its parameters."""
        if "parameters" not in self.asked:
            return None
        values = json.loads(self.asked["parameters"])
        return pa.RecordBatch.from_arrays([pa.array([v]) for v in values], names=[str(i) for i in range(len(values))])


def read_pairs() -> Iterator[Pair]:
    """Read the texts of all files."""
    for path in sorted(FOLDER.glob("*.sql")):
        _, *parts = re.split(r"^-- name: ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for part in parts:
            name, *lines = part.strip().splitlines()
            asked = [line.removeprefix("-- ").partition(": ") for line in lines if line.startswith("-- ")]
            sql = "\n".join(line for line in lines if not line.startswith("-- "))
            yield Pair(f"{path.stem}: {name}", sql, {key: value for key, _, value in asked if key in DIRECTIVES})


PAIRS = list(read_pairs())


def cases(pairs: list[Pair]) -> list[ParameterSet]:
    """Return test cases of pairs, known bugs marked."""
    marks = {
        pair.name: [pytest.mark.xfail(reason=pair.asked["known bug"])] for pair in pairs if "known bug" in pair.asked
    }
    return [pytest.param(pair, id=pair.name, marks=marks.get(pair.name, [])) for pair in pairs]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database of samples, small tables and views whose engine fails prompts that say so."""
    options = {"fail_containing": "fail on"}
    database = small_database(tmp_path_factory.mktemp("pairs"), options, tables=SAMPLES)
    session = database.session()
    for view in VIEWS:
        session.update(view)
    yield database
    database.close()


@pytest.fixture(scope="module")
def session(database: Database) -> Session:
    """Return one session for all texts."""
    return database.session()


def run(session: Session, pair: Pair, optimizer: str) -> Ran:
    """Run a text; what other texts learned is not known to it."""
    return ask(session, pair.sql, pair.parameters, optimizer=optimizer, cache="off")


@pytest.mark.parametrize("pair", cases(PAIRS))
def test_pair(session: Session, pair: Pair) -> None:
    """On and off return the same rows under the same schema, and on makes no more calls; its plan says its path."""
    assert_path(pair, plan_lines(session, pair.sql, pair.parameters))
    on = run(session, pair, "on")
    if "off fails" in pair.asked:
        with pytest.raises(SqlError, match=pair.asked["off fails"]):
            run(session, pair, "off")
        assert [list(row.values()) for row in on.rows] == json.loads(pair.asked["expect"])
        return
    off = run(session, pair, "off")
    assert on.table.schema == off.table.schema
    assert on.table.num_rows == off.table.num_rows
    if "part of" in pair.asked:
        allowed = Counter(canonical(ask(session, pair.asked["part of"]).table))
        assert Counter(canonical(on.table)) <= allowed
        assert Counter(canonical(off.table)) <= allowed
    else:
        assert canonical(on.table) == canonical(off.table)
    if "ordered" in pair.asked:
        assert in_order(on.table) == in_order(off.table)
    assert on.calls < off.calls if "fewer" in pair.asked else on.calls <= off.calls


def assert_path(pair: Pair, plan: dict[str, str]) -> None:
    """Assert that a text runs as operators, or that its plan says why it does not."""
    if "fallback" in pair.asked:
        assert pair.asked["fallback"] in plan["batch functions"]
    else:
        assert "rules" in plan


@pytest.mark.slow
def test_explained(session: Session) -> None:
    """EXPLAIN shows the path of each text, and predicts its calls."""
    for pair in PAIRS:
        assert_path(pair, explained(session, pair.sql, pair.parameters))


def test_described(session: Session) -> None:
    """Describing a text gives the schema that it then has."""
    for pair in PAIRS[::7]:
        if pair.parameters is None:
            assert session.describe(pair.sql).schema == run(session, pair, "on").table.schema


def test_enough() -> None:
    """There are texts for every clause, under names of their own."""
    assert len(PAIRS) >= 60
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
