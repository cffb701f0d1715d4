"""Decide in which order the prompts of a call are sent, and in which order the fields stand in them.

Imports: nothing.
"""
