"""Serve a FlightLLM server to agents over the Model Context Protocol (MCP): tools, resources and a prompt.

Each tool call is a statement of a Flight SQL client with the login of its caller.

Imports: client, common, config, connection, errors, flightllm, functions, sql.
"""
