"""Analyse a CSV file with a model, cell by cell, in VS Code or Jupyter (jupytext). It also runs as a script.

It starts its own server: `python examples/analyse_csv.py [ENGINE]`. The demonstration model answers by default. The
engine `fake` needs no model, and makes up its answers.
"""

# %% Start a server for the file, on a free port
import atexit
import subprocess
import sys
import tempfile
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pandas as pd

FILE = Path(__file__).with_name("tickets.csv")
ENGINE = sys.argv[1] if len(sys.argv) > 1 else "local"
folder = tempfile.TemporaryDirectory()
settings = Path(folder.name, "server.toml")
settings.write_text('data_folder = "data"\n[log]\nlevel = "warning"\n', encoding="utf-8")
command = (sys.executable, "-m", "flightllm", "serve", "--config", str(settings), "--engine", ENGINE)
server = subprocess.Popen((*command, "--listen", "127.0.0.1:0", str(FILE)), stdout=subprocess.PIPE, text=True)
atexit.register(server.terminate)
ready = next((line for line in server.stdout or () if line.startswith("listening ")), None)
if ready is None:
    sys.exit("the server did not start; its log above says why")
connection = flight_sql.connect(ready.split()[1], autocommit=True)


def ask(sql: str) -> pd.DataFrame:
    """Run a query and return its rows."""
    return pd.read_sql(sql, connection)


# %% Look at the file
print(ask("SELECT * FROM tickets ORDER BY id LIMIT 3").to_string(index=False))

# %% See how many calls a question needs, before any call
QUESTION = """
    SELECT topic, ai_sentiment(body) AS mood, ai_filter('Does the customer ask for money? {body}', body) AS money
    FROM tickets
"""
plan = ask(f"EXPLAIN {QUESTION}")
print(*plan[plan["plan_type"] == "total"]["plan"])

# %% Ask it
tickets = ask(QUESTION)
print(pd.crosstab(tickets["topic"], tickets["mood"]))

# %% Which topics are about money?
print(tickets.groupby("topic")["money"].mean())

# %% Ask again: the server has these answers, so this query makes no call
again = ask("SELECT avg(CASE WHEN ai_sentiment(body) = 'negative' THEN 1.0 ELSE 0.0 END) AS negative FROM tickets")
calls = ask("SELECT sum(calls) AS calls, sum(cache_hits) AS kept FROM system.ai_calls")
print(f"{again['negative'][0]:.0%} of the tickets are negative; calls so far:", *calls.iloc[0])

# %% Stop the server
connection.close()
server.terminate()
server.wait()
folder.cleanup()
