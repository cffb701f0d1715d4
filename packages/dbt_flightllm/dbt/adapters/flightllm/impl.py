"""The adapter, which answers the questions of dbt about a database."""

import re
from typing import Any

from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.flightllm.connections import FlightLLMConnectionManager
from dbt.adapters.sql import SQLAdapter
from dbt_common.contracts.constraints import ConstraintType


class FlightLLMAdapter(SQLAdapter):
    """The adapter of the type `flightllm`."""

    ConnectionManager = FlightLLMConnectionManager
    _capabilities = CapabilityDict({Capability.SchemaMetadataByRelations: CapabilitySupport(support=Support.Full)})

    CONSTRAINT_SUPPORT = dict.fromkeys(ConstraintType, ConstraintSupport.NOT_SUPPORTED)
    """A table that is made of a query's rows has no constraints, so dbt warns of each."""

    @classmethod
    def date_function(cls) -> str:
        """Return the function of the present time."""
        return "now()"

    @classmethod
    def convert_text_type(cls, agate_table: Any, col_idx: int) -> str:
        """Return the type of texts in seeds."""
        del agate_table, col_idx
        return "varchar"

    @classmethod
    def convert_number_type(cls, agate_table: Any, col_idx: int) -> str:
        """Return the type of a seed's numbers."""
        import agate

        return "double precision" if agate_table.aggregate(agate.MaxPrecision(col_idx)) else "bigint"

    @classmethod
    def convert_integer_type(cls, agate_table: Any, col_idx: int) -> str:
        """Return the type of a seed's whole numbers."""
        del agate_table, col_idx
        return "bigint"

    @classmethod
    def convert_datetime_type(cls, agate_table: Any, col_idx: int) -> str:
        """Return the type of a seed's times."""
        del agate_table, col_idx
        return "timestamp(6)"

    def post_model_hook(self, config: Any, context: Any) -> None:
        """Note the cost of a node before dbt shows its result."""
        del config, context
        self.connections.settle()

    def drop_schema(self, relation: BaseRelation) -> None:
        """Drop a schema with its tables and views: the server drops only an empty one."""
        for one in sorted(self.list_relations_without_caching(relation), key=lambda one: one.type != RelationType.View):
            self.drop_relation(one)
        super().drop_schema(relation)

    @available
    def valid_incremental_strategies(self) -> list[str]:
        """Return the ways to add to a table."""
        return ["append", "delete+insert", "merge"]

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Return the tables and views of a schema."""
        handle = self.connections.get_thread_connection().handle
        wanted = str(schema_relation.schema)
        with self.connections.exception_handler("list of tables"):
            pattern = re.sub(r"([\\%_])", r"\\\1", wanted)
            found = handle.adbc.adbc_get_objects(depth="tables", db_schema_filter=pattern).read_all().to_pylist()
        return [
            self.Relation.create(
                database=schema_relation.database,
                schema=wanted,
                identifier=table["table_name"],
                type=RelationType.View if table["table_type"] == "VIEW" else RelationType.Table,
                quote_policy={"database": True, "schema": True, "identifier": True},
            )
            for catalog in found
            for schema in catalog["catalog_db_schemas"] or ()
            if schema["db_schema_name"] == wanted
            for table in schema["db_schema_tables"] or ()
        ]
