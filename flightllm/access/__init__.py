"""Who asks, and what they may see and do.

Imports: common, config, errors, sql.
"""
