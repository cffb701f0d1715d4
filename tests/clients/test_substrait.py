"""Plans of clients over the protocol."""

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from datafusion import SessionContext, udf
from datafusion.substrait import Producer
from pyarrow import flight

from flightllm.flight.messages import pack, sql_message, unpack
from flightllm.flight.server import FlightSqlServer
from tests.flight_messages import descriptor, fetch, prepared, put


def _client_plan(sql: str) -> bytes:
    """Plan a query over `people` in a client's own context."""
    context = SessionContext()
    context.sql("CREATE TABLE people (id BIGINT, name VARCHAR, day DATE, score DOUBLE)")
    function = udf(lambda prompt, _: prompt, [pa.string(), pa.string()], pa.string(), "volatile", "ai_gen")
    context.register_udf(function)
    return bytes(Producer.to_substrait_plan(context.sql(sql).logical_plan(), context).encode())


@pytest.mark.usefixtures("tables")
def test_substrait(bare: flight.FlightClient) -> None:
    """A plan is described, prepared and executed like SQL, and calls the model by the names of its functions."""
    plan = {"plan": _client_plan("SELECT id, ai_gen('Say {name}', name) AS said FROM people"), "version": "0.85.0"}
    command = descriptor("CommandStatementSubstraitPlan", plan=plan)
    body = pack(sql_message("ActionCreatePreparedSubstraitPlanRequest", plan=plan))
    (result,) = bare.do_action(flight.Action("CreatePreparedSubstraitPlan", body))
    answer = unpack(result.body.to_pybytes()).message
    told = pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    assert told.names == ["id", "said"]
    assert not answer.is_update
    for one in (command, prepared(answer.prepared_statement_handle)):
        rows = fetch(bare, one)
        assert rows.schema == told == bare.get_schema(one).schema
        assert [said is None for said in rows.column("said").to_pylist()] == [False, True]


@pytest.mark.usefixtures("tables")
def test_substrait_that_is_refused(bare: flight.FlightClient) -> None:
    """Bytes that are no plan, transactions and updates by plan have errors that say so."""
    with pytest.raises(pa.ArrowInvalid, match="not a Substrait plan"):
        bare.get_flight_info(descriptor("CommandStatementSubstraitPlan", plan={"plan": b"\xff"}))
    plan = {"plan": _client_plan("SELECT id FROM people")}
    with pytest.raises(pa.ArrowKeyError, match="no such transaction"):
        bare.get_flight_info(descriptor("CommandStatementSubstraitPlan", plan=plan, transaction_id=b"t"))
    with pytest.raises(pa.ArrowNotImplementedError, match="cannot change data"):
        put(bare, descriptor("CommandStatementSubstraitPlan", plan=plan), pa.table({}))


@pytest.mark.usefixtures("tables")
def test_substrait_over_adbc(server: FlightSqlServer) -> None:
    """ADBC sends plans too, prepared or not."""
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        for prepare_first in (False, True):
            cursor.adbc_statement.set_substrait_plan(_client_plan("SELECT name FROM people ORDER BY id"))
            if prepare_first:
                cursor.adbc_statement.prepare()
            handle, _ = cursor.adbc_statement.execute_query()
            rows = pa.RecordBatchReader._import_from_c(handle.address).read_all()
            assert rows.column(0).to_pylist() == ["Ann", None]
