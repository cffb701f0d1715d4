"""Passes over the tree of a statement: each puts one kind of expression right that DataFusion gets wrong.

Imports: common, errors.
"""
