"""Sandbox processes for the relational work of statements that can take too much memory or time.

A sandbox process can be killed at any moment, which ends the statement's computation and frees its memory.

Imports: catalog, common, config, datafusion, errors, functions, observe, storage.
"""
