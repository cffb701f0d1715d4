"""Prepared statements and the values bound to them, in messages made by hand."""

import threading
from typing import Any
from unittest.mock import Mock

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.execution.planning import plan
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.flight_messages import count, fetch, prepare, prepared, put


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "sql", ["SELECT id + ? FROM people WHERE name = ?", "SELECT $1 + id FROM people WHERE name = $2"]
)
def test_parameters_do_not_change_names(bare: flight.FlightClient, sql: str) -> None:
    """What Prepare promised stays when values are bound, and when others are."""
    answer = prepare(bare, sql)
    command = prepared(answer.prepared_statement_handle)
    told = pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    asked = pa.ipc.read_schema(pa.py_buffer(answer.parameter_schema))
    assert asked.types == [pa.int64(), pa.string()]
    for number in (10, 20):
        put(bare, command, pa.table({"0": [number], "1": ["Ann"]}))
        info = bare.get_flight_info(command)
        read = fetch(bare, command)
        assert told == info.schema == read.schema
        assert read.column(0).to_pylist() == [number + 1]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT ? AS x", pa.array([1])),
        ("SELECT ?", pa.array(["x"])),
        ("SELECT id + ? FROM people", pa.array([1.5])),
        ("SELECT coalesce(id, ?) FROM people", pa.array([1], pa.int16())),
        ("SELECT upper(?)", pa.array(["x"], pa.string_view())),
        ("SELECT ai_gen('Why?', name), ? + 1 FROM people", pa.array([2], pa.uint8())),
        ("SELECT now() + ?", pa.array([pa.MonthDayNano([1, 2, 3])])),
    ],
)
def test_schemas_agree(bare: flight.FlightClient, sql: str, value: pa.Array) -> None:
    """GetSchema, GetFlightInfo and the stream agree for the values bound; with those asked for, Prepare too."""
    answer = prepare(bare, sql)
    command = prepared(answer.prepared_statement_handle)
    told = pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    assert bare.get_schema(command).schema == told
    (asked,) = pa.ipc.read_schema(pa.py_buffer(answer.parameter_schema)).types
    for column in (value, pa.nulls(1, asked)):
        put(bare, command, pa.table({"0": column}))
        bound = bare.get_schema(command).schema
        assert bound == bare.get_flight_info(command).schema == fetch(bare, command).schema
        assert bound.names == told.names
    assert bound == told


def test_a_prepared_query_sees_a_new_table(bare: flight.FlightClient, database: Database) -> None:
    """Columns of a table that was replaced after preparing have the names they have now."""
    database.session().update("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
    command = prepared(prepare(bare, "SELECT *, ? AS c, a + ? FROM t").prepared_statement_handle)
    database.session().update("CREATE OR REPLACE TABLE t AS SELECT 'y' AS b, 2 AS a")
    put(bare, command, pa.table({"0": [3], "1": [4]}))
    assert fetch(bare, command).to_pylist() == [{"b": "y", "a": 2, "c": 3, "a + $2": 6}]


def test_a_name_like_a_parameter(bare: flight.FlightClient, database: Database) -> None:
    """A column of a table is no parameter, whatever it is called: another in its place has its own name."""
    database.session().update('CREATE TABLE t AS SELECT 1 AS "cost in $1"')
    command = prepared(prepare(bare, "SELECT * FROM t").prepared_statement_handle)
    assert fetch(bare, command).to_pylist() == [{"cost in $1": 1}]
    database.session().update("CREATE OR REPLACE TABLE t AS SELECT 2 AS b")
    assert bare.get_schema(command).schema.names == ["b"]
    assert fetch(bare, command).to_pylist() == [{"b": 2}]


def test_a_wrong_number_of_values(bare: flight.FlightClient) -> None:
    """Binding more or fewer values than there are parameters fails at once, with both numbers."""
    command = prepared(prepare(bare, "SELECT ? + 1, ?").prepared_statement_handle)
    with pytest.raises(pa.ArrowInvalid, match="takes 2 parameters, but 1 are bound"):
        put(bare, command, pa.table({"0": [1]}))
    with pytest.raises(pa.ArrowInvalid, match="takes 2 parameters, but 0 are bound"):
        bare.get_flight_info(command)


@pytest.mark.usefixtures("tables")
def test_no_row_of_values(bare: flight.FlightClient) -> None:
    """A query bound to no row returns none, in the columns that were promised; an update changes none."""
    answer = prepare(bare, "SELECT id + ?, name FROM people WHERE ai_filter(?, name)")
    command, nothing = prepared(answer.prepared_statement_handle), pa.table({"0": [1], "1": ["x"]}).slice(0, 0)
    put(bare, command, nothing)
    read = fetch(bare, command)
    assert read.num_rows == 0
    assert read.schema == bare.get_flight_info(command).schema
    assert read.schema == pa.ipc.read_schema(pa.py_buffer(answer.dataset_schema))
    for sql in ("INSERT INTO people (id, name) VALUES (?, ?)", "DELETE FROM people WHERE id = ? AND name = ?"):
        update = prepared(prepare(bare, sql).prepared_statement_handle, "CommandPreparedStatementUpdate")
        assert count(put(bare, update, nothing)) == 0
        command = prepared(prepare(bare, sql).prepared_statement_handle)
        put(bare, command, nothing)
        assert bare.get_flight_info(command).total_records == 0


def test_a_value_of_several_types(bare: flight.FlightClient) -> None:
    """Some clients send every value as a union; no row of them is a result without rows, one row is one."""
    command = prepared(prepare(bare, "SELECT ? AS x").prepared_statement_handle)
    union = pa.UnionArray.from_dense(
        pa.array([1], pa.int8()), pa.array([0], pa.int32()), [pa.array(["a"]), pa.array([7])]
    )
    for length in (1, 0):
        put(bare, command, pa.table({"0": union}).slice(0, length))
        assert fetch(bare, command).column(0).to_pylist() == [7][:length]


def test_a_value_of_a_wrong_type(bare: flight.FlightClient) -> None:
    """A value that cannot stand in its place is an error that names the types."""
    command = prepared(prepare(bare, "SELECT 1 + ?").prepared_statement_handle)
    put(bare, command, pa.table({"0": [{"a": 1}]}))
    with pytest.raises(pa.ArrowInvalid, match=r"Int64.*Struct"):
        bare.get_flight_info(command)


def test_prepared_statements_side_by_side(bare: flight.FlightClient) -> None:
    """One statement prepared twice has values of its own each time, also when both run at once."""
    handles = [prepare(bare, "SELECT ? AS v").prepared_statement_handle for _ in range(4)]
    found: dict[int, list[Any]] = {}

    def run(number: int) -> None:
        command = prepared(handles[number])
        put(bare, command, pa.table({"0": [number]}))
        found[number] = fetch(bare, command).column(0).to_pylist()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [number] for number in range(4)}


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("sql", "values", "passes"),
    [
        ("SELECT name FROM people WHERE id > 0", None, 1),
        ("SELECT ai_gen('Say {name}', name) FROM people", None, 1),
        ("SELECT name FROM fans", None, 1),
        ("SELECT name FROM people WHERE id > ?", (0,), 2),  # described without the value, and planned with it
    ],
)
def test_an_adbc_query_is_planned_once(
    server: FlightSqlServer, monkeypatch: pytest.MonkeyPatch, sql: str, values: tuple[int] | None, passes: int
) -> None:
    """Prepare, GetFlightInfo and DoGet of one query share one plan; a query with values needs a second one.

    The driver prepares a repeated text once, so each repetition adds one plan.
    """
    planned = Mock(wraps=plan)
    monkeypatch.setattr("flightllm.session.reading.plan", planned)
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        for times in (1, 2, 3):
            cursor.execute(sql, values)
            assert cursor.fetchall()
            assert planned.call_count == passes + times - 1
