"""DataFusion as this server uses it: contexts, errors, table sizes, and query runs that can be stopped.

Imports: common, config, errors.
"""
