"""A query from its text to its batches: bind, plan, optimize, estimate, run, explain.

Imports: access, catalog, common, config, convert, datafusion, dialect, errors, functions, llm, model, observe,
operators, optimizer, plan, recovery, sandbox, sql, storage, vector.
"""
