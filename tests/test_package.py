"""The package's public face."""

from importlib.metadata import version

import flightllm


def test_public_names_are_the_intended_ones() -> None:
    """Adding or removing a public name is a decision, so the list is spelled out here."""
    assert flightllm.__all__ == ["__version__"]


def test_version_is_the_installed_one() -> None:
    """The version in the code and in the package metadata agree."""
    assert flightllm.__version__ == version("flightllm")
