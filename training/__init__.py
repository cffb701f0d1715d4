"""Writes the sample tables, trains and measures the demonstration model. The installed package does not contain this."""
