"""The SQLAlchemy dialect `flightllm://…`, over ADBC.

SQLAlchemy loads it by its entry point, in processes that have no server.

Imports: common, errors.
"""
