"""DataFusion as this server uses it: contexts, errors, sizes of tables, and runs that can be stopped.

Imports: common, config, errors.
"""
