"""Starts and supervises the server processes: the Flight SQL server with its HTTP server, and the KV store.

Imports: access, common, config, errors, flight, kvcache, llm, log, recovery, session, sql, web.
"""
