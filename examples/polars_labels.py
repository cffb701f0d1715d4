"""Read answers of the model into polars, and compare them with labels that people wrote.

Start the server first, then run this script:

    flightllm serve --config examples/server.toml
    python examples/polars_labels.py
"""

import sys

import adbc_driver_flightsql.dbapi as flight_sql
import polars as pl

ANSWERS = """
    SELECT topic, ai_classify(body, ['billing', 'shipping', 'account', 'defect', 'praise'], confidence => true) AS found
    FROM tickets
"""


def main(uri: str) -> None:
    """Print how many answers agree with the labels, and the mean confidence, by topic."""
    with flight_sql.connect(uri, autocommit=True) as connection:
        tickets = pl.read_database(ANSWERS, connection).unnest("found")
    right = (pl.col("topic") == pl.col("answer")).sum().alias("right")
    print(tickets.group_by("topic").agg(pl.len().alias("tickets"), right, pl.col("confidence").mean()).sort("topic"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "grpc://127.0.0.1:31337")
