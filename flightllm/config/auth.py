"""How the server authenticates callers whom it does not keep as users."""

from dataclasses import dataclass

from flightllm.common.principal import ROLES
from flightllm.config.checks import at_least_one, one_of
from flightllm.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """JSON Web Tokens and logins. Tokens are checked against the key set `jwks`: `file:PATH` or an https address.

    A user whom the server does not keep gets the role in the token, else `default_role`; without both, the user is
    refused.
    """

    jwks: str | None = None
    issuer: str | None = None
    audience: str | None = None
    user_claim: str = "sub"
    role_claim: str = "role"
    groups_claim: str = "groups"
    tenant_claim: str = "tenant"
    default_role: str | None = None
    login_seconds: int = 86_400

    def __post_init__(self) -> None:
        at_least_one("auth", login_seconds=self.login_seconds)
        if self.default_role is not None:
            one_of("[auth] default_role", self.default_role, ROLES)
        if self.jwks is not None and not self.jwks.startswith(("file:", "https://")):
            raise ConfigError("[auth] jwks: write file:PATH or an address that begins with https://")
