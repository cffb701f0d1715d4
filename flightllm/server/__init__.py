"""Starts and supervises the server processes: the Flight SQL server with its HTTP server, and the KV store.

Imports: access, common, config, engines, errors, flight, kvcache, log, postgres, recovery, sandbox, session, sql,
storage, web.
"""
