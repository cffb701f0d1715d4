"""Keep an engine's KV cache in a store outside it, and load from there what another engine computed."""
