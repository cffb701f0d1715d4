"""Read a report into pandas, and upload a data frame, over ADBC.

Start the server first, then run this script:

    flightllm serve --config examples/server.toml
    python examples/pandas_report.py
"""

import sys

import adbc_driver_flightsql.dbapi as flight_sql
import pandas as pd

TEAMS = pd.DataFrame(
    {"topic": ["billing", "shipping", "account", "defect"], "team": ["money", "parcels", "it", "repair"]}
)
REPORT = """
    SELECT team, ai_sentiment(body) AS mood, count(*) AS tickets
    FROM tickets JOIN teams USING (topic)
    GROUP BY 1, 2
"""


def main(uri: str) -> None:
    """Count the moods of tickets by team; the teams come from a data frame of this script."""
    with flight_sql.connect(uri, autocommit=True) as connection:
        TEAMS.to_sql("teams", connection, index=False, if_exists="replace")
        report = pd.read_sql(REPORT, connection)
        print(report.pivot_table(index="team", columns="mood", values="tickets", aggfunc="sum", fill_value=0))
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE teams")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "grpc://127.0.0.1:31337")
