"""The demonstration: sample tables, the model's weights, and a server of its own to try them on.

Imports: common, errors.
"""
