"""Recovery from crashes: replaces a dead server process, and blocks the statements that probably killed it.

Imports: config, datafusion, errors, sql.
"""
