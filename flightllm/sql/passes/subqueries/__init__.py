"""Subqueries as joins: DataFusion plans only some of them, and gives wrong rows for others.

Imports: common, errors.
"""
