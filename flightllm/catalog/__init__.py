"""The tables of one server: files, uploads, views and system tables in one shared catalog."""

from flightllm.catalog.catalog import Catalog
from flightllm.catalog.contexts import QUERY_ONLY, ROWS_ONLY
from flightllm.catalog.entries import SystemTables, TableInfo
from flightllm.catalog.errors import mapped_error
from flightllm.catalog.uploads import IngestMode

__all__ = ["QUERY_ONLY", "ROWS_ONLY", "Catalog", "IngestMode", "SystemTables", "TableInfo", "mapped_error"]
