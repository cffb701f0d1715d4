"""The macros of the dbt adapter for FlightLLM."""

from pathlib import Path

PACKAGE_PATH = str(Path(__file__).parent)
