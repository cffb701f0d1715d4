"""UPDATE, DELETE, MERGE, INSERT … ON CONFLICT: a query finds the rows and their new values, then files are rewritten.

The query is planned and run like every SELECT, AI calls included. Nothing changes before the query has ended.

Imports: catalog, common, config, datafusion, errors, execution, observe, operators, sql, storage.
"""

from flightllm.dml.defaults import leaves_values, whole_values
from flightllm.dml.run import Changed, check_row_change, explain_row_change, run_row_change

__all__ = [
    "Changed",
    "check_row_change",
    "explain_row_change",
    "leaves_values",
    "run_row_change",
    "whole_values",
]
