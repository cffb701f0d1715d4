"""`import flightllm`: connections of Python programs, to a database in their process or to a server.

Imports: catalog, client, common, config, engines, errors, execution, file_formats, flight, functions, log, observe,
session, sql.
"""
