"""The store of KV chunks: a Flight service, and its client."""
