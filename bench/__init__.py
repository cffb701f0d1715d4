"""Benchmarks: one script per question, each run as `python -m bench.NAME [--json] [--quick]`."""
