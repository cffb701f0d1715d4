"""Generated texts of which the facts are known: one file per domain."""
