"""Calls that answer for a set of values at once: aggregates, top-k, groups of meaning, entities.

One runner per method. Each asks its questions through an `Asker`.
"""
