"""Recovery of the server process: replaces a dead process, and blocks the statements that probably killed it.

This folder repairs no data: `storage/folder.py` removes the files of half-written tables at the next start.

Imports: config, datafusion, errors, observe, sql.
"""
