"""Statements that change the catalog: tables, views, models, prompts, indexes and grants.

Imports: access, catalog, common, config, datafusion, dml, errors, execution, functions, llm, observe, plan, sql,
vector.
"""
