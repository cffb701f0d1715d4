"""Who a session belongs to."""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["admin", "user", "readonly"]
ROLES: tuple[Role, ...] = get_args(Role)
"""`admin` may do everything; `user` also creates and changes tables; `readonly` only asks.

Each may what the next one may.
"""


@dataclass(frozen=True, slots=True)
class Principal:
    """A user as sessions know it: its role, further roles that grants and policies may name, and its tenant."""

    name: str
    role: Role
    groups: frozenset[str] = frozenset()
    tenant: str = ""
    known: bool = True
    """The server keeps its name: one that somebody else vouches for may be that of a group which grants name."""
    claimed: Role | None = None
    """The role that an identity provider gave to a user whom the server keeps too; it holds for the whole session."""

    @property
    def is_admin(self) -> bool:
        """Tell whether it may do everything."""
        return self.role == "admin"

    @property
    def grantees(self) -> frozenset[str]:
        """Return the names under which something may be granted to it."""
        return self.groups | {self.role, *([self.name] if self.known else [])}


LOCAL = Principal("local", "admin")
"""Whoever asks a server that has no users and asks for no token, and whoever holds the server's own token."""
