"""JSON Web Tokens, verified with a key set; needs the extra `jwt`."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from flightllm.access.keys import FetchedKeys
from flightllm.common.redaction import keep_secret
from flightllm.config.auth import AuthConfig
from flightllm.errors import ConfigError, MissingExtraError, UnauthenticatedError

if TYPE_CHECKING:
    from jwt import PyJWK, PyJWKSet

_log = structlog.get_logger(__name__)
_FETCH_SECONDS = 10
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Only algorithms with a public key: with a shared secret, a leaked key set could sign tokens."""


class JwtClaims:
    """Verifies tokens with a JSON Web Key Set from a file or an address; an unknown key makes it read the set again."""

    def __init__(self, config: AuthConfig) -> None:
        try:
            import jwt
        except ImportError as error:
            raise MissingExtraError("[auth] jwks", "jwt") from error
        self._jwt = jwt
        self._config = config
        place = config.jwks or ""
        self._file = Path(place.removeprefix("file:")).expanduser() if place.startswith("file:") else None
        if "@" in place or "?" in place:
            keep_secret(place)  # a login or a parameter of the address, which an error of the fetch can quote
        client = None if self._file else jwt.PyJWKClient(place, cache_jwk_set=False, timeout=_FETCH_SECONDS)
        self._fetched = None if client is None else FetchedKeys(lambda: self._by_id(client.get_jwk_set()))
        self._lock = threading.Lock()
        self._read_at = -1
        self._keys: Mapping[str, PyJWK] = {}
        if self._file is not None:
            self._of_file(None)

    def read(self, token: str) -> Mapping[str, Any]:
        """Return a token's claims.

        Raises:
            UnauthenticatedError: signature, expiry, issuer or audience are wrong.
            ConfigError: the key set cannot be read.
        """
        jwt = self._jwt
        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=self._config.audience,
                issuer=self._config.issuer,
                options={"require": ["exp"], "verify_aud": self._config.audience is not None},
            )
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(f"the token is not valid: {error}") from error
        return claims

    def _key(self, kid: str | None) -> "PyJWK":
        if self._fetched is not None:
            return self._of_address(self._fetched, kid)
        return self._of_file(kid)[kid or next(iter(self._keys), "")]

    def _of_address(self, fetched: FetchedKeys, kid: str | None) -> "PyJWK":
        try:
            found = fetched.find(kid)
        except Exception as error:
            raise UnauthenticatedError(
                "the server cannot fetch the keys that verify tokens; try again later"
            ) from error
        if found is None:
            raise UnauthenticatedError(f"the token is signed by the key {kid!r}, which the server does not know")
        return found

    def _by_id(self, keys: "PyJWKSet") -> Mapping[str, "PyJWK"]:
        return {key.key_id or str(number): key for number, key in enumerate(keys.keys)}

    def _of_file(self, kid: str | None) -> Mapping[str, "PyJWK"]:
        """Return the file's keys by id; read the file again if it changed."""
        file = self._file or Path()
        with self._lock:
            try:
                changed = file.stat().st_mtime_ns
                if changed != self._read_at:
                    found = self._jwt.PyJWKSet.from_dict(json.loads(file.read_text(encoding="utf-8")))
                    self._keys = self._by_id(found)
                    self._read_at = changed
            except (OSError, ValueError, self._jwt.PyJWTError) as error:
                if self._read_at < 0:
                    raise ConfigError(f"[auth] jwks: cannot read the key set {file}: {error}") from error
                _log.warning("the key set cannot be read, the former keys stay", path=str(file), error=str(error))
        if kid is not None and kid not in self._keys:
            raise UnauthenticatedError(f"the token is signed by the key {kid!r}, which the server does not know")
        return self._keys
