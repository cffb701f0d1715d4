"""The fields of JSON values in BigQuery's spelling, beside fields of structs and columns of tables."""

from collections.abc import Iterator, Sequence

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_JSON = "(SELECT id, PARSE_JSON(j) AS d FROM docs) AS c"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table and a view of JSON texts, and a table of structs."""
    database = small_database(tmp_path_factory.mktemp("fields"))
    session = database.session()
    session.update(
        """CREATE TABLE docs AS SELECT * FROM (VALUES (1, '{"s": "x", "l": ["a", {"k": 2}], "n": 7, "o": {"k": "v"}}'),
        (2, '{"s": null, "n": "7"}'), (3, NULL)) AS v(id, j)"""
    )
    session.update("CREATE VIEW seen AS SELECT id, j FROM docs")
    session.update("CREATE TABLE st AS SELECT id, named_struct('city', name, 'n', id) AS r FROM people WHERE id < 3")
    yield session
    database.close()


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT j.s FROM docs ORDER BY id", ['"x"', None, None]),
        ("SELECT docs.j.o.k FROM docs ORDER BY id", ['"v"', None, None]),
        ("SELECT v.j.l[1].k FROM seen AS v ORDER BY id", ["2", None, None]),
        ("SELECT j['l'][0] FROM docs ORDER BY id", ['"a"', None, None]),
        ("SELECT public.docs.j.n FROM public.docs ORDER BY id", ["7", '"7"', None]),
        (f"SELECT c.d.o FROM {_JSON} ORDER BY id", ['{"k": "v"}', None, None]),
        (f"SELECT STRING(d.s) FROM {_JSON} ORDER BY id", ["x", None, None]),
        ("SELECT (SELECT PARSE_JSON(j) FROM docs WHERE id = 1).o.k", ['"v"']),
        ("SELECT (SELECT j FROM docs WHERE id = 1).l[1].k", ["2"]),
        ("SELECT (SELECT r FROM st WHERE id = 1).n", [1]),
        ("SELECT TO_JSON(STRUCT(1 AS a)).a", ["1"]),
        ("SELECT LAX_INT64(j.n) FROM docs ORDER BY id", [7, 7, None]),
        ("SELECT STRING(PARSE_JSON(j).o.k) FROM docs WHERE id = 1", ["v"]),
        ("WITH c AS (SELECT id, j.o FROM docs) SELECT o.k FROM c ORDER BY id", ['"v"', None, None]),
        ("SELECT id FROM docs WHERE LAX_STRING(j.n) = '7' ORDER BY id", [1, 2]),
        ("SELECT x.k FROM docs, UNNEST(JSON_QUERY_ARRAY(j, '$.l')) AS x ORDER BY 1", [None, "2"]),
        ("SELECT r.city FROM st ORDER BY r.n", ["Ann", "Bob"]),
        ("SELECT st.r.n + 1 FROM st ORDER BY st.id", [2, 3]),
        ("SELECT st.id FROM st JOIN docs ON docs.id = st.r.n ORDER BY 1", [1, 2]),
        ("SELECT COUNT(*) FROM st GROUP BY r.city", [1, 1]),
    ],
)
def test_fields(session: Session, sql: str, values: Sequence[object]) -> None:
    """A field of a JSON text is JSON, a field of a struct keeps its type, and a name after a table is a column."""
    assert [next(iter(row.values())) for row in ask(session, sql, dialect="bigquery").rows] == list(values)


def test_names(session: Session) -> None:
    """A column has the name of its last field, in the spelling of the text."""
    found = ask(
        session, "SELECT j.s, docs.j.Other, st.r.city FROM docs JOIN st USING (id) WHERE id = 1", dialect="bigquery"
    )
    assert found.rows == [{"s": '"x"', "Other": None, "city": "Ann"}]


@pytest.mark.parametrize("field", ["status", "full_response"])
def test_fields_around_answers(session: Session, field: str) -> None:
    """A field that BigQuery has around an answer is an error over a text, and no NULL."""
    with pytest.raises(UnsupportedError, match=rf"leave \.{field} out"):
        ask(session, f"SELECT r.{field} FROM (SELECT AI.GENERATE(note) AS r FROM people) AS q", dialect="bigquery")
