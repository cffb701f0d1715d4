"""Send a plan in place of SQL: DataFusion makes it here, and the server runs it with AI calls.

Start the server first, then run this script:

    flightllm serve --config examples/server.toml
    python examples/substrait_plan.py
"""

import sys

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
from datafusion import SessionContext, udf
from datafusion.substrait import Producer

TICKETS = "CREATE TABLE tickets (id BIGINT, topic VARCHAR, body VARCHAR)"
"""The columns that the plan reads; the server has the rows."""


def plan() -> bytes:
    """Return a Substrait plan that asks the model about tickets of one topic."""
    context = SessionContext()
    context.sql(TICKETS)
    # Only the name and the types matter: the server calls its own ai_gen here.
    context.register_udf(udf(lambda _, body: body, [pa.string(), pa.string()], pa.string(), "volatile", "ai_gen"))
    frame = context.sql("SELECT id, ai_gen('What is broken?', body) AS broken FROM tickets WHERE topic = 'defect'")
    return bytes(Producer.to_substrait_plan(frame.logical_plan(), context).encode())


def main(uri: str) -> None:
    """Print what is broken, by ticket."""
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_substrait_plan(plan())
        stream, _ = cursor.adbc_statement.execute_query()
        with pa.RecordBatchReader.from_stream(stream) as reader:
            for row in reader.read_all().to_pylist():
                print(row["id"], row["broken"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "grpc://127.0.0.1:31337")
