"""Filters learned from people's labels: the fit, the bounds on its errors, its decisions, and rows worth a label.

Imports: errors, evaluation.
"""
