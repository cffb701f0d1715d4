"""The MCP server: it answers requests by statements of the caller's Flight client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
import mcp_types as types
import structlog
from jsonschema import Draft202012Validator
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

import flightllm
from flightllm.common.amounts import counted
from flightllm.common.text import check_well_formed, excerpt
from flightllm.errors import FlightLLMError, InvalidInputError, UnauthenticatedError
from flightllm.functions.registry import FunctionRegistry
from flightllm.mcp import guide
from flightllm.mcp.callers import Caller, Callers
from flightllm.mcp.limits import Limits
from flightllm.mcp.tables import describe, find_table, list_tables
from flightllm.mcp.tools.base import Tool
from flightllm.mcp.tools.registry import TOOLS
from flightllm.mcp.work import Work

_Found = TypeVar("_Found")
_log = structlog.get_logger(__name__)
_REPORT_SECONDS = 0.5
_PAGE = 200
"""The resources of one page of their list."""
_SCHEME = "flightllm://tables/"
_MOST_CALLS = 64
"""The most tool calls that run at once; further ones wait."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The message of an error, for the agent to read."""

    message: str


class AgentServer:
    """Answers the requests of all callers. `server` is the SDK's server, for any transport."""

    def __init__(self, callers: Callers, limits: Limits, functions: FunctionRegistry) -> None:
        self._callers = callers
        self._limits = limits
        self._functions = functions
        self._tools = {tool.name: tool for tool in TOOLS}
        self._threads = anyio.CapacityLimiter(_MOST_CALLS)
        self._others = anyio.CapacityLimiter(_MOST_CALLS)
        """Threads that report and stop, so that these never wait for statements."""
        self.server: Server[Any] = Server(
            "flightllm",
            version=flightllm.__version__,
            title="FlightLLM",
            instructions=guide.instructions(functions, limits),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    # --- tools

    async def _list_tools(self, _context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[self._described(tool) for tool in TOOLS])

    def _described(self, tool: Tool) -> types.Tool:
        changes = tool.changes and self._limits.changes
        hints = types.ToolAnnotations(
            title=tool.title,
            read_only_hint=not changes,
            destructive_hint=changes,
            idempotent_hint=not changes,
            open_world_hint=tool.asks_model,
        )
        return types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description(self._limits),
            input_schema=tool.input_schema(self._limits),
            output_schema=tool.output_schema(),
            annotations=hints,
        )

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name!r}; there are {', '.join(self._tools)}")
        arguments = dict(params.arguments or {})
        problem = _problem(tool.input_schema(self._limits), arguments)
        if problem is not None:
            return _failed(f"{tool.name}: {problem}")
        found = await self._in_thread(context, lambda work: tool.run(work, arguments))
        if isinstance(found, _Failure):
            return _failed(found.message)
        content = types.TextContent(type="text", text=found.text)
        return types.CallToolResult(content=[content], structured_content=dict(found.structured))

    async def _in_thread(self, context: Any, run: Callable[[Work], _Found]) -> _Found | _Failure:
        """Run the statements of a request in a thread; return what `run` returns, or the message of an error.

        If the request is cancelled, its statement is stopped, and with it the model calls.
        """
        caller = caller_of(context)
        started: list[Work] = []
        stopping = anyio.CancelScope(shield=True)
        try:
            async with anyio.create_task_group() as group:
                if "progress_token" in (context.meta or {}):
                    group.start_soon(self._report, context, started)
                found = await anyio.to_thread.run_sync(
                    partial(self._run, caller, run, started), abandon_on_cancel=True, limiter=self._threads
                )
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            with stopping:
                for work in started:
                    await anyio.to_thread.run_sync(work.stop, limiter=self._others)
            raise
        return found

    def _run(self, caller: Caller, run: Callable[[Work], _Found], started: list[Work]) -> _Found | _Failure:
        try:
            try:
                return self._run_once(caller, run, started)
            except UnauthenticatedError:  # a login by password lasts for some hours: log in again, once
                return self._run_once(caller, run, started)
        except FlightLLMError as error:
            return _Failure(str(error))
        except Exception:  # noqa: BLE001 - the boundary: a traceback never reaches an agent
            _log.exception("a tool failed")
            return _Failure("internal error: the log of `flightllm mcp` has the details")

    def _run_once(self, caller: Caller, run: Callable[[Work], _Found], started: list[Work]) -> _Found:
        with self._callers.client(caller) as client:
            work = Work(client, self._limits)
            started.append(work)
            try:
                return run(work)
            finally:
                work.end()

    async def _report(self, context: Any, started: list[Work]) -> None:
        """Report how many model calls of the statement are done, as often as the number changes."""
        last = 0
        while True:
            await anyio.sleep(_REPORT_SECONDS)
            for work in started:
                found = await anyio.to_thread.run_sync(work.progress, limiter=self._others)
                if found is None or found.done <= last:
                    continue
                last = found.done
                total = max(found.total, last)
                said = f"{last:,} of {counted(total, 'answer')}"
                await context.session.report_progress(float(last), float(total), said)

    # --- resources

    async def _list_resources(
        self, context: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = "0" if params is None or params.cursor is None else params.cursor
        if not cursor.isdecimal():
            raise MCPError(types.INVALID_PARAMS, f"{cursor[:50]!r} is not a cursor of this server")
        offset = int(cursor)

        def run(work: Work) -> types.ListResourcesResult:
            tables, total = list_tables(work, "", "", _PAGE, offset)
            resources = [
                types.Resource(
                    uri=f"{_SCHEME}{quote(one.schema, safe='')}/{quote(one.name, safe='')}",
                    name=one.sql,
                    description=f"Columns and first rows of the {one.kind} {one.sql}",
                    mime_type="text/markdown",
                )
                for one in tables
            ]
            end = offset + len(tables)
            following = str(end) if tables and end < total else None
            return types.ListResourcesResult(resources=resources, next_cursor=following)

        found = await self._in_thread(context, run)
        if isinstance(found, _Failure):
            raise MCPError(types.INTERNAL_ERROR, found.message)
        return found

    async def _list_templates(self, _context: Any, _params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=f"{_SCHEME}{{schema}}/{{table}}",
            name="table",
            title="A table's schema",
            description="The columns, types and first rows of a table",
            mime_type="text/markdown",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(self, context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        schema, _, name = uri.removeprefix(_SCHEME).partition("/")
        if not uri.startswith(_SCHEME) or not name:
            raise MCPError(types.INVALID_PARAMS, f"no resource {excerpt(uri)!r}: write {_SCHEME}SCHEMA/TABLE")

        def run(work: Work) -> str:
            wanted = f"{unquote(schema)}.{unquote(name)}"
            return describe(work, find_table(work, wanted)).as_markdown()

        found = await self._in_thread(context, run)
        if isinstance(found, _Failure):
            raise MCPError(types.INVALID_PARAMS, found.message)
        contents = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=found)
        return types.ReadResourceResult(contents=[contents])

    # --- prompts

    async def _list_prompts(self, _context: Any, _params: Any) -> types.ListPromptsResult:
        question = types.PromptArgument(name="question", description="What to find out", required=False)
        about = "How to write SQL with the AI functions of this server"
        prompt = types.Prompt(
            name=guide.PROMPT_NAME, title="SQL with AI functions", description=about, arguments=[question]
        )
        return types.ListPromptsResult(prompts=[prompt])

    async def _get_prompt(self, _context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != guide.PROMPT_NAME:
            raise MCPError(types.INVALID_PARAMS, f"no prompt {excerpt(params.name)!r}; there is {guide.PROMPT_NAME}")
        text = guide.prompt(self._functions, (params.arguments or {}).get("question", ""))
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


def caller_of(context: Any) -> Caller:
    """Return the sender of a request. Over stdio there is one sender, without headers."""
    headers: Mapping[str, str] = getattr(context.request, "headers", {})
    return Caller(headers.get("mcp-session-id", ""), headers.get("authorization", ""))


def _problem(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a tool's arguments, and what to write; None if nothing is wrong."""
    for name, value in arguments.items():
        if isinstance(value, str):
            try:
                check_well_formed(value, name)
            except InvalidInputError as error:
                return str(error)
    errors = sorted(Draft202012Validator(schema).iter_errors(arguments), key=lambda error: list(error.path))
    if not errors:
        return None
    where = ".".join(map(str, errors[0].path))
    said = excerpt(errors[0].message)
    expected = ", ".join(schema["properties"])
    return f"{f'{where}: ' if where else ''}{said}; the arguments are {expected}"


def _failed(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)
