"""A query from its text to its batches: bind, plan, optimize, estimate, run, explain.

Imports: access, catalog, common, config, datafusion, dialect, engines, errors, evaluation, file_formats, functions,
learning, llm, observe, operators, optimizer, pg_catalog, plan, quality, recovery, sandbox, sql, storage,
system_tables, vector.
"""
