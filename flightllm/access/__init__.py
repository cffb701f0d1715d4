"""Users: authentication, roles, rights and budgets.

Imports: common, config, errors, sql, storage.
"""
