"""Generated texts with known facts: one file per domain."""
