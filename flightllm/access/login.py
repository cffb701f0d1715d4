"""Authentication of callers: by password, token, signed claims or certificate."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from flightllm.access.passwords import TOKEN_PREFIX, hash_token, is_password
from flightllm.access.scram import ScramVerifier
from flightllm.access.store import AccessSnapshot, AccessStore, User
from flightllm.common.principal import LOCAL, ROLES, Principal, Role
from flightllm.config.auth import AuthConfig
from flightllm.errors import ConfigError, UnauthenticatedError

LOGIN_PREFIX = "login."
"""The prefix of the tokens that `by_password` returns."""
TOKEN_USER = "token"  # noqa: S105 - a name
"""The user name beside a token, where the client must send a name."""
_log = structlog.get_logger(__name__)
_HOW = "send a bearer token (`authorization: Bearer …`), or user name and password"


class Claims(Protocol):
    """Verifies tokens that an identity provider signed."""

    def read(self, token: str) -> Mapping[str, Any]:
        """Return a token's claims; raises `UnauthenticatedError` if it is not valid."""


class Login:
    """Turns a client's credentials into a principal. Safe to use from several threads.

    A server without users, key set and `secret` is open: each caller is `LOCAL`, an admin.
    """

    def __init__(
        self, store: AccessStore, config: AuthConfig, secret: str | None = None, claims: Claims | None = None
    ) -> None:
        self._store = store
        self._config = config
        self._secret = secret
        self._claims = claims
        self._spare_key = hashlib.sha256((secret or secrets.token_hex()).encode()).digest()
        """Signs login tokens while the server keeps no users."""

    @property
    def is_open(self) -> bool:
        """Return whether callers need no credentials."""
        return self._is_open(self._store.snapshot())

    @property
    def takes_others(self) -> bool:
        """Return whether users that this server does not keep can call, by signed claims or a certificate."""
        return self._claims is not None or self._config.default_role is not None

    def anonymous(self) -> Principal:
        """Return the principal of a caller without credentials.

        Raises:
            UnauthenticatedError: the server is not open.
        """
        if not self.is_open:
            raise UnauthenticatedError(f"this server requires a login: {_HOW}")
        return LOCAL

    def by_password(self, name: str, password: str) -> tuple[Principal, str]:
        """Return the user with this name and password, and a token for the following calls.

        A token is valid as password too; the server's own token is valid with any name.

        Raises:
            UnauthenticatedError: no user has this name and password.
        """
        snapshot = self._store.snapshot()
        if self._is_open(snapshot):
            return LOCAL, self._issue("", "open")
        if self._secret is not None and _same(password, self._secret):
            return LOCAL, self._issue("", self._secret)
        if password.startswith(TOKEN_PREFIX):
            principal = self._by_api_token(password, snapshot)
            if name in ("", TOKEN_USER, principal.name):
                return principal, self._issue(principal.name, hash_token(password))
        user = snapshot.users.get(name)
        if not is_password(password, user.password if user else None) or user is None:
            raise UnauthenticatedError(f"wrong user name or password; {_HOW}")
        return user.principal, self._issue(name, user.password or "")

    def by_secret(self, name: str, secret: str) -> Principal:
        """Return the user with this name and password, API token or signed claims, for a protocol with one password.

        A password that has no verifier for SCRAM yet gets one.

        Raises:
            UnauthenticatedError: see `by_password` and `by_token`, or the token belongs to another user.
        """
        if secret.startswith(LOGIN_PREFIX) or (self._claims is not None and secret.count(".") == 2):
            principal = self.by_token(secret)
            if name not in ("", TOKEN_USER, principal.name):
                raise UnauthenticatedError(f"the token is not of the user {name!r}: log in as {TOKEN_USER!r}")
            return principal
        principal, _ = self.by_password(name, secret)
        user = self._store.snapshot().users.get(name)
        if user is not None and user.password and is_password(secret, user.password):
            try:
                self._store.add_verifier(user, secret)
            except ConfigError as error:  # a full disk must not lock users out
                _log.warning("the verifier of a password could not be stored", user=name, error=str(error))
        return principal

    def verifier(self, name: str) -> ScramVerifier | None:
        """Return the verifier with which a client of this name proves its password; None to ask for the secret itself.

        The secret is asked for where the name's user has no verifier, and where the server takes signed claims. A name
        without a user gets an answer that a user could get, always the same.
        """
        snapshot = self._store.snapshot()
        if name in ("", TOKEN_USER) or self._claims is not None or not snapshot.verifiers:
            return None
        if name in snapshot.users:
            return snapshot.verifiers.get(name)
        key = self._store.signing_key() or self._spare_key
        draw = int.from_bytes(hmac.digest(key, b"asked:" + name.encode("utf-8", "surrogatepass"), "sha256")[:4])
        if draw * len(snapshot.users) >= len(snapshot.verifiers) << 32:
            return None
        return ScramVerifier.mock(name, key)

    def by_proof(self, name: str, verifier: ScramVerifier, proof: bytes, signed: bytes) -> Principal:
        """Return the user whose verifier accepts a client's proof for the signed messages.

        Raises:
            UnauthenticatedError: there is no such user, or the proof is wrong.
        """
        snapshot = self._store.snapshot()
        if not verifier.proves(proof, signed) or snapshot.verifiers.get(name) != verifier:
            raise UnauthenticatedError(f"wrong user name or password; an API token logs in as user {TOKEN_USER!r}")
        return snapshot.users[name].principal

    def by_token(self, token: str) -> Principal:
        """Return the user of a bearer token: one of `by_password`, an API token, the server's own, or signed claims.

        Raises:
            UnauthenticatedError: the token is not valid, or no longer valid.
        """
        snapshot = self._store.snapshot()
        if token.startswith(LOGIN_PREFIX):
            return self._by_login(token, snapshot)
        if token.startswith(TOKEN_PREFIX):
            return self._by_api_token(token, snapshot)
        if self._secret is not None and _same(token, self._secret):
            return LOCAL
        if self._claims is not None and token.count(".") == 2:
            return self._by_claims(self._claims.read(token), snapshot)
        if self._is_open(snapshot):
            return LOCAL
        raise UnauthenticatedError("the bearer token is not valid here; log in again")

    def by_certificate(self, name: str) -> Principal:
        """Return the user that a verified client certificate names.

        Raises:
            UnauthenticatedError: there is no such user.
        """
        return self._named(name, {}, self._store.snapshot())

    def current(self, principal: Principal, snapshot: AccessSnapshot | None = None) -> Principal:
        """Return the present state of a principal, or its state in a snapshot: an admin can change users after a login.

        Raises:
            UnauthenticatedError: the principal is no longer a user of this server.
        """
        if principal == LOCAL:
            return principal
        snapshot = snapshot or self._store.snapshot()
        user = snapshot.users.get(principal.name)
        if user is not None and (principal.claimed is not None or not principal.known):
            return self._linked(user, principal.claimed or principal.role)
        if user is not None:
            return user.principal
        if principal.known or not self.takes_others:
            raise UnauthenticatedError(f"{principal.name!r} is no longer a user of this server")
        _check_no_departed(principal.name, snapshot)
        return principal

    def _is_open(self, snapshot: AccessSnapshot) -> bool:
        return self._secret is None and self._claims is None and not snapshot.closed

    def _by_api_token(self, token: str, snapshot: AccessSnapshot) -> Principal:
        found = snapshot.tokens.get(hash_token(token))
        if found is None or found.user not in snapshot.users:
            raise UnauthenticatedError("the API token is not valid here, or was revoked")
        if found.expires is not None and found.expires <= datetime.now(UTC):
            raise UnauthenticatedError(f"the API token expired at {found.expires:%Y-%m-%d %H:%M} UTC: make a new one")
        return snapshot.users[found.user].principal

    def _by_claims(self, claims: Mapping[str, Any], snapshot: AccessSnapshot) -> Principal:
        name = claims.get(self._config.user_claim)
        if not isinstance(name, str) or not name:
            raise UnauthenticatedError(f"the token's claim {self._config.user_claim!r} names no user")
        if name in snapshot.users:
            return self._linked(snapshot.users[name], self._role(name, claims, snapshot.users[name].role))
        return self._named(name, claims, snapshot)

    @staticmethod
    def _linked(user: User, role: Role) -> Principal:
        """Return a user of this server, vouched for by an identity provider, with the role that its claims give.

        Raises:
            UnauthenticatedError: no admin has linked the user to the identity provider's user.
        """
        if not user.linked:
            raise UnauthenticatedError(
                f"{user.name!r} is a user of this server, not linked to the identity provider's user: log in by its"
                f" password or API token, or ask an admin to link them by `flightllm user set {user.name} --linked`"
            )
        return replace(user.principal, role=role, claimed=role)

    def _role(self, name: str, claims: Mapping[str, Any], default: str | None) -> Role:
        """Return the role that claims give.

        Raises:
            UnauthenticatedError: the role is unknown, or the claims have no role and there is no default.
        """
        role = claims.get(self._config.role_claim, default)
        for one in ROLES:
            if role == one:
                return one
        if self._config.role_claim in claims:
            raise UnauthenticatedError(f"the token's role {role!r} is unknown; there are: {', '.join(ROLES)}")
        raise UnauthenticatedError(
            f"{name!r} is not a user of this server: an admin can add it by `flightllm user add`"
        )

    def _named(self, name: str, claims: Mapping[str, Any], snapshot: AccessSnapshot) -> Principal:
        """Return the user with a verified name; role and groups of an unknown user come from claims."""
        if name in snapshot.users:
            return snapshot.users[name].principal
        known_groups = frozenset[str]().union(*(user.groups for user in snapshot.users.values()))
        if not name or name in {LOCAL.name, *ROLES, *known_groups}:
            raise UnauthenticatedError(f"{name!r} cannot be the name of a user")
        _check_no_departed(name, snapshot)
        role = self._role(name, claims, self._config.default_role)
        try:
            self._store.note(name)
        except ConfigError as error:  # a full disk must not lock users out
            _log.warning("the name of an identity provider's user could not be stored", user=name, error=str(error))
        groups = claims.get(self._config.groups_claim)
        groups = groups if isinstance(groups, list) else []
        plain = [group for group in groups if isinstance(group, str) and group not in (*ROLES, *snapshot.users)]
        tenant = claims.get(self._config.tenant_claim, "")
        return Principal(name, role, frozenset(plain), tenant if isinstance(tenant, str) else "", known=False)

    # --- login tokens: the signature outlives the process; a token is void once the password or token behind it changes

    def _issue(self, name: str, proof: str) -> str:
        payload = json.dumps([name, _digest(proof), int(time.time()), secrets.token_hex(8)])
        text = base64.urlsafe_b64encode(payload.encode()).decode().rstrip("=")
        return f"{LOGIN_PREFIX}{text}.{self._signature(text)}"

    def _by_login(self, token: str, snapshot: AccessSnapshot) -> Principal:
        if self._is_open(snapshot):
            return LOCAL
        text, _, signature = token.removeprefix(LOGIN_PREFIX).partition(".")
        if not _same(signature, self._signature(text)):
            raise UnauthenticatedError("the login token is not valid here; log in again")
        name, proof, issued, _ = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if (
            abs(time.time() - issued) > self._config.login_seconds
        ):  # abs(): a token from a clock that was far ahead must expire, too
            raise UnauthenticatedError("the login expired; log in again")
        if not name:
            proofs = [self._secret] if self._secret else []
        else:
            user = snapshot.users.get(name)
            now = datetime.now(UTC)
            tokens = [
                hash_
                for hash_, kept in snapshot.tokens.items()
                if kept.user == name and (kept.expires is None or kept.expires > now)
            ]
            proofs = [*tokens, user.password or ""] if user else []
        if proof not in map(_digest, proofs):
            raise UnauthenticatedError("the login is no longer valid; log in again")
        return snapshot.users[name].principal if name else LOCAL

    def _signature(self, text: str) -> str:
        return hmac.new(self._store.signing_key() or self._spare_key, text.encode(), "sha256").hexdigest()


def _check_no_departed(name: str, snapshot: AccessSnapshot) -> None:
    """Check that a name verified elsewhere is not the name of a dropped user, whose tables the caller would own.

    Raises:
        UnauthenticatedError: a user of this name was dropped.
    """
    if name in snapshot.departed:
        raise UnauthenticatedError(
            f"another user {name!r} was dropped from this server; tables, prompts and queries of that user remain:"
            f" an admin can give them to you by `flightllm user add {name} --no-password --linked --again`"
        )


def _digest(proof: str) -> str:
    return hashlib.sha256(proof.encode()).hexdigest()[:32]


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(), right.encode())
