"""Decides which rows a cheap model can answer for a dear one. Its targets hold with a stated confidence.

Imports: nothing.
"""
