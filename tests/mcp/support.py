"""An agent for tests: the official client, in this process or over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp import Client as McpClient
from mcp_types import TextContent

from flightllm.client import Client
from flightllm.functions.registry import FunctionRegistry
from flightllm.mcp.callers import Callers
from flightllm.mcp.limits import Limits
from flightllm.mcp.server import AgentServer


@dataclass(frozen=True, slots=True)
class Told:
    """The answer of a tool call."""

    text: str
    data: Any
    failed: bool


@dataclass(frozen=True, slots=True)
class Agent:
    """Runs calls of the official client against a server of the protocol."""

    server: Any

    def call(self, tool: str, **arguments: Any) -> Told:
        """Call a tool, and return its answer."""
        found: Told = self.ask(lambda client: told(client, tool, arguments))
        return found

    def ask(self, work: Callable[[McpClient], Awaitable[Any]]) -> Any:
        """Run work with a connected client, at most a minute."""

        async def run() -> Any:
            async with McpClient(self.server) as client:
                return await work(client)

        return asyncio.run(asyncio.wait_for(run(), 60))


async def told(client: McpClient, tool: str, arguments: dict[str, Any]) -> Told:
    """Call a tool; the client checks the answer against the tool's schema."""
    found = await client.call_tool(tool, arguments)
    texts = [part.text for part in found.content if isinstance(part, TextContent)]
    return Told("\n".join(texts), found.structured_content, bool(found.is_error))


def agent(uri: str, token: str, **limits: Any) -> Agent:
    """Return an agent of the user with a token; `limits` are those of its server of the protocol."""
    callers = Callers(lambda _: Client(uri, {"authorization": f"Bearer {token}"}))
    return Agent(AgentServer(callers, Limits(**limits), FunctionRegistry.load()).server)
