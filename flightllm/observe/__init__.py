"""The records of a running server about itself: queries, sessions, spans and totals.

Imports: access, common, config, engines, errors, functions, llm.
"""
