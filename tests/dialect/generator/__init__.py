"""Tests of the generator that writes other dialects' texts."""
