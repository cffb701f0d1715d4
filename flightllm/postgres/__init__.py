"""PostgreSQL's protocol (version 3), so that psql, drivers and tools of PostgreSQL can connect.

It is a small front end of its own: riffq, the kept library for it, has no SCRAM, cancel, portals or per-column formats.

Imports: access, common, config, errors, execution, flight, observe, pg_catalog, sql.
"""
