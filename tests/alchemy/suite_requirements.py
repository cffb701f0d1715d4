"""Features for SQLAlchemy's own tests of dialects; a process of `test_suite.py` loads it."""

from itertools import count
from typing import Any

import sqlalchemy
from sqlalchemy.testing import exclusions
from sqlalchemy.testing.provision import temp_table_keyword_args
from sqlalchemy.testing.requirements import SuiteRequirements

_OPEN = """
array_type cross_schema_fk_reflection ctes ctes_on_dml ctes_with_update_delete ctes_with_values datetime_interval
datetime_literals datetime_microseconds datetime_timezone delete_from delete_returning except_
expressions_against_unbounded_text fetch_no_order_by foreign_key_constraint_option_reflection_ondelete
get_isolation_level_values implicit_default_schema infinity_floats insert_from_select insert_returning intersect
isolation_level json_array_indexes json_type literal_float_coercion multivalues_inserts named_constraints nullsordering
order_by_col_from_union order_by_label_with_expression parens_in_union_contained_select_w_limit_offset
precision_numerics_enotation_large regexp_match regexp_replace sane_multi_rowcount sane_rowcount schema_reflection
schemas
sql_expression_limit_offset standalone_binds temp_table_reflection text_type time_microseconds timestamp_microseconds
tuple_in tuple_in_w_empty unbounded_varchar unicode_ddl unique_constraint_reflection update_from update_returning
update_where_target_in_subquery uuid_data_type views window_functions
"""
_CLOSED = """
autoclose_insert autocommit autoincrement_insert check_constraint_reflection comment_reflection computed_columns
datetime_historic empty_inserts empty_inserts_executemany enforces_foreign_keys enforces_unique_constraints
identity_columns implements_get_lastrowid index_reflection isolated_transactions savepoints sequences supports_lastrowid
temporary_views time_timezone two_phase_transactions uuid_native
"""
_numbers = count(1)


def _property(rule: Any) -> property:
    return property(lambda _: rule())


class Requirements(SuiteRequirements):
    """The features that the tests can use."""


for _name in _OPEN.split():
    setattr(Requirements, _name, _property(exclusions.open))
for _name in _CLOSED.split():
    setattr(Requirements, _name, _property(exclusions.closed))


@temp_table_keyword_args.for_db("flightllm")
def temporary(_config: Any, _engine: Any) -> dict[str, list[str]]:
    """Return the arguments of a temporary table."""
    return {"prefixes": ["TEMPORARY"]}


@sqlalchemy.event.listens_for(sqlalchemy.Table, "after_parent_attach")
def number(table: Any, _parent: Any) -> None:
    """Number the keys of a table for JSON, whose tests take it for granted that a database does it."""
    if table.name == "data_table" and "id" in table.c and table.c.id.default is None:
        default = sqlalchemy.ColumnDefault(lambda: next(_numbers))
        table.c.id.default = default
        default._set_parent(table.c.id)
