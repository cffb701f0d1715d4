"""The catalog that PostgreSQL's clients read: `pg_catalog` and `information_schema`, over a session's own tables.

Imports: common, errors, flightllm, sql.
"""
