"""Go on after a death: a supervisor that replaces the server's process, and a memory of what was running then.

Imports: config, datafusion, errors, sql.
"""
