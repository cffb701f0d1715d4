"""The dbt adapter for FlightLLM."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.flightllm.connections import FlightLLMConnectionManager, FlightLLMCredentials
from dbt.adapters.flightllm.impl import FlightLLMAdapter
from dbt.include import flightllm

__all__ = ["FlightLLMAdapter", "FlightLLMConnectionManager", "FlightLLMCredentials", "Plugin"]

Plugin = AdapterPlugin(
    adapter=FlightLLMAdapter,
    credentials=FlightLLMCredentials,
    include_path=flightllm.PACKAGE_PATH,
)
