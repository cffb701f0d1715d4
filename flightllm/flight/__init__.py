"""The Flight SQL protocol: no other package knows the protocol.

Imports: access, catalog, common, config, errors, execution, flightllm, observe, recovery, session, sql.
"""
