"""What a running server records about itself: queries, sessions, spans and totals.

Imports: access, common, config, errors, functions.
"""
