"""Statistics of answers against labels: figures with intervals, comparisons of variants, and the choice among them.

Imports: errors.
"""
