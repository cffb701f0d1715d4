"""The demonstration: sample tables, the model's weights, and a separate server to try them on.

Imports: common, errors.
"""
