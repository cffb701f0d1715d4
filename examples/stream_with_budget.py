"""See what a query will cost, give it a budget, and read its rows as the model answers them.

Start the server first, then run this script:

    flightllm serve --config examples/server.toml
    python examples/stream_with_budget.py
"""

import json
import sys

import adbc_driver_flightsql.dbapi as flight_sql

SUMMARIES = "SELECT id, ai_gen('Summarise the ticket in five words', body) AS summary FROM tickets"


def main(uri: str) -> None:
    """Run the query with a budget that is too small, then with the one that EXPLAIN predicts."""
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET flightllm.cache = 'off'")  # cached answers cost no call, and this example shows calls
        cursor.execute("EXPLAIN (FORMAT json) " + SUMMARIES)
        forecast = json.loads(cursor.fetchall()[0][0])
        calls = forecast["total"]["predicted"]["calls"]
        print(f"the query needs {calls} calls")

        cursor.execute(f"SET flightllm.max_calls = '{calls // 2}'")
        try:
            cursor.execute(SUMMARIES)
            cursor.fetchall()
        except flight_sql.Error as error:  # refused before the first call
            print(str(error).partition(" Detail:")[0])

        cursor.execute(f"SET flightllm.max_calls = '{calls}'")
        cursor.execute(SUMMARIES)
        for batch in cursor.fetch_record_batch():  # a batch comes as soon as its rows have their answers
            for row in batch.to_pylist():
                print(row["id"], row["summary"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "grpc://127.0.0.1:31337")
