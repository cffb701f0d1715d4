"""Side by side with other ways to ask a model about every row, on the same server: `python -m bench.peers`."""
