"""What clients write that DataFusion does not read, written as it does: one rule per file, pure, in a fixed order.

A rule leaves every text alone that DataFusion takes.

Imports: common, errors, functions, sql.
"""

from flightllm.dialect.place import Place
from flightllm.dialect.rewriting import rewrite, sent_texts
from flightllm.dialect.text import Rewritten

__all__ = ["Place", "Rewritten", "rewrite", "sent_texts"]
