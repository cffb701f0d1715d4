"""Prepared statements and portals of one connection."""

from dataclasses import dataclass, field

import pyarrow as pa

from flightllm.execution.describe import Description
from flightllm.postgres.failures import WireError
from flightllm.postgres.results import Result

MOST, MOST_BYTES = 10_000, 64 << 20
"""The most prepared statements or portals of a connection, and the most bytes of their texts and values."""


@dataclass(slots=True)
class Prepared:
    """A statement with the oids that its client declared; 0 stands for an undeclared type."""

    text: str
    oids: tuple[int, ...] = ()
    description: Description | None = None
    told: pa.Schema | None = None
    """The columns of its last portal that the client described; JDBC takes them for further portals too."""
    from_sql: bool = False
    """Whether PREPARE made it; the protocol's statements have the same names."""
    before: int = 0
    """The characters before it in the text that the client sent."""

    @property
    def place(self) -> tuple[str, int]:
        """Return the text, and the number of characters before it."""
        return self.text, self.before


@dataclass(slots=True)
class Portal:
    """A statement with its values: a result that is read in parts. `codes` are the formats of its columns."""

    prepared: Prepared
    values: pa.Table | None = None
    codes: tuple[int, ...] = ()
    result: Result | None = None
    size: int = 0
    is_over: bool = False
    hold: bool = False
    """Whether it outlives its transaction."""
    is_cursor: bool = False
    position: int = 0
    promised: pa.Schema | None = None
    rights: object = None
    """The rights of the user when the query was started."""

    def close(self) -> None:
        """Stop its query."""
        if self.result is not None:
            self.result.close()

    def formats(self, columns: int) -> list[int]:
        """Return the format of each column.

        Raises:
            WireError: the client gave another number of formats.
        """
        if len(self.codes) <= 1:
            return list(self.codes or (0,)) * columns
        if len(self.codes) != columns:
            raise WireError(
                "08P01", f"bind message has {len(self.codes)} result formats but query has {columns} columns"
            )
        return list(self.codes)


@dataclass(slots=True)
class Names:
    """The prepared statements and portals of a connection, by name."""

    statements: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)

    def add_statement(self, name: str, prepared: Prepared) -> None:
        """Keep a statement; the one without a name is replaced.

        Raises:
            WireError: the name is taken, or too many are kept.
        """
        if name and name in self.statements:
            raise WireError("42P05", f'prepared statement "{name}" already exists')
        if (
            len(self.statements) >= MOST
            or sum(len(one.text) for one in self.statements.values()) + len(prepared.text) > MOST_BYTES
        ):
            raise WireError("54000", "too many prepared statements", hint="close some, such as by DEALLOCATE ALL")
        self.statements[name] = prepared

    def statement(self, name: str) -> Prepared:
        """Return a prepared statement.

        Raises:
            WireError: there is no statement or portal of this name.
        """
        if name not in self.statements:
            shown = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise WireError("26000", f"{shown} does not exist")
        return self.statements[name]

    def add_portal(self, name: str, portal: Portal) -> None:
        """Keep a portal; the one without a name is replaced.

        Raises:
            WireError: the name is taken, or too many are kept.
        """
        if name and name in self.portals:
            raise WireError("42P03", f'{"cursor" if portal.is_cursor else "portal"} "{name}" already exists')
        if len(self.portals) >= MOST or sum(one.size for one in self.portals.values()) + portal.size > MOST_BYTES:
            raise WireError("54000", "too many portals", hint="close some")
        self.close_portal(name)
        self.portals[name] = portal

    def portal(self, name: str, kind: str = "portal") -> Portal:
        """Return a portal.

        Raises:
            WireError: there is no statement or portal of this name.
        """
        if name not in self.portals:
            raise WireError("34000", f'{kind} "{name}" does not exist')
        return self.portals[name]

    def close_portal(self, name: str) -> None:
        """Close a portal, if there is one."""
        portal = self.portals.pop(name, None)
        if portal is not None:
            portal.close()

    def close_portals(self, *, also_held: bool = False) -> None:
        """Close the portals that end with their transaction."""
        for name in [name for name, one in self.portals.items() if also_held or not one.hold]:
            self.close_portal(name)
