"""The demo model and the requests of the tests of `tests/engines`."""

from tests.engines.conftest import make_requests, model_path

__all__ = ["make_requests", "model_path"]
