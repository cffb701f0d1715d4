"""A query from its text to its batches: bind, plan, optimize, estimate, run, explain.

Imports: access, catalog, common, config, datafusion, dialect, engines, errors, file_formats, functions, llm, observe,
operators, optimizer, pg_catalog, plan, recovery, sandbox, sql, storage, system_tables, vector.
"""
