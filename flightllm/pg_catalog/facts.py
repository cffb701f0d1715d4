"""The schemas, tables, keys and roles that one session can see, with the numbers that PostgreSQL's catalog has."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import pyarrow as pa

from flightllm import __version__
from flightllm.common.names import CATALOG, TableName
from flightllm.common.principal import LOCAL
from flightllm.pg_catalog.data import Relation, relations
from flightllm.sql.keys import ForeignKey, Key, TableKeys

FIRST_OWN: Final = 16_384
"""PostgreSQL gives numbers from here on to what users create."""
_MOST: Final = 2**31 - 1
"""Drivers read the numbers as signed whole numbers of 32 bits."""
SERVER_VERSION: Final = "15.0"
"""The version of PostgreSQL whose catalog this is. Clients choose their queries by it."""
SHOWN_VERSION: Final = f"{SERVER_VERSION} (FlightLLM {__version__})"
FULL_VERSION: Final = f"PostgreSQL {SHOWN_VERSION}"
"""The text that `version()` returns."""
PG_CATALOG: Final = 11
TOP_ROLE: Final = 10
_KNOWN_SCHEMAS: Final = {"pg_catalog": PG_CATALOG, "public": 2200}


class Numbers:
    """Gives each object a number that follows from its names, so it stays the same after a restart."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, ...], int] = {}
        self._taken: set[int] = {one.oid for one in relations().values()}

    def of(self, *names: str) -> int:
        """Return the number of an object: what it is, and its names. If another object has it, take the next one."""
        if (found := self._given.get(names)) is not None:
            return found
        digest = int.from_bytes(sha256("\0".join(names).encode()).digest()[:8], "big")
        number = FIRST_OWN + digest % (_MOST - FIRST_OWN)
        while number in self._taken:
            number = number + 1 if number < _MOST else FIRST_OWN
        self._taken.add(number)
        self._given[names] = number
        return number


@dataclass(frozen=True, slots=True)
class Seen:
    """A table or view that the session can see; `size` is in bytes, and `rows` is -1 where it is unknown."""

    name: TableName
    is_view: bool
    schema: pa.Schema
    keys: TableKeys
    owner: str
    defaults: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None
    """The text of a view; None where the session must not see it."""
    size: int = 0
    rows: int = -1


@dataclass(frozen=True, slots=True)
class Called:
    """A function that the server has beside PostgreSQL's: its arguments and its result as people write them."""

    name: str
    arguments: str
    result: str
    summary: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """A key, with the number of its constraint and, for a primary key or unique columns, of its index."""

    oid: int
    index: int
    kind: str
    """`p`, `u` or `f`."""
    key: Key | ForeignKey
    table: Seen
    table_oid: int


@dataclass(frozen=True)
class Facts:
    """The objects of one session at one moment."""

    schemas: Sequence[str]
    tables: Sequence[Seen]
    functions: Sequence[Called] = ()
    numbers: Numbers = field(default_factory=Numbers)

    def __post_init__(self) -> None:
        for schema in self.schemas:
            self.schema_oid(schema)
        for table in self.tables:
            self.oid(table.name)

    def schema_oid(self, name: str) -> int:
        """Return the number of a schema."""
        return _KNOWN_SCHEMAS.get(name) or self.numbers.of("schema", name)

    def oid(self, name: TableName) -> int:
        """Return the number of a table or view."""
        return self.numbers.of("relation", name.schema, name.name)

    def role_oid(self, name: str) -> int:
        """Return the number of a user, a group or a role."""
        return TOP_ROLE if name == LOCAL.name else self.numbers.of("role", name)

    def function_oid(self, name: str) -> int:
        """Return the number of a function of the server's own."""
        return self.numbers.of("function", name)

    @property
    def database_oid(self) -> int:
        """Return the number of the only database."""
        return self.numbers.of("database", CATALOG)

    def constraints(self) -> Iterable[Constraint]:
        """Yield the keys of all tables; a foreign key to a table that the session cannot see is left out."""
        by_name = {table.name: table for table in self.tables}
        for table in self.tables:
            keys = table.keys
            primary = [("p", keys.primary)] if keys.primary is not None else []
            found: list[tuple[str, Key | ForeignKey]] = [*primary, *(("u", key) for key in keys.unique)]
            found += [("f", key) for key in keys.foreign if key.table in by_name]
            for kind, key in found:
                names = (table.name.schema, table.name.name, key.name)
                index = 0 if kind == "f" else self.numbers.of("index", *names)
                yield Constraint(self.numbers.of("constraint", *names), index, kind, key, table, self.oid(table.name))

    def system_relations(self) -> Iterable[Relation]:
        """Yield the relations of the catalog itself."""
        return relations().values()


@dataclass(frozen=True)
class Session:
    """The values of functions such as `current_user`, and the facts that change from statement to statement."""

    user: str
    path: Sequence[str]
    """The schemas in which names are looked up; `pg_catalog` is before them."""
    version: str
    process: int
    roles: Callable[[], Sequence[Mapping[str, object]]]
    """Return the visible users: `name` and `role`."""
    grants: Callable[[], Sequence[Mapping[str, object]]]
    """Return the visible grants, as `system.grants` has them."""
    sessions: Callable[[], Sequence[Mapping[str, object]]]
    """Return the visible sessions, as `system.sessions` has them."""
    settings: Callable[[], Mapping[str, str]]
    """Return the values of settings by name."""
    set_parameter: Callable[[str, str], bool]
    """Change a parameter of the client's connection; return False for one that the connection does not keep."""
    cancel: Callable[[int], bool]
    """Cancel the statements of the session with this number; return whether the user could cancel any."""
    may: Callable[[str, TableName | str], bool]
    """Return whether the user has a privilege on a table, or on the schema that a text names."""
