"""The tables of the schema `system` that describe models, keys, indexes, replicas and settings.

Imports: access, catalog, common, config, engines, errors, observe, operators, router, sql, storage, vector.
"""
