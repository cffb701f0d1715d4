"""SQL with language-model calls as relational operators, served over Arrow Flight SQL."""

__version__ = "0.2.0"
__all__ = ["__version__"]
