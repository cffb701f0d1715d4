"""The Flight SQL protocol: the only package that knows it."""
