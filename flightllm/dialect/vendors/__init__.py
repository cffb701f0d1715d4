"""Rewrite AI functions as Snowflake, BigQuery and Databricks spell them into this server's spelling.

`calls.py` finds calls. `names.py`, `arguments.py` and `paths.py` each rewrite one part of a call. `refused.py` has the
functions without a counterpart. No two edits overlap, so calls can contain calls.
"""
