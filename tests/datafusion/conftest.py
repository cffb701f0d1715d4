"""The catalog of the tests of `tests/catalog`."""

from tests.catalog.conftest import catalog

__all__ = ["catalog"]
