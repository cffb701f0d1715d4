"""The Flight SQL protocol: the only package that knows it.

Imports: access, catalog, common, config, errors, execution, flightllm, observe, sql.
"""
