"""The tools in the order in which agents see them."""

from flightllm.mcp.tools.base import Tool
from flightllm.mcp.tools.describe import DESCRIBE
from flightllm.mcp.tools.estimate_cost import ESTIMATE_COST
from flightllm.mcp.tools.list_tables import LIST_TABLES
from flightllm.mcp.tools.query import QUERY
from flightllm.mcp.tools.search import SEARCH

TOOLS: tuple[Tool, ...] = (LIST_TABLES, DESCRIBE, QUERY, ESTIMATE_COST, SEARCH)
