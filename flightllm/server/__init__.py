"""Start and supervise the processes that serve: the Flight SQL server with its HTTP server, and the KV store.

Imports: access, common, config, errors, flight, kvcache, llm, log, recovery, session, sql, web.
"""
