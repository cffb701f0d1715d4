"""Rewrite other dialects' SQL as DataFusion reads it: one pure rule per file, applied in a fixed order.

A rule changes no text that DataFusion accepts.

Imports: common, errors, functions, sql.
"""

from flightllm.dialect.rewriting import rewrite, sent_texts
from flightllm.dialect.source import NameContext
from flightllm.dialect.text import Rewritten

__all__ = ["NameContext", "Rewritten", "rewrite", "sent_texts"]
