"""The version of the adapter."""

version = "0.2.0"
