"""Processes of their own for the relational work of statements that can take more than their share.

Such a process can be killed at any moment, and with it go the statement's memory and its computation.

Imports: catalog, common, config, datafusion, errors, functions, observe, storage.
"""
