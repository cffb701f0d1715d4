"""The engine `local`: transformers in this process, with shared prefixes computed once and constrained decoding."""
