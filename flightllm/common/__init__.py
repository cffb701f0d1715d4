"""Small parts that every package can use: names, texts, limits, files, Arrow types, admission of work.

Imports: errors.
"""
