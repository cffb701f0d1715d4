"""The HTTP server: the web page for signed-in users, health, readiness and metrics.

Imports: access, catalog, client, common, config, engines, errors, file_formats, flight, flightllm, functions, observe,
router, session, sql, system_tables.
"""
