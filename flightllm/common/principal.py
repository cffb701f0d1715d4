"""The user that a session belongs to."""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["admin", "user", "readonly"]
ROLES: tuple[Role, ...] = get_args(Role)
"""`admin` can do everything; `user` can query, and create and change tables; `readonly` can only query.

Each role includes the rights of the next one.
"""


@dataclass(frozen=True, slots=True)
class Principal:
    """A user as sessions know it: the role, further roles that grants and policies can name, and the tenant."""

    name: str
    role: Role
    groups: frozenset[str] = frozenset()
    tenant: str = ""
    known: bool = True
    """True where the server keeps this user. Other parties' user names can equal the name of a group in grants."""
    claimed: Role | None = None
    """The role that an identity provider gave to a user whom the server keeps too; it holds for the whole session."""

    @property
    def is_admin(self) -> bool:
        """Return whether the user can do everything."""
        return self.role == "admin"

    @property
    def grantees(self) -> frozenset[str]:
        """Return the names under which something can be granted to the user."""
        return self.groups | {self.role, *([self.name] if self.known else [])}


LOCAL = Principal("local", "admin")
"""The user of a server without users and without a token, and the user who presents the server's own token."""
