"""The database, and the sessions of its clients: each statement is read, planned, run and recorded here.

Imports: access, catalog, common, config, datafusion, ddl, dialect, dml, engines, errors, execution, flightllm,
functions, observe, operators, recovery, router, sandbox, sql, storage, system_tables, vector.
"""
