"""The database, and its clients' sessions. A session reads, plans, runs and records each statement.

Imports: access, catalog, common, config, datafusion, ddl, deferred, dialect, dml, engines, errors, execution,
flightllm, functions, llm, observe, operators, pg_catalog, recovery, router, sandbox, sql, storage, system_tables,
vector.
"""
