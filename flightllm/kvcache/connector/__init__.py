"""Save an engine's KV cache to a store outside the engine, and load caches that other engines computed."""
