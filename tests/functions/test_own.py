"""Functions that only rewritten texts call."""

import math
import re
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

import pyarrow as pa
import pytest

from flightllm import functions
from flightllm.common.principal import Principal
from flightllm.errors import FlightLLMError, PermissionDeniedError, SqlError
from flightllm.functions.internal import INTERNAL
from flightllm.functions.own import OWN_PREFIX, OwnFunction
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.own_calls import PLACEHOLDERS, check_no_own_calls
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with the small tables."""
    with closing(small_database(tmp_path_factory.mktemp("own"))) as database:
        yield database


@pytest.fixture(scope="module")
def session(database: Database) -> Session:
    """Return a session of an administrator."""
    return database.session()


def test_every_module_is_gathered() -> None:
    """The list has the functions of each module that lists some, with one name each."""
    modules = [import_module(f"{functions.__name__}.{one.name}") for one in iter_modules(functions.__path__)]
    listed = [one for module in modules for one in getattr(module, "FUNCTIONS", ()) if isinstance(one, OwnFunction)]
    assert {id(one) for one in listed} == {id(one) for one in INTERNAL}
    names = [one.name for one in INTERNAL]
    assert len(set(names)) == len(names)
    assert [name for name in names if not name.startswith(OWN_PREFIX)] == []


_PYTHON: Final = re.compile(r"\b[A-Z]\w+Error\b|<class|Traceback|\.py\b|PyErr|NoneType|/site-packages")
_VALUES: Final[dict[pa.DataType, list[Any]]] = {
    pa.string(): [
        "",
        "a",
        "é🙂",
        "1e400",
        "NaN",
        "[1, {",
        '{"a": [null, 1e30]}',
        "%",
        "%9$s",
        "(",
        "+25:00",
        "%Y-%Q",
        "-0",
    ],
    pa.int64(): [0, 1, -1, 3, 2**31, -(2**63), 2**63 - 1],
    pa.float64(): [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e300, 5e-324],
    pa.float32(): [0.0, 1.5, math.nan, math.inf],
    pa.bool_(): [True, False],
    pa.binary(): [b"", b"\xff"],
    pa.date32(): [0, -719_162, 2_932_896],
    pa.decimal128(38, 10): [Decimal(0), Decimal("1e27"), Decimal("-1.5")],
    pa.decimal128(38, 0): [Decimal(0), Decimal(10) ** 37, Decimal(-1)],
    pa.month_day_nano_interval(): [(0, 0, 0), (2**31 - 1, -(2**31), 2**63 - 1), (-1, 1, -1)],
}


def _column(kind: pa.DataType, count: int, shift: int) -> pa.Array:
    """Return odd values of a type in turn, and NULLs."""
    if pa.types.is_list(kind):
        inner = _column(kind.value_type, count, shift)
        found = [
            None,
            [],
            *([*inner[:place].to_pylist(), None] for place in range(1, 4)),
            inner[shift % 7 :].to_pylist(),
        ]
        return pa.array([found[(place * 5 + shift) % len(found)] for place in range(count)], kind)
    if kind in _VALUES:
        found = [None, *_VALUES[kind]]
        return pa.array([found[(place * (1 + 2 * shift) + shift) % len(found)] for place in range(count)], kind)
    numbers = pa.array([None, 0, -1, 10**10, 2**40] * count, pa.int64())[shift : shift + count]
    return numbers.cast(kind)


@pytest.mark.parametrize("function", INTERNAL, ids=lambda one: one.name)
def test_odd_values(function: OwnFunction) -> None:
    """Odd values have a value of the right type, or an error in SQL's words."""
    count, errors = 30, []
    for shift in range(3):
        columns = [_column(kind, count, shift + place) for place, kind in enumerate(function.arguments)]
        for place in range(count + 1):  # the last one has no row
            given = [column[place : place + 1] for column in columns]
            try:
                found = function.checked(*given)
            except SqlError as error:
                errors.append(str(error))
                continue
            assert found.type == function.output
            assert len(found) == len(given[0])
    assert [error for error in errors if _PYTHON.search(error)] == []


def test_no_words_of_python() -> None:
    """An error that a function did not expect is one in SQL's words, without a path."""

    def run(_: pa.Array) -> pa.Array:
        raise ValueError("/srv/odd.py")

    function = OwnFunction(run, (pa.string(),), pa.string(), "__odd")
    with pytest.raises(SqlError, match="the function odd of the server cannot compute with a value: leave") as error:
        function.checked(pa.array(["a"]))
    assert not _PYTHON.search(str(error.value))


def test_only_the_server_calls_them(session: Session) -> None:
    """A client's text can call none of them, also in quotes and in a filter, but other names can begin as they do."""
    names = sorted({*(one.name for one in INTERNAL), *PLACEHOLDERS})
    for name in names:
        with pytest.raises(PermissionDeniedError, match=f"{name} at 1:8 is a function that only the server can call"):
            check_no_own_calls(ParsedText(f"SELECT {name}(1)"))
    for sql, dialect in (
        ("SELECT __hash(['a'])", "default"),
        ("SELECT 1 + \"__HASH\" (make_array('a'))", "default"),
        ("SELECT __safe_sum(1)", "bigquery"),
        ("CREATE VIEW w AS SELECT __spark_item(1) AS x", "default"),
        ("CREATE TABLE w AS SELECT __time_between(1) AS x", "default"),
    ):
        with pytest.raises(PermissionDeniedError, match="only the server can call"):
            ask(session, sql, dialect=dialect)
    for name in ("__hash", "__dbt__cte"):
        sql = f"WITH {name}(a) AS (SELECT 1) SELECT {name}.a, '__hash(1)' AS __half_even FROM {name}"
        assert ask(session, sql).rows == [{"a": 1, "__half_even": "__hash(1)"}]


def test_only_views_come_back(database: Database, session: Session) -> None:
    """A table with the name `view` is not a view, and only an administrator sends definitions again."""
    definition = ParsedText("CREATE OR REPLACE TEMP VIEW w AS SELECT __hash(['a']) AS x")
    check_no_own_calls(definition, restores=True)
    with pytest.raises(PermissionDeniedError, match="only the server can call"):
        check_no_own_calls(definition)
    with pytest.raises(PermissionDeniedError, match="only the server can call"):
        ask(session, "CREATE TABLE view AS SELECT __hash(['a']) AS x")
    with pytest.raises(PermissionDeniedError, match="only the server can call"):
        ask(database.session(Principal("eve", "user")), "CREATE VIEW w AS SELECT __hash(['a']) AS x")


def test_views_come_back(session: Session) -> None:
    """A client can send the definition of a view again."""
    session.update("CREATE VIEW own_half AS SELECT round(2.5::float8) AS x")
    (shown,) = ask(session, "SELECT pg_get_viewdef('own_half'::regclass) AS x").rows
    session.update(f"CREATE VIEW own_again AS {shown['x'].rstrip(';')}")
    assert ask(session, "SELECT * FROM own_again").rows == ask(session, "SELECT * FROM own_half").rows


def test_wrong_arguments(session: Session) -> None:
    """A wrong count or type of arguments in the definition of a view has an error without words of Python."""
    for function in INTERNAL:
        count = len(function.arguments)
        for given in ("", ", ".join([*count * ["NULL"], "NULL"]), ", ".join(count * ["[[named_struct(1, 2)]]"])):
            assert not _PYTHON.search(_error(session, f"{function.name}({given})"))


def _error(session: Session, call: str) -> str:
    """Return the error of a view with a call; an empty text if there is no error."""
    try:
        session.update(f"CREATE OR REPLACE VIEW own_wrong AS SELECT {call} AS x")
    except FlightLLMError as error:
        return str(error)
    return ""
