"""AI functions as Snowflake, BigQuery and Databricks spell them, written in this server's spelling.

`calls.py` finds such calls; `names.py`, `arguments.py` and `paths.py` each rewrite one part of a call, and `refused.py`
has what nothing here does. Every edit is a place of its own, so that calls in calls work.
"""
