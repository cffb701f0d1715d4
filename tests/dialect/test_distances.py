"""The operators of pgvector measure distances in texts of PostgreSQL."""

from collections.abc import Iterator

import pytest

from flightllm.config import EmbeddingConfig
from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_TEA = "ai_embed('tea')"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables, and one of vectors whose distances a reader can compute."""
    database = small_database(tmp_path_factory.mktemp("distances"), embedding=EmbeddingConfig("fake"))
    found = database.session()
    found.update("CREATE TABLE points AS SELECT * FROM (VALUES (1, [3.0, 4.0]), (2, [0.0, 2.0])) AS v(id, e)")
    yield found
    database.close()


@pytest.mark.parametrize(
    ("distance", "values"),
    [
        ("e <-> '[0,0]'", [5.0, 2.0]),
        ("e <-> '[0, 0]'::vector", [5.0, 2.0]),
        ("'[0, 0]'::vector(2) <-> p.e", [5.0, 2.0]),
        ("p.e <=> '[0,1]'::vector", [0.2, 0.0]),
        ("1 - (e <=> '[0,1]')", [0.8, 1.0]),
        ("e::vector <-> (SELECT e FROM points AS x WHERE x.id = 2)", [13**0.5, 0.0]),
    ],
)
def test_values(session: Session, distance: str, values: list[float]) -> None:
    """Each operator has pgvector's value."""
    found = ask(session, f"SELECT {distance} AS d FROM points AS p ORDER BY id", dialect="postgres").rows
    assert [row["d"] for row in found] == pytest.approx(values)


def test_order_and_condition(session: Session) -> None:
    """An operator stands in ORDER BY and beside a comparison."""
    query = "SELECT id FROM points WHERE e <-> '[0,0]' < 6 ORDER BY e <-> '[0,0]' ASC LIMIT 2"
    assert [row["id"] for row in ask(session, query, dialect="postgres").rows] == [2, 1]


@pytest.mark.parametrize(
    "call",
    [
        "azure_openai.create_embeddings('x', 'tea', max_attempts => 5)::vector",
        "google_ml.embedding('x', 'tea')::vector(384)",
        "ai.openai_embed('x', 'tea')",
    ],
)
def test_embeddings(session: Session, call: str) -> None:
    """The vector of a vendor's call is compared as it is."""
    query = "SELECT id, {} AS d FROM people ORDER BY 2, 1"
    found = ask(session, query.format(f"ai_embed(note) <=> {call}"), dialect="postgres").rows
    assert found == ask(session, query.format(f"cosine_distance(ai_embed(note), {_TEA})")).rows


def test_null_safe_comparison(session: Session) -> None:
    """IS NOT DISTINCT FROM still compares values."""
    query = "SELECT id FROM people WHERE name IS NOT DISTINCT FROM 'Ann' ORDER BY id"
    assert [row["id"] for row in ask(session, query, dialect="postgres").rows] == [1, 7, 8]


@pytest.mark.parametrize("distance", ["1 - e <-> e", "e <-> e || e", "e <-> -e"])
def test_other_operands(session: Session, distance: str) -> None:
    """PostgreSQL applies other operators first, so the error names the function to write."""
    with pytest.raises(UnsupportedError, match=r"<-> at 1:\d+ does not measure .* write array_distance\(a, b\)"):
        ask(session, f"SELECT {distance} FROM points", dialect="postgres")
