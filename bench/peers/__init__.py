"""Compares FlightLLM with other systems that ask a model about every row: `python -m bench.peers`."""
