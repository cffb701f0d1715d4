"""Values bound to prepared statements: each binding answers with a handle of its own."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.flight.messages import SQL_PACKAGE, message_class, pack, sql_message
from flightllm.flight.server import FlightSqlServer
from tests.flight_messages import fetch, prepare, prepared, put


def bind(client: flight.FlightClient, handle: bytes, values: pa.Table) -> bytes:
    """Bind values and return the handle of the answer."""
    answer = message_class(f"{SQL_PACKAGE}.DoPutPreparedStatementResult").FromString(
        put(client, prepared(handle), values)
    )
    return bytes(answer.prepared_statement_handle)


def one(client: flight.FlightClient, handle: bytes) -> object:
    """Return the one value of a result."""
    return fetch(client, prepared(handle)).column(0)[0].as_py()


def close(client: flight.FlightClient, handle: bytes) -> None:
    """Close a prepared statement."""
    body = pack(sql_message("ActionClosePreparedStatementRequest", prepared_statement_handle=handle))
    list(client.do_action(flight.Action("ClosePreparedStatement", body)))


def test_connections_that_share_a_handle(server: FlightSqlServer, bare: flight.FlightClient) -> None:
    """Six connections bind to one handle at the same time; each reads its own values, every time."""
    shared = prepare(bare, "SELECT CAST(? AS BIGINT) AS v").prepared_statement_handle
    together = Barrier(6)

    def read(number: int) -> list[object]:
        with flight.connect(server.uri) as client:
            found = []
            for turn in range(10):
                together.wait(60)
                bound = bind(client, shared, pa.table({"0": [number * 100 + turn]}))
                together.wait(60)
                found.append(one(client, bound))
            return found

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(read, range(6)))
    assert found == [[number * 100 + turn for turn in range(10)] for number in range(6)]


def test_a_client_that_keeps_its_handle(bare: flight.FlightClient) -> None:
    """The handle given first has the values bound last, those of a binding stay its own."""
    handle = prepare(bare, "SELECT ? AS v").prepared_statement_handle
    first = bind(bare, handle, pa.table({"0": [1]}))
    second = bind(bare, first, pa.table({"0": [2]}))
    assert len({handle, first, second}) == 3
    assert [one(bare, given) for given in (handle, first, second)] == [2, 1, 2]


def test_closing(bare: flight.FlightClient) -> None:
    """Closing a binding leaves others; closing the statement closes all."""
    handle = prepare(bare, "SELECT ? AS v").prepared_statement_handle
    first, second = (bind(bare, handle, pa.table({"0": [number]})) for number in (1, 2))
    close(bare, second)
    with pytest.raises(KeyError, match="bind them again"):
        one(bare, handle)
    assert one(bare, first) == 1
    close(bare, handle)
    for closed in (handle, first):
        with pytest.raises(KeyError, match="no such prepared statement"):
            one(bare, closed)


def test_bindings_in_a_loop(server: FlightSqlServer, bare: flight.FlightClient) -> None:
    """A client that closes none of its bindings keeps a bounded number of them."""
    handle = prepare(bare, "SELECT ? AS v").prepared_statement_handle
    bound = [bind(bare, handle, pa.table({"0": [number]})) for number in range(100)]
    assert one(bare, bound[-1]) == 99
    with pytest.raises(KeyError, match="no such prepared statement"):
        one(bare, bound[0])
    assert len(server.core.prepared._values) <= 65


def test_values_of_several_types(bare: flight.FlightClient) -> None:
    """Rows of a union that make a column two types are refused in words about the values."""
    handle = prepare(bare, "SELECT ? AS v").prepared_statement_handle
    union = pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["x"])]
    )
    bound = bind(bare, handle, pa.table({"0": union}))
    with pytest.raises(pa.ArrowInvalid, match=r"values of several types.*'v' is int64 first and string later"):
        fetch(bare, prepared(bound))


@pytest.mark.parametrize("sql", ["SELECT :a + 1 AS v, :b AS w, :a AS x", "SELECT $a + 1 AS v, $b AS w, $a AS x"])
def test_named_parameters(bare: flight.FlightClient, sql: str) -> None:
    """A name stands for one value wherever it comes; columns are matched by name, else by place."""
    answer = prepare(bare, sql)
    assert pa.ipc.read_schema(pa.py_buffer(answer.parameter_schema)).names == ["a", "b"]
    for columns in ({"b": ["y"], "a": [1]}, {"0": [1], "1": ["y"]}):
        bound = bind(bare, answer.prepared_statement_handle, pa.table(columns))
        assert fetch(bare, prepared(bound)).to_pylist() == [{"v": 2, "w": "y", "x": 1}]
