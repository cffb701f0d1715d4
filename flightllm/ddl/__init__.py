"""Statements that change the catalog: tables, views, models, prompts, indexes and grants.

Imports: access, attached, catalog, common, config, datafusion, dialect, dml, engines, errors, execution, functions,
observe, plan, sql, system_tables, vector.
"""
