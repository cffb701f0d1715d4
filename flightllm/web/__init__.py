"""The HTTP server: the web page for users who signed in, health, readiness and metrics.

Imports: access, client, common, config, errors, flight, flightllm, observe, router, session.
"""
