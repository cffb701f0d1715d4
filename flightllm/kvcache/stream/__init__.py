"""Streaming KV chunks from a store to an engine: which codec to fetch of each chunk, and when to compute instead."""
