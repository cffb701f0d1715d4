"""Bringing KV chunks from a store to an engine: what to fetch, at which size, and what to compute instead."""
