"""Call an AI function of your own: `functions/ai_urgency.py` defines it.

Start the server first, then run this script:

    flightllm serve --config examples/server.toml
    python examples/own_function.py
"""

import sys

import adbc_driver_flightsql.dbapi as flight_sql

URGENT = """
    SELECT id, ai_urgency(body) AS urgency, body
    FROM tickets
    WHERE topic <> 'praise'
    ORDER BY urgency DESC, id
    LIMIT 5
"""


def main(uri: str) -> None:
    """Print the five most urgent tickets."""
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(URGENT)
        for number, urgency, body in cursor.fetchall():
            print(f"ticket {number}: {urgency}  {body}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "grpc://127.0.0.1:31337")
