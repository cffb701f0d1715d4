"""The engine `local`: transformers in this process, with prefixes computed once and decoding bound to a grammar."""
