"""Plan queries that clients send as Substrait plans, with the same limits, rules and operators as for SQL."""

from collections.abc import Sequence

from flightllm.common.limits import over_limit
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName
from flightllm.config.session_settings import Settings
from flightllm.errors import InvalidInputError, NotFoundError, UnsupportedError
from flightllm.execution.bind import call_names
from flightllm.execution.context import Services
from flightllm.execution.planning import plan_extracted
from flightllm.execution.query import Query
from flightllm.plan.client_plan import read_client_plan
from flightllm.sql.calls import Extracted
from flightllm.sql.own_calls import check_no_own_names
from flightllm.sql.parsed_text import ParsedText


def plan_substrait(encoded: bytes, services: Services, settings: Settings) -> Query:
    """Plan a serialized `substrait.Plan`.

    Raises:
        FlightLLMError: the plan is too large or is not a plan of one query. The plan reads a table that is not in the
            catalog, or calls a function in a wrong way. The plan calls a function that only the server can call.
    """
    limits = services.config.limits
    if len(encoded) > limits.sql_bytes:
        raise over_limit("sql_bytes", limits.sql_bytes, f"the plan has {len(encoded):,} bytes", "upload the values")

    def check_table(names: Sequence[str]) -> None:
        if not 1 <= len(names) <= 3:
            raise InvalidInputError(f"the plan reads a table named {'.'.join(names)!r}: write schema and name")
        if len(names) == 3 and names[0] != CATALOG:
            raise NotFoundError(f"there is no catalog {names[0]!r}; the only one is {CATALOG!r}")
        table = TableName(names[-2] if len(names) > 1 else DEFAULT_SCHEMA, names[-1])
        if table.schema != "information_schema":
            services.catalog.table(table)
        text = ParsedText(f"SELECT * FROM {table.sql}")
        read.append(table.sql)
        if services.catalog.inline_views(text) is not text:
            raise UnsupportedError(f"{table.display!r} is a view with AI calls, which plans cannot read: send SQL")

    read = list[str]()
    names = call_names(services)
    found = read_client_plan(
        encoded, services.functions, check_table, check_no_own_names, names, most_terms=limits.sql_terms
    )
    reading = ", ".join(f"(SELECT 1 FROM {table})" for table in read)
    services.catalog.inline_views(ParsedText(f"SELECT {reading}"))  # this refuses too many uses of large views
    try:
        return plan_extracted(Extracted("", found.calls, plan=found.encoded), services, settings)
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # pyo3's class, which is not an Exception and cannot be imported
            raise InvalidInputError(
                "the plan is malformed: it refers to a column or part that does not exist"
            ) from None
        raise
