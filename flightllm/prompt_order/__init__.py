"""Orders the prompts of a call, and the fields in each prompt.

Imports: nothing.
"""
