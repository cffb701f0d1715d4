"""Codecs of KV caches: a tensor in, a bitstream out, and back."""
