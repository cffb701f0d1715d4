"""The catalog of one server: file tables, stored tables, views and system tables.

Imports: access, attached, common, config, datafusion, errors, file_formats, functions, learning, plan, sql, storage.
"""

from flightllm.catalog.catalog import Catalog
from flightllm.catalog.entries import SystemTables, TableInfo
from flightllm.catalog.uploads import IngestMode
from flightllm.datafusion.contexts import QUERY_ONLY, ROWS_ONLY
from flightllm.datafusion.errors import mapped_error

__all__ = ["QUERY_ONLY", "ROWS_ONLY", "Catalog", "IngestMode", "SystemTables", "TableInfo", "mapped_error"]
