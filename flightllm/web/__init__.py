"""The HTTP server: the web page for signed-in users, health, readiness and metrics.

Imports: access, client, common, config, errors, flight, flightllm, observe, router, session, sql.
"""
