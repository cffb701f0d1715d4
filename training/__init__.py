"""Writes the sample tables, trains and measures the demonstration model; not in the installed package."""
