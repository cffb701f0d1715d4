"""Joins by a yes/no call: they number the distinct values of both sides, and decide pairs of numbers.

No table of all pairs is ever made.
"""
